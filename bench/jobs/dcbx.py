"""A switch's worth of ports: one stand-alone agent process that serves them all, and another for their peers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

from testbed.lab import Run, experiment

OURS = """
[pfc]
enabled = [3]
[ets]
classes = [0, 0, 0, 1, 0, 0, 0, 2]
bandwidth = [60, 40]
strict = [2]
[ets.recommend]
classes = [0, 0, 0, 1, 0, 0, 0, 2]
bandwidth = [50, 50]
strict = [2]
[[application]]
ethertype = 0x8906
priority = 3
"""


@experiment(_in_lab_time=True, timeout="1200s")
def many_ports(run: Run, ports: int = 100, idle_s: int = 120) -> None:
    """CPU of an agent of `ports` ports with nothing to do, and how long they all take to agree after their carriers."""
    peer = subprocess.Popen(["unshare", "--net", "sleep", "infinity"])
    time.sleep(0.5)
    commands = []
    for number in range(ports):
        commands += [f"link add name p{number} type veth peer name q{number} netns {peer.pid}"]
    ip(commands)
    ip([f"link set dev p{number} up" for number in range(ports)])
    file = run.directory / "ours.toml"
    file.write_text(OURS)
    theirs = fork([f"q{number}" for number in range(ports)], None, run.directory / "theirs.jsonl", peer.pid)
    ours = fork([f"p{number}" for number in range(ports)], file, None, None)
    time.sleep(20)  # both have started, and wait for carriers
    begun_ns = time.monotonic_ns()
    ip([f"link set dev q{number} up" for number in range(ports)], peer.pid)
    up_ns = time.monotonic_ns()
    agreed = agreements(run.directory / "theirs.jsonl", begun_ns, ports)
    run.claim("ports that agreed", len(agreed), equals=ports)
    run.figure("setting the links up took", (up_ns - begun_ns) / 1e9, "s")
    run.figure("first link up -> all have agreed", (max(agreed.values()) - begun_ns) / 1e9, "s")
    run.claim("last link up -> all have agreed, s", (max(agreed.values()) - up_ns) / 1e9, at_most=3)
    time.sleep(60)  # fast start is over
    before, start_ns = cpu_ns(ours), time.monotonic_ns()
    with run.measuring():
        time.sleep(idle_s)
    share = 100 * (cpu_ns(ours) - before) / (time.monotonic_ns() - start_ns)
    run.claim(f"an idle agent of {ports} ports, % of a core", share, at_most=5)
    run.figure("its memory", memory_kb(ours), "kB")
    for pid in (ours, theirs):
        os.kill(pid, signal.SIGTERM)
        os.waitpid(pid, 0)
    peer.kill()
    peer.wait()


def ip(commands: list[str], inside: int | None = None) -> None:
    words = [*(["nsenter", "--net", "--target", str(inside)] if inside else []), "ip", "-batch", "-"]
    subprocess.run(words, input="\n".join(commands), text=True, check=True)


def fork(interfaces: list[str], file: Path | None, log: Path | None, inside: int | None) -> int:
    """An agent in a process of its own; its pid."""
    from testbed.linux.process import kernel
    from testbed.subjects.dcbx.daemon.agent import DcbxAgent
    from testbed.subjects.dcbx.daemon.log_file import LogFile

    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            if inside:
                kernel.enter_network_of(inside)
            DcbxAgent(interfaces, file, lambda _: None, LogFile(log, print) if log else None).run()
            code = 0
        finally:
            os._exit(code)
    return pid


def agreements(log: Path, since_ns: int, ports: int) -> dict[str, int]:
    """Wait until all ports have our PFC, and return the time at which each first had it."""
    found: dict[str, int] = {}
    deadline = time.monotonic() + 30
    while len(found) < ports and time.monotonic() < deadline:
        time.sleep(0.5)
        lines: list[dict[str, Any]] = [json.loads(line) for line in log.read_text().splitlines(keepends=False)]
        found = {}
        for line in lines:
            if line["what"] == "pfc_changed" and line["enabled"] == [3] and line["t_ns"] >= since_ns:
                found.setdefault(line["port"], line["t_ns"])
    return found


def cpu_ns(pid: int) -> int:
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0])


def memory_kb(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))
