"""Malformed and hostile frames change nothing but counters."""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from jobs.looking import agent_pid

from testbed.lab import Run, experiment
from testbed.switch.buffer.settings import Static
from testbed.switch.pfc import PRIORITIES_IN
from testbed.units import Duration, Size

if TYPE_CHECKING:
    pass


GROUP = bytes.fromhex("0180c2000001")
MAC_CONTROL, PFC, PAUSE = b"\x88\x08", b"\x01\x01", b"\x00\x01"
ENABLED = 3
"""The mask of the one priority with PFC."""
NOTHING = "asks nothing"
LONGEST = 1514
BATCH = 200


# What a frame is, told without the codec that the agents use


def verdict(frame: bytes) -> str | int:
    """Return the reason for which a port ignores a frame, or the mask of the priorities for which it is PFC."""
    if frame[12:14] != MAC_CONTROL:
        return "not MAC control"
    if frame[:6] != GROUP:
        return "wrong_destination"
    if len(frame) < {PFC: 34, PAUSE: 18}.get(frame[14:16], 16):
        return "too_short"
    if frame[14:16] == PFC:
        return frame[17] or NOTHING
    return "global_pause" if frame[14:16] == PAUSE else "unknown_opcode"


def hostile_frames(chance: random.Random) -> Iterator[bytes]:
    """Yield frames with every kind of mistake, for ever; none requests anything of the priority with PFC."""
    kinds = [fuzzed, truncated, misdirected, pause, for_others, for_none, tagged, mistyped, noise, padded]
    while True:
        frame = chance.choice(kinds)(chance)
        asked = verdict(frame)
        harmless = asked == "not MAC control" and frame[:6] != GROUP  # a frame of data, to be forwarded
        if not harmless and not (isinstance(asked, int) and asked >> ENABLED & 1):
            yield frame


def xoff(chance: random.Random, mask: int = 1 << ENABLED, times: bytes | None = None) -> bytes:
    """Return PFC as it should be, from any source."""
    fields = bytes([chance.choice([0, chance.randrange(256)]), mask]) + (times or b"\xff\xff" * 8)
    return (GROUP + chance.randbytes(6) + MAC_CONTROL + PFC + fields).ljust(60, b"\0")


def fuzzed(chance: random.Random) -> bytes:
    frame = bytearray(xoff(chance))
    for _ in range(chance.choice([1, 2, 8])):
        frame[chance.choice([*range(6), *range(12, 18), chance.randrange(60)])] = chance.randrange(256)
    return bytes(frame)


def truncated(chance: random.Random) -> bytes:
    return chance.choice([xoff, pause])(chance)[: chance.randint(14, 33)]


def misdirected(chance: random.Random) -> bytes:
    """Return a frame to one station, to all, or to another group."""
    station = bytes([0, 0, 0, 0, 0, chance.randint(1, 3)])
    target = chance.choice([station, b"\xff" * 6, bytes.fromhex("0180c200000e"), chance.randbytes(6)])
    return target + xoff(chance)[6:]


def pause(chance: random.Random) -> bytes:
    """Return a PAUSE of the whole link."""
    time_asked = chance.choice([b"\xff\xff", b"\0\0", chance.randbytes(2)])
    return (GROUP + chance.randbytes(6) + MAC_CONTROL + PAUSE + time_asked).ljust(60, b"\0")


def for_others(chance: random.Random) -> bytes:
    """Return PFC for priorities without it. The time of the one that has it is set, its bit is not."""
    return xoff(chance, chance.randrange(256) & ~(1 << ENABLED), chance.randbytes(16))


def for_none(chance: random.Random) -> bytes:
    return xoff(chance, 0, chance.randbytes(16))


def tagged(chance: random.Random) -> bytes:
    frame = xoff(chance)
    return frame[:12] + chance.choice([b"\x81\x00", b"\x88\xa8"]) + chance.randbytes(2) + frame[12:]


def mistyped(chance: random.Random) -> bytes:
    """Return a frame of another type, or with a length, honest or absurd."""
    frame = xoff(chance)
    kind = chance.choice([b"\x88\x09", b"\x88\x07", b"\x08\x88", b"\x00\x2e", b"\x05\xdc", b"\x05\xff", b"\0\0"])
    return frame[:12] + kind + frame[14:]


def noise(chance: random.Random) -> bytes:
    return GROUP + chance.randbytes(6) + MAC_CONTROL + chance.randbytes(chance.randint(0, 60))


def padded(chance: random.Random) -> bytes:
    """Return a frame that is far longer than PFC ever is."""
    frame = chance.choice([pause, for_others, noise, misdirected])(chance)
    return frame + chance.randbytes(chance.choice([1, 4, 100, LONGEST - len(frame)]))


# What the network reports of itself


class Port:
    """A port that is attacked, through the cable."""

    def __init__(self, net: Any, name: str) -> None:
        from testbed.net.shell.wire import RawPort

        self.fabric = net.fabric
        self.state = net.fabric.port(name)
        far_end = net.fabric.far_end(self.state)
        self.raw = RawPort(far_end.node, far_end.name, past_queues=True)
        self.expected: Counter[str] = Counter()
        self.expected_of_priority: Counter[int] = Counter()
        self.seen = 0

    def attack(self, frames: list[bytes], times: int = 1) -> None:
        for frame in frames:
            asked = verdict(frame)
            if isinstance(asked, int):
                for priority in PRIORITIES_IN[asked]:
                    self.expected_of_priority[priority] += times
            else:
                self.expected[asked] += times
            self.seen += times * (asked != "not MAC control")
        for _ in range(times):
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(60))  # a burst: agents have to wait till its end
            self.raw.send_all(frames)
            os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))

    def counted(self) -> tuple[dict[str, int], list[int]]:
        """Return the frames that the agent ignored, by reason, and the times that it ignored PFC for each priority that
        has none.
        """
        ports = self.fabric.snapshot(self.state.node.name)["ports"][self.state.name]
        return ports["ignored_frames"], [one["ignored"]["not_enabled"] for one in ports["priorities"]]

    def state_of_pfc(self) -> list[dict[str, Any]]:
        """Return the state of PFC but for the counters of ignored frames."""
        priorities = self.fabric.snapshot(self.state.node.name)["ports"][self.state.name]["priorities"]
        return [{name: value for name, value in one.items() if name != "ignored"} for one in priorities]


