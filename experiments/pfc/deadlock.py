"""A deadlock of PFC: switches in a circle, each of which waits for room in the next one's buffer."""

from dataclasses import dataclass, replace

from testbed.linux.netlink import qdiscs
from xoff import (
    Buffer,
    Duration,
    Flow,
    Port,
    Progress,
    Ring,
    Run,
    Size,
    Static,
    WatchdogSettings,
    experiment,
    network,
    progress,
)

SWITCHES = 4
PRIORITY = 3
FRAME = Size("1514B")
LOAD = Duration("2ms")
DETECTION, RESTORATION = Duration("200us"), Duration("200us")
POLL = Duration("7us")  # rarely at the same moment as the lab's own look at its CPU, every 100 ms
DRAINED, FOR_EVER = Duration("4ms"), Duration("15ms")
"""The time in which all drains, and one that stands for ever: more than four of the longest pauses of 3.4 s."""


@dataclass(frozen=True)
class Seen(Progress):
    """The flows and the buffers of one run."""

    waiting: int  # in the kernel's queues, at the end
    dropped: int  # by the buffers
    paused: int  # ports between switches, at the end


@experiment(timeout="120s")
def deadlock(run: Run) -> None:
    """Four hosts at a ring of switches each send to the one across, at line rate.

    Clockwise, each cable carries two flows and each buffer waits for the next one: after a moment nothing
    moves any more, though nothing is lost. Up/down routing has the same load, and the buffers wait for each other in no
    circle: frames continue to flow, and all arrive. Control cases: without PFC there is loss instead of a deadlock; a
    watchdog at one of the switches gets frames moving again, and loses some.
    """
    seen = _ring(True, Port(), wait=FOR_EVER)
    run.claim("clockwise: received in the second half", seen.at_the_end - seen.halfway, equals=0)
    run.claim("clockwise: received later", seen.received - seen.at_the_end, equals=0)
    run.claim("clockwise: ports between switches that are paused in the end", seen.paused, equals=SWITCHES)
    run.claim("clockwise: sent, not received, and not waiting either", seen.lost - seen.waiting, equals=0)
    run.claim("clockwise: still waiting", seen.waiting, at_least=1)

    seen = _ring(False, Port())
    run.claim("up/down: received in the second half, of each flow", seen.least, at_least=100)
    run.claim("up/down: lost", seen.lost, equals=0)
    run.claim("up/down: ports between switches that are paused in the end", seen.paused, equals=0)

    seen = _ring(True, Port().without_pfc())
    run.claim("clockwise without PFC: received in the second half, of each flow", seen.least, at_least=100)
    run.claim("clockwise without PFC: lost", seen.lost, at_least=1000)
    run.claim("clockwise without PFC: lost, not dropped by a buffer", seen.lost - seen.dropped, equals=0)

    seen = _ring(True, Port(), WatchdogSettings(DETECTION, RESTORATION, POLL))
    run.claim("clockwise with a watchdog: received in the second half", seen.at_the_end - seen.halfway, at_least=100)
    run.claim("clockwise with a watchdog: still waiting", seen.waiting, equals=0)
    run.claim("clockwise with a watchdog: lost", seen.lost, at_least=1)


def _ring(clockwise: bool, port: Port, watchdog: WatchdogSettings | None = None, wait: Duration = DRAINED) -> Seen:
    """Run all flows at once for a while, and wait for what may still come."""

    class Watched(Ring):
        """A ring in which only the first switch may have a watchdog."""

        buffer = Buffer(xoff=Static(160), xon_offset=40)

        def addSwitch(self, name: str, **options: object) -> str:
            watched = replace(port, pfc=replace(port.pfc, watchdog=watchdog if name == "s1" else None))
            switch: str = super().addSwitch(name, port=watched, **options)
            return switch

    with network(Watched(n=SWITCHES, clockwise=clockwise, port=port)) as net:
        across = [
            Flow(f"h{number}", f"h{(number + SWITCHES // 2 - 1) % SWITCHES + 1}", buffer=Size("64kB"))
            for number in range(1, SWITCHES + 1)
        ]
        found = progress(across, LOAD, wait, settle=Duration("4ms"))
        waiting = sum(
            octets
            for node in net.hosts + net.switches
            for _, handle, octets, _ in qdiscs.listed(net.fabric.core.sockets.of(node))
            if handle == qdiscs.handle(1)  # the root of a port, which counts what all of its queues hold
        )
        between = [f"s{number}-eth{way}" for number in range(1, SWITCHES + 1) for way in (2, 3)]
        return Seen(
            **vars(found),
            waiting=waiting // FRAME.bytes,
            dropped=net.fabric.dropped(),
            paused=sum(net.fabric.pfc(name, PRIORITY)["paused_until_ns"] is not None for name in between),
        )
