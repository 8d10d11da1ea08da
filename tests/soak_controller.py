"""A soak of the controller: hostile clients at all its doors, beside an operator and four routers, on loopback.

The controller is a process of its own, and so are the hostile clients; the operator and the routers are threads here. A
hostile client does one of `TRICKS` again and again, with pauses of a fraction of a second. `bench/controller.py` runs
it for ten minutes and holds it against its bounds, `tests/unit/controllers/test_soak.py` for some seconds.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import multiprocessing
import os
import random
import re
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from controllers.settings import make_secrets
from testbed.subjects.srv6.session.messages import router_key
from tests.fake_routers import FakeRouter, Fleet, report

ROOT = Path(__file__).parents[1]
LINKS = [("R1", "R2", 5), ("R2", "R3", 5), ("R3", "R4", 5)]
NAMES = ("R1", "R2", "R3", "R4")
SITES = [{"router": name, "interfaces": [], "prefixes": [f"10.{name[1:]}.0.0/16"]} for name in ("R1", "R4")]
OPERATOR_PAUSE_S = 0.05
START_S = 60.0
"""The time within which the controller is ready, on a busy machine too."""
ALONE = """
import signal
from controllers.io_loop import IoLoop
from controllers.settings import Settings
service = IoLoop(Settings.read())
signal.signal(signal.SIGTERM, lambda *_: service.stop())
print(f"agents {service.agents_at}, REST {service.rest_at}, OpenFlow -, alone", flush=True)
service.serve()
"""
"""The program of the service without a library, for machines that have none. It has no door for switches."""

HELLO = {"protocol": "xoff-srv6", "versions": [1], "role": "agent", "name": "R1", "nonce": "ab" * 32}


def _framed(content: object) -> bytes:
    octets = json.dumps(content).encode()
    return len(octets).to_bytes(4) + octets


def _request(head: str, token: str = "not the token of anybody") -> bytes:
    return f"{head} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n".encode()


SWITCH = [
    b"\x04\x00\x00\x08\x00\x00\x00\x01",
    b"\x04\x06\x00\x20\x00\x00\x00\x02" + bytes(7) + b"\x09" + b"\x00\x00\x01\x00\xfe" + bytes(11),
    b"\x04\x13\x00\x10\x00\x00\x00\x03\x00\x0d" + bytes(6),
    b"\x04\x0a\x00\x2a\x00\x00\x00\x04" + b"\xff" * 4 + bytes(12) + b"\x00\x01\x00\x04" + bytes(20),
]
"""Messages of OpenFlow 1.3: hello, features, no ports, and then a frame that came in by no port."""

TRICKS: dict[str, tuple[str, list[bytes], float]] = {
    # The door, what is sent in which pieces, and how many seconds the connection is kept after it.
    "silent at REST": ("rest", [], 3.0),
    "a head octet by octet": ("rest", [bytes([octet]) for octet in _request("GET /topology")[:40]], 1.0),
    "no token": ("rest", [_request("GET /topology") + b"\r\n"], 0.0),
    "a body without a token": ("rest", [_request("POST /policies") + b"Content-Length: 200000\r\n\r\n"], 1.0),
    "blanks": ("rest", [_request("GET /topology") + b"X:" + b" " * 7000 + b"\x00\r\n\r\n"], 0.0),
    "many requests ahead": ("rest", [(_request("GET /openapi.json") + b"\r\n") * 50], 0.2),
    "octets at REST": ("rest", [bytes(range(256)) * 20 + b"\r\n\r\n"], 0.0),
    "silent at agents": ("agents", [], 3.0),
    "an unknown key in a hello": ("agents", [_framed(HELLO | {"more": 1})], 1.0),
    "a hello and no proof": ("agents", [_framed(HELLO), (4 << 20).to_bytes(4) + b"{" * 60_000], 0.5),
    "a refusal of many values": ("agents", [_framed(HELLO), _framed({str(n): n for n in range(100)})], 0.2),
    "octets at agents": ("agents", [bytes(3) + b"\xff" * 300], 0.0),
    "short visits to agents": ("agents", [b"\x00"], 0.0),
    "silent at switches": ("openflow", [], 2.0),
    "octets at switches": ("openflow", [b"\x04\x00\x00\x08\x00\x00\x00\x01\x04\x06\x00\x20" + b"\xff" * 20], 0.0),
    "OpenFlow of no type": ("openflow", [b"\x04\x00\x00\x08\x00\x00\x00\x01\x04\x1f\x00\x08\x00\x00\x00\x02"], 0.1),
    "a frame of no port": ("openflow", SWITCH, 0.3),
    "malformed OpenFlow": ("openflow", [b"\x04\x00\x00\x10\x00\x00\x00\x01\x00\x01\x00\x02\xff\xff\xff\xff"], 0.1),
}


class Soak:
    """The controller, its four routers, an operator, and so many hostile clients."""

    def __init__(self, library: str = "os-ken", hostile: int = 200, alone: str = ALONE) -> None:
        """`alone` is the program of a controller without a library."""
        self.library, self.hostile, self._alone = library, hostile, alone
        self.waits_s: list[float] = []
        self.answers: Counter[str] = Counter()
        self.attempts: Counter[str] = Counter()
        self.lost: list[str] = []
        self.seconds = 0.0
        self.memory_kib: tuple[int, int] = (0, 0)
        self._folder = tempfile.TemporaryDirectory(prefix="xoff-soak-")
        self._ends = threading.Event()

    def __enter__(self) -> Soak:
        folder = Path(self._folder.name)
        key, token = make_secrets(folder)
        routers = folder / "routers.toml"
        routers.write_text("".join(f'[{name}]\nlocators = ["fd00:a:{name[1:]}::/48"]\n' for name in NAMES))
        self._token, secret = token.read_text().strip(), key.read_bytes().strip()
        environment = {
            **os.environ, "PYTHONPATH": str(ROOT), "XOFF_SR_KEY_FILE": str(key), "XOFF_SR_TOKEN_FILE": str(token),
            "XOFF_SR_AGENTS": "127.0.0.1:0", "XOFF_SR_REST": "127.0.0.1:0", "XOFF_SR_ROUTERS": str(routers),
            "PYTHONFAULTHANDLER": "1",
        }  # fmt: skip
        command = [sys.executable, "-c", self._alone]
        if self.library != "alone":
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                openflow = f"127.0.0.1:{probe.getsockname()[1]}"
            command = [sys.executable, "-m", "controllers", "--library", self.library, "--openflow", openflow]
        self._log = folder / "log"
        with self._log.open("w") as log:
            self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, env=environment)
        started = self._first_line()
        found = re.findall(r"127\.0\.0\.1:(\d+)", started)
        if len(found) < 2:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(1)  # it may be about to end
            is_running = self._process.poll() is None
            if is_running:  # faulthandler writes to the log what each thread is doing
                self._process.send_signal(signal.SIGABRT)
                self._process.wait(10)
            what = f"is not ready after {START_S:g} s" if is_running else f"ends with {self._process.wait()}"
            text = started + self._log.read_text()
            self.__exit__()
            raise RuntimeError(f"the controller {what}: {text}")
        self._doors = {
            name: ("127.0.0.1", int(port)) for name, port in zip(("agents", "rest", "openflow"), found, strict=False)
        }
        fakes = [FakeRouter(report(name, LINKS, ("R1", "R4")), router_key(secret, name)) for name in NAMES]
        self._fleet = Fleet(fakes, self._doors["agents"])
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._folder.cleanup()

    def _first_line(self) -> str:
        """Return the controller's first line, which says that it is ready; "" if it ends before, or takes too long."""
        stdout, deadline = self._process.stdout, time.monotonic() + START_S
        assert stdout is not None
        line = b""
        while not line.endswith(b"\n") and select.select([stdout], [], [], max(0.0, deadline - time.monotonic()))[0]:
            octets = os.read(stdout.fileno(), 4096)
            if not octets:
                self._process.wait(10)
                break
            line += octets
        return line.decode(errors="replace")

    def run(self, seconds: float) -> None:
        """Set the network up in peace, and then let the hostile clients attack for some time."""
        self.seconds = seconds
        carrying = threading.Thread(target=self._carry)
        carrying.start()
        try:
            self._until(lambda: self._ask("GET", "/topology")["settled"])
            self._ask("POST", "/vpns", {"name": "red", "colour": 100, "sites": SITES})
            sessions = {name: fake.router.session for name, fake in self._fleet.routers.items()}
            context = multiprocessing.get_context("spawn")
            counts = context.Queue()
            tricks = [name for name, trick in TRICKS.items() if trick[0] in self._doors]
            attackers = [
                context.Process(
                    target=attack,
                    args=(self._doors, counts),
                    kwargs={"tricks": tricks, "clients": self.hostile // 2, "seed": seed, "seconds": seconds},
                )
                for seed in range(2)
            ]
            for attacker in attackers:
                attacker.start()
            self.waits_s.clear()
            before = self._memory()
            deadline = time.monotonic() + seconds
            self._operate(deadline)
            for attacker in attackers:
                self.attempts.update(counts.get(timeout=60))
                attacker.join()
            self.memory_kib = (before, self._memory())
            self.lost = [
                name for name, fake in self._fleet.routers.items()
                if fake.router.session is not sessions[name] or fake.router.ended is not None
            ]  # fmt: skip
        finally:
            self._ends.set()
            carrying.join()
            self._fleet.close()
        self.log = self._log.read_text()

    def held(self, most_ms: float | None = None) -> bool:
        """Report whether the operator was always answered, all routers stayed, and the log is short.

        With `most_ms`, 99 % of the answers must also have come within this time.
        """
        in_time = most_ms is None or self.percentile(99) * 1000 < most_ms
        return in_time and not self.lost and not self.answers["none"] and self.has_short_log()

    def has_short_log(self) -> bool:
        """Report whether the log has no traceback, and not many lines more than one a second about switches."""
        lines = [line for line in self.log.splitlines() if "OpenFlow from" in line]
        return "Traceback" not in self.log and len(lines) <= self.seconds + 3

    def percentile(self, percent: float) -> float:
        ordered = sorted(self.waits_s)
        return ordered[min(int(len(ordered) * percent / 100), len(ordered) - 1)]

    def text(self) -> str:
        """The figures."""
        waits = ", ".join(f"p{p:g} {self.percentile(p) * 1000:.1f} ms" for p in (50, 90, 99, 99.9, 100))
        lines = [
            f"operator: {len(self.waits_s)} requests, {waits}; answers {dict(self.answers)}",
            f"sessions of routers that were lost: {', '.join(self.lost) or 'none'}",
            f"memory of the controller: {self.memory_kib[0]} KiB at first, {self.memory_kib[1]} KiB at the end",
            f"hostile connections: {sum(self.attempts.values())}",
            *(f"{times:8} {name}" for name, times in sorted(self.attempts.items())),
        ]
        return "\n".join(lines)

    def _operate(self, deadline: float) -> None:
        """Read and change policies, each time by a new connection, as `xoff controller sr` does."""
        number = 0
        while time.monotonic() < deadline:
            number += 1
            policy = f"/policies/R1:100:R{4}"
            intent = {"headend": "R1", "colour": 100, "endpoint": "R4", "vpn": "red"}
            asked: tuple[str, str, Any] = [
                ("GET", "/topology", None), ("PUT", policy, intent), ("GET", "/policies", None),
                ("GET", policy + "/reverse", None), ("DELETE", policy, None),
            ][number % 5]  # fmt: skip
            begun = time.monotonic()
            try:
                self._ask(*asked)
                self.answers["given"] += 1
            except OSError:
                self.answers["none"] += 1
            self.waits_s.append(time.monotonic() - begun)
            time.sleep(OPERATOR_PAUSE_S)

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        connection = http.client.HTTPConnection(*self._doors["rest"], timeout=10)
        try:
            headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            content = connection.getresponse().read()
        except http.client.HTTPException as error:
            raise OSError(str(error)) from None
        finally:
            connection.close()
        return json.loads(content) if content else None

    def _until(self, so: Callable[[], Any]) -> None:
        deadline = time.monotonic() + 30
        while not so():
            if time.monotonic() > deadline:
                raise RuntimeError(f"the routers have not reported: {self._log.read_text()}")
            time.sleep(0.02)

    def _carry(self) -> None:
        while not self._ends.is_set():
            self._fleet.run(self._ends.is_set, 0.5)

    def _memory(self) -> int:
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        return int(re.findall(r"VmRSS:\s+(\d+)", status)[0])


def attack(doors: dict[str, Any], counts: Any, *, tricks: list[str], clients: int, seed: int, seconds: float) -> None:
    """Be a process with some clients, each of which does its trick again and again."""
    dice, deadline = random.Random(seed), time.monotonic() + seconds
    found: Counter[str] = Counter()
    waiting = select.poll()
    running: dict[int, tuple[socket.socket, str, list[bytes], float]] = {}
    due = [(time.monotonic() + dice.random(), tricks[number % len(tricks)]) for number in range(clients)]
    while (now := time.monotonic()) < deadline:
        for entry in [entry for entry in due if entry[0] <= now]:
            due.remove(entry)
            door, pieces, kept_s = TRICKS[entry[1]]
            made = socket.socket()
            made.setblocking(False)
            made.connect_ex(doors[door])
            found[entry[1]] += 1
            running[made.fileno()] = (made, entry[1], list(pieces), now + 0.3 + kept_s)
            waiting.register(made, select.POLLIN)
        for file, (made, trick, pieces, until) in list(running.items()):
            is_over = now > until
            if pieces and not is_over:
                try:
                    made.send(pieces[0])
                    pieces.pop(0)
                except BlockingIOError:
                    pass
                except OSError:
                    is_over = True
            if is_over:
                _end(running, waiting, file)
                due.append((now + dice.uniform(0.05, 0.5), trick))
        for file, _ in waiting.poll(20):
            made, trick, _, _ = running[file]
            try:
                is_over = not made.recv(1 << 16)
            except BlockingIOError:
                is_over = False
            except OSError:
                is_over = True
            if is_over:
                _end(running, waiting, file)
                due.append((now + dice.uniform(0.05, 0.5), trick))
    for file in list(running):
        _end(running, waiting, file)
    counts.put(dict(found))


def _end(running: dict[int, Any], waiting: select.poll, file: int) -> None:
    waiting.unregister(file)
    running.pop(file)[0].close()