def whole_state(net: Any, ports: list[Port]) -> dict[str, Any]:
    """Return everything that hostile frames must not change."""
    fabric = net.fabric
    return {
        "agents": [agent_pid(fabric, node) for node in fabric.core.numbers],
        "pfc": [port.state_of_pfc() for port in ports],
        "buffer": fabric.buffer("s1"),
        "groups": [fabric.group(name, priority) for name in fabric.names() for priority in range(8)],
        "sent": [(fabric.sent(name).sent_frames, fabric.sent(name).blocked_frames) for name in fabric.names()],
    }


@experiment(_in_lab_time=True, timeout="600s", files=("jobs/looking.py",))
def test_a_hundred_thousand_hostile_frames_change_nothing_but_counters(
    run: Run, frames: int = 100_000, different: int = 20_000
) -> None:
    """A port of a switch and one of a host are sent 100 000 frames; nothing changes but counters."""
    from testbed.net.build.network import network
    from testbed.net.fabric.port import Port as Settings
    from testbed.net.traffic import Flow, Flows
    from topologies.incast import Incast

    source = hostile_frames(random.Random(run.seed))
    with network(Incast(n=2, port=Settings().with_pfc(ENABLED))) as net:
        ports = [Port(net, "s1-eth1"), Port(net, "r-eth0")]
        before = whole_state(net, ports)
        for number in range(different // BATCH):
            ports[number % 2].attack([next(source) for _ in range(BATCH)], times=frames // different)
        after = whole_state(net, ports)
        for what, was in before.items():
            run.claim(f"unchanged: {what}", after[what] == was, equals=True)
        for port in ports:
            name = port.state.name
            by_reason, by_priority = port.counted()
            told = sum(port.expected.values()) - port.expected["not MAC control"] - port.expected[NOTHING]
            counters = net.fabric.sent(name)
            run.figure(f"{name}: by reason", by_reason)
            run.figure(f"{name}: by priority", by_priority)
            run.claim(f"{name}: seen", counters.seen_frames, equals=port.seen)
            run.claim(f"{name}: lost on the way to the agent", counters.lost_events, equals=0)
            run.claim(
                f"{name}: as expected, by reason", by_reason, equals={one: port.expected[one] for one in by_reason}
            )
            wanted = [port.expected_of_priority[priority] for priority in range(8)]
            run.claim(f"{name}: as expected, by priority", by_priority, equals=wanted)
            run.claim(f"{name}: every one has a reason", sum(by_reason.values()), equals=told)
        with Flows([Flow(net[f"h{n}"], net["r"], ENABLED, Size("1514B"), count=150) for n in (1, 2)]) as flows:
            flows.wait()
        run.claim("data that comes later arrives", [report.received for report in flows.reports], equals=[150, 150])
        run.claim("it is lost", [report.lost for report in flows.reports], equals=[0, 0])
        span = max(report.last_lab_ns for report in flows.reports) - min(
            report.first_lab_ns for report in flows.reports
        )
        run.claim("ms for 300 frames of 1.23 ms each", span // 1_000_000, at_least=365, at_most=372)


@experiment(_in_lab_time=True, timeout="100s", files=("jobs/looking.py",))
def test_an_agent_that_does_not_look_loses_frames_but_no_congestion(run: Run, frames: int = 3000) -> None:
    """An agent does not look while it is flooded, and its port becomes congested meanwhile. What it is not told of
    frames is counted; the congestion is signalled in any case.
    """
    from testbed.net.build.network import network
    from testbed.net.fabric.port import Buffer
    from testbed.net.fabric.port import Port as Settings
    from testbed.net.traffic import Flow, Flows
    from topologies.incast import Incast

    source = hostile_frames(random.Random(run.seed))
    # Headroom is for all that comes while the agent does not look.
    buffer = Buffer(total=2000, xoff=Static(40), xon_offset=10, headroom=500, response=Duration("5ms"))
    with network(Incast(n=2, port=Settings().with_pfc(ENABLED), buffer=buffer)) as net:
        fabric, port = net.fabric, Port(net, "s1-eth1")
        agent = agent_pid(fabric, "s1")
        os.kill(agent, signal.SIGSTOP)
        port.attack([next(source) for _ in range(frames)])
        with Flows([Flow(net[f"h{n}"], net["r"], ENABLED, Size("1514B"), count=40) for n in (1, 2)]) as flows:
            while not fabric.group("s1-eth1", ENABLED).xoff:
                time.sleep(0.001)
            os.kill(agent, signal.SIGCONT)
            flows.wait()
        counters = fabric.sent("s1-eth1")
        run.figure("frames that the agent was not told of", counters.lost_events)
        run.claim("some were lost", counters.lost_events, at_least=frames // 2)
        run.claim("seen", counters.seen_frames, equals=port.seen)
        run.claim("XOFF of it", fabric.pfc("s1-eth1", ENABLED)["xoff_sent"], at_least=1)
        run.claim("the agent is the same", agent_pid(fabric, "s1"), equals=agent)
        run.claim("data is lost", [report.lost for report in flows.reports], equals=[0, 0])
