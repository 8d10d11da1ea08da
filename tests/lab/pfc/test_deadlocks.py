"""A deadlock of PFC is found at the first look after it arose, the watchdog breaks it, and none is found elsewhere."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from testbed.lab import Run, experiment
from testbed.switch.buffer.settings import Static
from testbed.switch.pfc.settings import WatchdogSettings
from testbed.units import Duration, Size

if TYPE_CHECKING:
    from testbed.agent.event_log import LoggedEvent

POLL = Duration("10ms")
WATCHDOG = WatchdogSettings(Duration("200ms"), Duration("200ms"), Duration("7ms"))
CIRCLE = ["s1-eth2", "s2-eth3", "s3-eth3", "s4-eth3"]
"""The ports of four switches that lead to the next switch, clockwise."""


def ring_under_load(run: Run, clockwise: bool, watchdog: WatchdogSettings | None, load_s: float) -> Any:
    """Four hosts at a ring of switches each send to the host across, as in experiments/pfc/deadlock.py."""
    import time

    from testbed.net.build.network import network
    from testbed.net.fabric.port import Buffer, Port
    from testbed.net.shell import views
    from testbed.net.traffic import Flow, Flows
    from topologies.ring import Ring

    class Watched(Ring):
        """A ring in which only the first switch may have a watchdog."""

        buffer = Buffer(xoff=Static(160), xon_offset=40)
        deadlock_poll = POLL

        def addSwitch(self, name: str, **options: Any) -> str:
            port = Port()
            port = replace(port, pfc=replace(port.pfc, watchdog=watchdog if name == "s1" else None))
            added: str = super().addSwitch(name, port=port, **options)
            return added

    with network(Watched(n=4, clockwise=clockwise), run) as net:
        flows = [Flow(net[f"h{n}"], net[f"h{(n + 1) % 4 + 1}"], buffer=Size("64kB")) for n in range(1, 5)]
        with Flows(flows, settle=Duration("2s")) as running, run.measuring():
            time.sleep(load_s)
            running.stop_sending()
            time.sleep(0.5)
        shown = views.deadlocks(net.fabric)
        pauses = sum(event.kind == "queue_stopped" for event in net.fabric.events())
        return net.fabric.deadlocks(), net.fabric.events(), pauses, shown


def first_look_after(moment_ns: int) -> int:
    return -(-moment_ns // POLL.ns) * POLL.ns


def last_stop(events: list[LoggedEvent], before_ns: int) -> int:
    """Return the last time before a moment at which a queue of the circle was stopped."""
    return max(
        one.lab_ns for one in events if one.kind == "queue_stopped" and one.port in CIRCLE and one.lab_ns < before_ns
    )


@experiment(_in_lab_time=True, timeout="60s")
def test_a_deadlock_is_found_at_the_first_look_and_lasts_without_a_watchdog(run: Run) -> None:
    found, events, _, shown = ring_under_load(run, clockwise=True, watchdog=None, load_s=1)
    run.claim("deadlocks", len(found), equals=1)
    ports = [port for _, (port, _) in sorted(found[0].queues.items())]
    run.claim("queues that wait for each other, in order", ports, equals=CIRCLE)
    run.claim("priorities", [list(of) for _, of in found[0].queues.values()], equals=[[3]] * 4)
    look = found[0].since_lab_ns // POLL.ns * POLL.ns
    run.claim("the look that found it", look, equals=first_look_after(last_stop(events, found[0].since_lab_ns)))
    run.claim("lateness of that look, in ns", found[0].since_lab_ns - look, at_most=10_000)
    head, _, row = shown.splitlines()
    run.claim("the command's first line", head, equals="deadlocks: 1 detected, 0 broken")
    run.claim("the command's circle", row.endswith("s1-eth2 3 -> s2-eth3 3 -> s3-eth3 3 -> s4-eth3 3"), equals=True)
    run.claim("not broken", found[0].lasted_ns is None, equals=True)


@experiment(_in_lab_time=True, timeout="60s")
def test_the_watchdog_breaks_a_deadlock_after_its_detection_time(run: Run) -> None:
    found, events, *_ = ring_under_load(run, clockwise=True, watchdog=WATCHDOG, load_s=1)
    storms = [one.lab_ns for one in events if one.kind == "storm_detected"]
    run.claim("deadlocks", len(found), equals=len(storms))
    run.claim("deadlocks, at least", len(found), at_least=2)
    for one, storm_ns in zip(found, storms, strict=True):
        run.claim(f"deadlock {one.number}: storm found after the deadlock", storm_ns - one.since_lab_ns, at_least=0)
        look = (one.since_lab_ns + one.lasted_ns) // POLL.ns * POLL.ns
        # A look that is some microseconds late also sees what happened in these
        looks = {first_look_after(storm_ns - late_ns) for late_ns in (0, 10_000)}
        run.claim(f"deadlock {one.number}: broken at the look", look in looks, equals=True)
        stopped = last_stop(events, one.since_lab_ns)
        run.claim(f"deadlock {one.number}: found at the look", one.since_lab_ns // POLL.ns * POLL.ns,
                  equals=first_look_after(stopped))  # fmt: skip


@experiment(_in_lab_time=True, timeout="60s")
def test_a_congested_ring_without_a_circle_has_no_deadlock(run: Run) -> None:
    found, _, pauses, shown = ring_under_load(run, clockwise=False, watchdog=None, load_s=2)
    run.claim("queues stopped", pauses, at_least=100)
    run.claim("what the command shows", shown, equals="deadlocks: 0 detected, 0 broken\n")
    run.claim("deadlocks", len(found), equals=0)


@experiment(_in_lab_time=True, timeout="60s")
def test_a_storm_that_holds_every_switch_is_no_deadlock(run: Run) -> None:
    """A host that pauses without end stops all queues of the ring that lead to it, one after the other."""
    import time

    from testbed.frames import Mac
    from testbed.frames.mac_control import PfcFrame
    from testbed.net.build.network import network
    from testbed.net.fabric.port import Buffer
    from testbed.net.shell.wire import RawPort
    from testbed.net.traffic import Flow, Flows
    from topologies.ring import Ring

    xoff = PfcFrame.xoff(Mac.parse("02:00:00:00:00:01"), [3]).encode()
    topo = Ring(n=4, clockwise=True, buffer=Buffer(xoff=Static(160), xon_offset=40), deadlock_poll=POLL)
    with network(topo, run) as net, RawPort(net["h1"], "h1-eth0") as wire:
        flows = [Flow(net[name], net["h1"], buffer=Size("64kB")) for name in ("h2", "h3", "h4")]
        with Flows(flows, settle=Duration("2s")), run.measuring():
            wire.repeat(xoff, Duration("500ms").ns, 2)
            time.sleep(1)
            paused = [net.fabric.pfc(port, 3)["paused_until_ns"] is not None for port in CIRCLE]
        run.claim("paused: s1-s2, s2-s3, s3-s4, s4-s1", paused, equals=[False, True, True, True])
        run.claim("deadlocks", len(net.fabric.deadlocks()), equals=0)
