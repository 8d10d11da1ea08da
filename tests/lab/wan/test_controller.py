"""The controller as a program: its processes and sockets on this machine, and under Ryu and os-ken in the lab.

Routers are made up (`tests/fake_routers.py`), sessions and REST are real. On this machine the service is tried alone,
and the whole application under os-ken.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from controllers.settings import make_secrets
from testbed.cli import main
from testbed.subjects.srv6.session.messages import router_key
from tests.fake_routers import FIGURE_3, POLICY, VPN, FakeRouter, Fleet, ask, report

from ..conftest import Runner

ROOT = Path(__file__).parents[3]
ALONE = """
import signal, sys
from controllers.io_loop import IoLoop
from controllers.settings import Settings
service = IoLoop(Settings.read())
for number in (signal.SIGTERM, signal.SIGINT):
    signal.signal(number, lambda *_: service.stop())
print(f"agents {service.agents_at}, REST {service.rest_at}, alone", flush=True)
service.serve()
print("ended", flush=True)
"""


@dataclass
class Running:
    """A controller as a child process."""

    process: subprocess.Popen[str]
    agents: tuple[str, int] | str
    url: str
    token: str
    key: bytes
    folder: Path

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        return ask(self.url, self.token, method, path, body)

    def end(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(10)


Start = Callable[..., Running]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(params=["alone", "os-ken"])
def start(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Start]:
    """Starts controllers: the service alone, or the whole application."""
    started: list[Running] = []
    key_file, token_file = make_secrets(tmp_path / "secrets")

    def one(agents: str = "127.0.0.1:0", rest: str = "127.0.0.1:0") -> Running:
        environment = {
            **os.environ, "PYTHONPATH": str(ROOT), "XOFF_SR_KEY_FILE": str(key_file), "XOFF_SR_AGENTS": agents,
            "XOFF_SR_TOKEN_FILE": str(token_file), "XOFF_SR_REST": rest,
        }  # fmt: skip
        command = [sys.executable, "-c", ALONE]
        if request.param != "alone":
            openflow = f"127.0.0.1:{free_port()}"
            command = [sys.executable, "-m", "controllers", "--library", request.param, "--openflow", openflow]
        log = (tmp_path / f"log-{len(started)}").open("w")
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=log, text=True, env=environment, cwd=tmp_path
        )
        assert process.stdout is not None
        said = process.stdout.readline()
        assert said, Path(log.name).read_text()
        agents_at, rest_at = (part.split(" ")[1] for part in said.split(", ")[:2])
        host, _, port = agents_at.rpartition(":")
        at = agents_at[5:] if agents_at.startswith("unix:") else (host, int(port))
        key, token = key_file.read_bytes().strip(), token_file.read_text().strip()
        started.append(Running(process, at, f"http://{rest_at}", token, key, tmp_path))
        return started[-1]

    yield one
    for running in started:
        if running.process.poll() is None:
            running.process.kill()
        running.process.wait()


def fleet_of(running: Running) -> Fleet:
    routers = [
        FakeRouter(report(name, FIGURE_3, ("R1", "R3")), router_key(running.key, name)) for name in ("R1", "R2", "R3")
    ]
    return Fleet(routers, running.agents)


def is_settled(running: Running) -> Callable[[], bool]:
    return lambda: bool(running.ask("GET", "/topology")[1]["settled"])


def test_from_a_intent_to_tunnels_through_a_restart_to_the_end(start: Start) -> None:
    running = start()
    fleet = fleet_of(running)
    assert fleet.run(is_settled(running))
    assert running.ask("POST", "/vpns", VPN)[0] == 201
    assert running.ask("POST", "/policies", POLICY)[0] == 201
    assert fleet.run(lambda: running.ask("GET", "/policies/R1:100:R3")[1]["status"] == "active")
    reverse = running.ask("GET", "/policies/R1:100:R3/reverse")[1]["tunnels"]
    assert [tunnel["state"] for tunnel in reverse] == ["installed", "installed"]
    assert fleet.routers["R3"].tunnels() == ["R3 to R1 by fd00:a:3:1::, fd00:a:2:1::, fd00:a:1:f02::"]

    fleet.routers["R2"].set_link("to3", time.monotonic_ns(), up=False)
    assert fleet.run(lambda: running.ask("GET", "/policies/R1:100:R3")[1]["status"] == "no path")
    fleet.routers["R2"].set_link("to3", time.monotonic_ns(), up=True)
    assert fleet.run(lambda: running.ask("GET", "/policies/R1:100:R3")[1]["status"] == "active")

    fleet.log()
    assert running.end() == 0
    assert fleet.run(lambda: all(fake.router.ended for fake in fleet.routers.values()))
    ended = fleet.routers["R1"].router.ended
    assert ended is not None and ended.text.endswith("the controller ends; what is installed stays")
    again = start()
    fleet.address = again.agents
    assert fleet.run(is_settled(again))
    assert fleet.run(lambda: again.ask("GET", "/policies/R1:100:R3")[1]["status"] == "active")
    fleet.run(lambda: False, seconds=1)
    assert fleet.log() == []  # nothing was torn down, nothing was set up anew
    assert again.ask("GET", "/vpns/red")[1]["policies"] == ["R1:100:R3"]
    assert again.end(signal.SIGINT) == 0
    fleet.close()


def test_a_controller_that_is_killed_leaves_all_as_it_is_and_the_next_one_learns_it(start: Start) -> None:
    place = f"127.0.0.1:{free_port()}"
    running = start(place)
    fleet = fleet_of(running)
    assert fleet.run(is_settled(running))
    running.ask("POST", "/vpns", VPN)
    running.ask("POST", "/policies", POLICY)
    assert fleet.run(lambda: running.ask("GET", "/policies/R1:100:R3")[1]["status"] == "active")
    fleet.log()
    running.process.kill()
    running.process.wait()
    fleet.run(lambda: False, seconds=0.3)
    again = start(place)
    assert fleet.run(is_settled(again))
    assert fleet.run(lambda: again.ask("GET", "/policies/R1:100:R3")[1]["status"] == "active")
    assert fleet.log() == []
    fleet.close()


def test_agents_can_come_by_a_unix_socket_that_no_other_user_may_use(start: Start, tmp_path: Path) -> None:
    place = tmp_path / "agents"
    stale = socket.socket(socket.AF_UNIX)
    stale.bind(str(place))
    stale.close()  # as a controller leaves it that was killed
    running = start(f"unix:{place}")
    assert place.stat().st_mode & 0o777 == 0o600
    fleet = fleet_of(running)
    assert fleet.run(is_settled(running))
    fleet.close()
    assert running.end() == 0
    assert not place.exists()


def test_events_are_streamed_as_they_happen_and_resumed(start: Start) -> None:
    running = start()
    fleet = fleet_of(running)
    host, port = running.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=10) as follower:
        head = f"GET /events HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {running.token}\r\n\r\n"
        follower.sendall(head.encode())
        assert fleet.run(is_settled(running))
        octets = b""
        while b"event: settled" not in octets:
            piece = follower.recv(4096)
            assert piece
            octets += piece
    assert octets.startswith(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n")
    events = [json.loads(line[6:]) for line in octets.decode().splitlines() if line.startswith("data: ")]
    assert [event["sequence"] for event in events] == list(range(1, len(events) + 1))
    assert running.ask("GET", "/events?follow=false&after=2")[1]["events"][0] == events[2]
    fleet.close()


def test_whoever_sends_nonsense_or_nothing_is_no_trouble_to_others(start: Start) -> None:
    running = start()
    assert isinstance(running.agents, tuple)
    rest = running.url.removeprefix("http://").split(":")
    at_rest = (rest[0], int(rest[1]))
    idle = [socket.create_connection(running.agents) for _ in range(70)]
    idle += [socket.create_connection(at_rest) for _ in range(60)]
    for place in (running.agents, at_rest):
        # It may be closed before all is read.
        with contextlib.suppress(ConnectionError), socket.create_connection(place, timeout=10) as other:
            other.sendall(os.urandom(4000) + b"\r\n\r\n")
            while other.recv(4096):
                pass
    assert running.ask("GET", "/topology")[0] == 200
    assert ask(running.url, "not the token at all", "GET", "/topology")[0] == 401
    for other in idle:
        other.close()
    fleet = fleet_of(running)
    assert fleet.run(is_settled(running))
    thief = FakeRouter(report("R1", FIGURE_3, ("R1", "R3")), b"a key of somebody else")
    second = Fleet([thief], running.agents)
    assert second.run(lambda: thief.router.ended is not None)
    assert len(running.ask("GET", "/topology")[1]["routers"]) == 3
    second.close()
    fleet.close()


def test_the_command_line_shows_and_intents(
    start: Start, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    running = start()
    fleet = fleet_of(running)
    assert fleet.run(is_settled(running))
    monkeypatch.setenv("XOFF_SR_URL", running.url)
    monkeypatch.setenv("XOFF_SR_TOKEN_FILE", str(running.folder / "secrets" / "token"))
    monkeypatch.setenv("COLUMNS", "200")

    def sr(*arguments: str, code: int = 0) -> str:
        assert main(["controller", "sr", *arguments]) == code
        said = capsys.readouterr()
        fleet.run(lambda: False, seconds=0.3)
        return " ".join((said.out + said.err).split())

    assert "R1 here yes 0" in sr("topology")
    assert "fd00:a:1:f02:: R1 End.X.PFC none to2" in sr("sids", "R1")
    assert sr("policies") == "no policy yet"
    intent = tmp_path / "vpn.json"
    intent.write_text(json.dumps(VPN))
    assert "red 100 R1" in sr("vpn", "add", str(intent))
    assert "R1:100:R3" in sr("policy", "add", "R1", "R3", "--colour", "100", "--vpn", "red")
    assert "R1:100:R3 active R1-R2-R3 10ms fd00:a:1:f02::, fd00:a:2:1::, fd00:a:3:d000::" in sr("policies")
    assert "R3 to R1 back installed 10ms fd00:a:3:1::, fd00:a:2:1::, fd00:a:1:f02::" in sr("reverse", "R1:100:R3")
    assert json.loads(sr("reverse", "R1:100:R3", "--json"))["policy"] == "R1:100:R3"
    assert sr("slices") == "no slice yet"
    assert "policy R1:100:R3 goes by R1, R2, R3" in sr("events")
    said = sr("policy", "add", "R1", "R3", "--colour", "100", "--vpn", "red", "--max-delay", "1ms", code=2)
    assert said.endswith("replace it with PUT /policies/R1:100:R3")
    sr("policy", "add", "R1", "R3", "--colour", "100", "--vpn", "red", "--max-delay", "1ms", "--replace")
    again = ("policy", "add", "R1", "R3", "--colour", "100", "--vpn", "red", "--replace", "--binding-sid")
    said = sr(*again, "fd00:a:9:b::", code=2)
    assert "binding_sid is 'fd00:a:9:b::'; no packet comes to R1 by it; take one of its locator" in said
    assert "no path dynamic: the best path takes 10000000 ns, and 1000000 ns are allowed" in sr("policies")
    sr(*again, "fd00:a:1:b::")
    assert "R1-R2-R3 10ms fd00:a:1:b:: fd00:a:1:f02::, fd00:a:2:1::, fd00:a:3:d000::" in sr("policies")
    assert "xoff: the controller refuses: VPN red is carried by R1:100:R3" in sr("vpn", "remove", "red", code=2)
    sr("policy", "remove", "R1:100:R3")
    sr("vpn", "remove", "red")
    assert not any(fake.router.installed for fake in fleet.routers.values())
    monkeypatch.setenv("XOFF_SR_TOKEN", "not the token at all")
    assert "the token is wrong" in sr("topology", code=2)
    fleet.close()
    running.end()
    assert "no controller answers at" in sr("topology", code=3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--key-file", "none"], "none, with the key that routers' keys are made of, cannot be read: No such file"),
        (["--key-file", "open"], "open can be read by others (mode 644); take that away: chmod 600 open"),
        (["--key-file", "short"], "short has 3 octets, and the key that routers' keys are made of has 16 to 4096"),
        (["--library", "nox"], "there is no library nox for controllers; there are os-ken, ryu"),
        (["--rest", "here"], "'here' is not an address to listen at; write 127.0.0.1:8181, [::1]:8181 or unix:/run/x"),
        (["--rest", "BUSY"], "for REST: Address already in use; choose another with --rest"),
        (["--agents", "BUSY"], "for agents: Address already in use; choose another with --agents"),
        (["--openflow", "BUSY"], "for switches: Address already in use; choose another with --openflow"),
        (
            ["--agents", "192.0.2.1:1", "--open-to-network"],
            "cannot listen at 192.0.2.1:1 for agents: Cannot assign requested address",
        ),
        (["--agents", "0.0.0.0:0"], "0.0.0.0:0 for agents is open to the network"),
        (["--rest", "192.0.2.1:1"], "give REST a certificate (XOFF_SR_TLS_CERTIFICATE), or allow it by"),
        (["--openflow", "0.0.0.0:1"], "0.0.0.0:1 for switches is open to the network"),
        (["--routers", "open"], "open, with the list of routers, is not TOML"),
    ],
)
def test_what_keeps_a_controller_from_starting_is_one_line(options: list[str], message: str, tmp_path: Path) -> None:
    key, token = make_secrets(tmp_path)
    for name, mode, text in (("open", 0o644, "x" * 20), ("short", 0o600, "abc")):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(mode)
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        given = [f"127.0.0.1:{busy.getsockname()[1]}" if option == "BUSY" else option for option in options]
        places = ["--agents", "127.0.0.1:0", "--rest", "127.0.0.1:0", "--openflow", f"127.0.0.1:{free_port()}"]
        command = [sys.executable, "-m", "controllers", "--key-file", str(key), "--token-file", str(token)]
        done = subprocess.run(
            [*command, *places, *given], cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True, text=True, timeout=30, check=False,
        )  # fmt: skip
    assert done.returncode == 2, done.stderr
    assert message in done.stderr and "Traceback" not in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("library", ["os-ken", "ryu"])
def test_in_the_lab_the_controller_runs_under_both_libraries_with_switches_and_routers(
    run: Runner, library: str
) -> None:
    result = run("controller:controls", library=library)
    assert result.check().passed


def test_in_the_lab_ryus_own_launcher_starts_the_same_application(run: Runner) -> None:
    assert run("controller:ryu_manager").check().passed


@pytest.mark.slow
def test_in_the_lab_50_routers_with_200_policies_are_ready_in_time_and_again_after_a_failure(run: Runner) -> None:
    assert run("controller:fifty").check().passed
