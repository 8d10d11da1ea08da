"""Edges of an SRv6 ring that pass on each other's traffic, overloaded all at once: a deadlock, and what keeps it away.

Each of three data centres sends to the last one clockwise, so each edge router passes on what comes from one other,
in the queue that it has stopped by the next one. Each waits for room in the next one's buffer, round the circle, as
switches do (experiment `deadlock`). End.X.PFC does not prevent that by itself: a tunnel determines which queue stops,
and the operator what is in it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from xoff import (
    Between,
    Duration,
    Flow,
    Length,
    Progress,
    Rate,
    Run,
    Size,
    Srv6Ring,
    WatchdogSettings,
    experiment,
    network,
    ping,
    progress,
)

ROCE = 3
FRAME = Size("1300B")
"""The headers of the longest tunnel, 128 octets, have to fit into the WAN's frames as well."""
FLOWS = (("a1", "c1"), ("b1", "a1"), ("c1", "b1"))
OWN = (3, 4, 5)
"""The priority of each data centre's frames."""
EDGES = ("r1", "r3", "r5")
CLOCKWISE = ("r1-eth1", "r3-eth2", "r5-eth2")
"""The edges' ports to the next one."""
LOAD, DRAINED, FOR_EVER = Duration("5ms"), Duration("5ms"), Duration("28ms")
"""The time of the load, the time in which all drains, and one that stands for ever: more than four pauses of 6.7 ms."""
DETECTION, RESTORATION, POLL = Duration("1500us"), Duration("500us"), Duration("70us")


@dataclass(frozen=True)
class Seen(Progress):
    """The flows, pauses and losses of one case."""

    dropped: int  # by the buffers
    cells: int  # in the edges' buffers, at the end
    stopped: list[str]  # edges' ports clockwise, at the end


@experiment(timeout="400s")
def wan_deadlock(
    run: Run,
    wan: Annotated[Length, Between("5km", "20km")] = Length("10km"),
    rate: Annotated[Rate, Between("2Gb/s", "10Gb/s")] = Rate("5Gb/s"),
) -> None:
    """Edges that pass on each other's traffic in one queue stop each other permanently; three ways to avoid that.

    One queue for all, clockwise: nothing moves any more, and nothing is lost. It is the tunnels that do it: without
    them all flows go on.

    Three ways out: the short ways, on which no edge passes on what others send; a queue for each data centre's traffic,
    as slices have it, so that what an edge passes on is not in the queue of its own; a watchdog, which loses some.
    """
    seen = _case(run, "one queue", wan, rate, clockwise=True, wait=FOR_EVER)
    run.claim("one queue: received in the second half", seen.at_the_end - seen.halfway, equals=0)
    run.claim("one queue: received later", seen.received - seen.at_the_end, equals=0)
    run.claim("one queue: stopped in the end", seen.stopped, equals=list(CLOCKWISE))
    run.claim("one queue: dropped by a buffer", seen.dropped, equals=0)
    run.claim("one queue: cells that are never released", seen.cells, at_least=100)

    seen = _case(run, "no back-pressure", wan, rate, clockwise=True, back="none")
    run.claim("no back-pressure: received in the second half, of each flow", seen.least, at_least=100)
    run.claim("no back-pressure: stopped in the end", seen.stopped, equals=[])
    run.claim("no back-pressure: cells in the edges' buffers in the end", seen.cells, equals=0)

    seen = _case(run, "short ways", wan, rate)
    _goes_on(run, "short ways", seen)

    seen = _case(run, "a queue each", wan, rate, priorities=OWN, clockwise=True, queues=OWN)
    _goes_on(run, "a queue each", seen)

    watchdog = WatchdogSettings(DETECTION, RESTORATION, POLL)
    seen = _case(run, "watchdog", wan, rate, clockwise=True, watchdog=watchdog)
    run.claim("watchdog: received from the second half on", seen.received - seen.halfway, at_least=100)
    run.claim("watchdog: cells in the edges' buffers in the end", seen.cells, equals=0)
    run.claim("watchdog: stopped in the end", seen.stopped, equals=[])
    run.claim("watchdog: lost", seen.lost, at_least=1)


def _goes_on(run: Run, name: str, seen: Seen) -> None:
    run.claim(f"{name}: received in the second half, of each flow", seen.least, at_least=100)
    run.claim(f"{name}: lost", seen.lost, equals=0)
    run.claim(f"{name}: stopped in the end", seen.stopped, equals=[])
    run.claim(f"{name}: cells in the edges' buffers in the end", seen.cells, equals=0)


def _case(
    run: Run,
    name: str,
    wan: Length,
    rate: Rate,
    *,
    priorities: Sequence[int] = (ROCE,) * 3,
    wait: Duration = DRAINED,
    **options: object,
) -> Seen:
    """Run all flows at once for a while, and wait for what may still come."""
    with network(Srv6Ring(n=1, wan=wan, rate=rate, **options)) as net:
        for source, target in FLOWS:
            ping(net[source], net[target])
        wanted = [
            Flow(source, target, priority, FRAME, buffer=Size("64kB"))
            for (source, target), priority in zip(FLOWS, priorities, strict=True)
        ]
        went = progress(wanted, LOAD, wait, settle=Duration("8ms"))
        fabric = net.fabric
        found = Seen(
            **vars(went),
            dropped=fabric.dropped(),
            cells=fabric.held(*set(priorities), by=EDGES),
            stopped=[
                port
                for port in CLOCKWISE
                if any(fabric.pfc(port, priority)["paused_until_ns"] is not None for priority in set(priorities))
            ],
        )
        run.figure(f"{name}: received, by half", [found.halfway, found.at_the_end - found.halfway])
        run.figure(f"{name}: received later", found.received - found.at_the_end)
        run.figure(f"{name}: lost", found.lost)
        run.figure(f"{name}: cells in the edges' buffers in the end", found.cells)
        run.figure(f"{name}: stopped in the end", found.stopped)
        return found
