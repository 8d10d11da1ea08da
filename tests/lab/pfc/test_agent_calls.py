"""The system calls that an agent makes for an event: each takes half a microsecond of the lab's time on `um`, and some
microseconds of the host's CPU. Where the kernel serves the agent, most events take none.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from jobs.looking import agent_pid

from testbed.frames.mac_control import PfcFrame
from testbed.lab import Run, experiment
from testbed.switch.buffer.settings import Static

MARKS = {"*": [("engines", "um")]}
CASES = {"test_an_event_takes_an_agent_at_most_four_system_calls": [{"in_kernel": True}, {"in_kernel": False}]}
LOSSLESS = 3
NAMES = {228: "clock", 230: "sleep", 232: "wait", 44: "send", 286: "timer", 321: "bpf", 16: "device"}
"""The calls that agents may make for an event, by their numbers."""
STOPPED, RESUMED, EXPIRED, EARLY = "wait sleep send clock", "wait sleep send", "wait clock send", "wait clock"
EXTRA = "timer"
"""Made beside these when no timer is set that expires in time."""
TAKES, SERVES = "wait device", "device"
"""The end of a wait of an agent whom the kernel serves, and the begin of the next. The first also tells the time."""
ALONE = {
    "s1": {
        f"{STOPPED}": 4,  # XOFF sent for a threshold, or a queue stopped by XOFF
        f"{STOPPED} {EXTRA}": 2 + 1,  # the same when no timer was set
        f"{RESUMED}": 3 + 3,  # XON sent, or a queue resumed by XON
        f"{EXPIRED} {EXTRA}": 3,  # XOFF repeated, and the timer set for the next time
        f"{EXPIRED}": 1,  # a pause that was over
        f"{EARLY} {EXTRA}": 2,  # what the timer was set for was gone, and something else is due later
    },
    "h1": {
        f"{STOPPED}": 2,
        f"{STOPPED} {EXTRA}": 1,
        f"{RESUMED}": 3,
        "wait": 3,  # XOFF repeated, for a queue that is stopped already
        f"{EARLY}": 1,
        f"{EARLY} {EXTRA}": 2,
    },
    "r": {},  # nothing happened at its port
}
"""The turns of agents that do all by themselves."""
SERVED = {
    "s1": {f"{TAKES} send {SERVES}": 3 + 1},  # XOFF repeated, and a pause that was over
    "h1": {},
    "r": {},
}
"""The turns of agents whom the kernel serves."""


class SystemCalls:
    """The kernel's trace of all system calls."""

    def __init__(self, place: Path) -> None:
        self._place = place

    def of(self, process: int) -> list[str]:
        """Return the calls of a process of this namespace."""
        lines = (self._place / "trace").read_text().splitlines()
        (own,) = {_process(line) for line in lines if f"mark {os.getpid()}" in line}
        wanted = process + own - os.getpid()  # the trace has the numbers of the first namespace of processes
        numbers = (int(line.partition(": NR ")[2].split()[0]) for line in lines if _process(line) == wanted)
        return [NAMES.get(number, str(number)) for number in numbers]


def _process(line: str) -> int:
    head, found, _ = line.partition(" [")
    return int(head.rpartition("-")[2]) if found and not line.startswith("#") else 0


@contextmanager
def traced_calls() -> Iterator[SystemCalls]:
    """Trace system calls while the block runs."""
    from testbed.linux.process import kernel

    place = Path("tracing")
    place.mkdir()
    kernel.mount("tracefs", str(place))
    (place / "buffer_size_kb").write_text("20000")
    (place / "trace_marker").write_text(f"mark {os.getpid()}")
    switch = place / "events/raw_syscalls/sys_enter/enable"
    switch.write_text("1")
    yield SystemCalls(place)
    switch.write_text("0")


def turns(calls: list[str]) -> Counter[str]:
    """Return how often each sequence of calls was made, from a wait that an event ends up to the next wait."""
    # The first wait began before it could be seen, and the last one goes on.
    found = " ".join(["wait", *calls]).split("wait")[1:-1]
    return Counter(f"wait{rest}".strip() for rest in found)


@experiment(_in_lab_time=True, timeout="120s", files=("jobs/looking.py",))
def test_an_event_takes_an_agent_at_most_four_system_calls(run: Run, in_kernel: bool = True) -> None:
    """A paused port of a switch fills the buffer, so that a sender is paused, for longer than one refresh."""
    from unittest import mock

    from testbed.linux import pfc_device
    from testbed.net.build.network import network
    from testbed.net.fabric.port import Buffer
    from testbed.net.shell.wire import RawPort
    from testbed.net.traffic import Flow, Flows
    from topologies.incast import Incast

    buffer = Buffer(total=2000, xoff=Static(60), xon_offset=16, headroom=200)
    with ExitStack() as stack:
        if not in_kernel:
            stack.enter_context(mock.patch.object(pfc_device, "is_there", return_value=False))
        net = stack.enter_context(network(Incast(n=1, scale=100, buffer=buffer), run))
        fabric = net.fabric
        far = fabric.far_end(fabric.port("s1-eth2"))
        agents = {node: agent_pid(fabric, node) for node in ("s1", "h1", "r")}
        with traced_calls() as traced, RawPort(far.node, far.name, past_queues=True) as raw:
            for _ in range(3):
                raw.send(PfcFrame.xoff(far.mac, [LOSSLESS]).encode())
                with Flows([Flow(net["h1"], net["r"], count=100)]) as flows:
                    time.sleep(0.2)
                    raw.send(PfcFrame.xon(far.mac, [LOSSLESS]).encode())
                    flows.wait()
            raw.send(PfcFrame.xoff(far.mac, [LOSSLESS], 1000).encode())
            time.sleep(0.5)
        found = {node: turns(traced.of(pid)) for node, pid in agents.items()}
        events = Counter(event.kind for event in fabric.events() if event.port.startswith("s1"))
        kinds = ("frame_sent", "xon_sent", "queue_stopped", "xon_received", "xoff_refreshed", "pause_expired")
        run.claim("events at the switch", {kind: events[kind] for kind in kinds},
                  equals=dict(zip(kinds, (3, 3, 4, 3, 3, 1), strict=True)))  # fmt: skip
        for node, wanted in (SERVED if in_kernel else ALONE).items():
            run.claim(f"turns of the agent of {node}", dict(found[node]), equals=wanted)
