"""A SONiC watchdog finds a storm on every lossless priority again and again, and one on a single priority once."""

import time
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated

from xoff import (
    Between,
    Duration,
    Flow,
    Flows,
    LosslessTopo,
    Mac,
    PfcFrame,
    PfcSettings,
    Port,
    RawPort,
    Run,
    WatchdogKind,
    WatchdogSettings,
    experiment,
    network,
)

LOSSLESS = (3, 4)
POLL = DETECTION = RESTORATION = Duration("200ms")
CYCLE = Duration("600ms")
"""One poll until the pause is seen at the next one too, one for the detection time and one for the restoration time."""
REPEAT = Duration("3ms")
SCALE = 10  # a storm of seconds, and few frames
RECEIVER = Mac.parse("02:00:00:00:00:01")
RATE, FRAME = "4Mb/s", "1000B"
SOURCE = "github.com/sonic-net/sonic-buildimage, issue 29203: 200/200 ms, action drop, about 624 ms a cycle"
MS = 1_000_000


@dataclass(frozen=True)
class Seen:
    """The storms of one priority."""

    found: tuple[int, ...]  # when, in ns of the lab
    ended: tuple[int, ...]  # while the storm lasted
    gaps: tuple[Duration, ...]  # between two storms found, in the time of the hardware


@experiment(timeout="300s", free_cpu=True)
def watchdog_flapping(run: Run, cycles: Annotated[int, Between(2, 4)] = 3) -> None:
    """Watchdogs that restore a queue in the middle of a storm, and others that do not.

    A receiver pauses its switch for seconds. SONiC's watchdog, with 200 ms for poll, detection and restoration, looks
    at counters: a storm is over when the port's counter of received PFC frames stands still. But it has switched PFC
    off for what is stormed, and a port without PFC counts none. So a storm on every lossless priority is found and
    restored every 600 ms, and each time the queue's frames are held until it is found anew. On one of two priorities
    the other one keeps the counter going, and the storm is found once. The control cases are an ideal watchdog, which
    finds both once, and timers of the hardware, which look at nothing and flap with either.
    """
    both, one = LOSSLESS, LOSSLESS[:1]
    for kind, priorities, flaps in (
        (WatchdogKind.SONIC, both, True),
        (WatchdogKind.SONIC, one, False),
        (WatchdogKind.IDEAL, both, False),
        (WatchdogKind.HARDWARE, one, True),
    ):
        seen = _storm(kind, priorities, cycles)
        label = f"{kind}, storm on {len(priorities)} of {len(LOSSLESS)}"
        run.figure(f"{label}: storms found", len(seen.found))
        run.claim(f"{label}: storms found more than once", len(seen.found) > 1, equals=flaps)
        run.claim(f"{label}: ended in the storm", len(seen.ended), equals=len(seen.found) - (not flaps))
        if kind is WatchdogKind.SONIC and flaps:
            run.claim(f"{label}: storms found", len(seen.found), equals=cycles)
            run.claim(f"{label}: from one to the next", sorted(set(map(str, seen.gaps))), equals=[str(CYCLE)])
            run.published(
                "from one storm found to the next",
                seen.gaps[0],
                value=Duration("624ms"),
                within="5%",
                source=SOURCE,
                differs="the lab's polls are exact, and those of a switch's software some ms late",
            )


def _storm(kind: WatchdogKind, priorities: Iterable[int], cycles: int) -> Seen:
    """Send a storm to a switch, as long as a SONiC watchdog needs for so many cycles."""

    class Watched(LosslessTopo):
        """A switch whose port to r is watched; h1 has frames for r."""

        def build(self) -> None:
            self.addSwitch("s1")
            self.addLink(self.addHost("h1"), "s1")
            watch = WatchdogSettings(DETECTION, RESTORATION, POLL, kind=kind)
            self.addLink("s1", self.addHost("r"), settings1=Port(pfc=PfcSettings(frozenset(LOSSLESS), watchdog=watch)))

    port = Port(pfc=PfcSettings(frozenset(LOSSLESS)))
    with network(Watched(scale=SCALE, port=port)) as net, RawPort(net["r"], "r-eth0") as wire:
        poll_ns = net.lab_ns(POLL)
        flows = [Flow("h1", "r", priority, rate=RATE, frame=FRAME) for priority in LOSSLESS]
        with Flows(flows):
            begin_ns = (time.monotonic_ns() // poll_ns + 1) * poll_ns + poll_ns // 4  # a quarter after a poll
            xoff = PfcFrame.xoff(RECEIVER, list(priorities)).encode()
            wire.send_at(xoff, begin_ns)
            last_ns = wire.repeat(xoff, net.lab_ns(REPEAT), CYCLE * cycles // REPEAT)
        events = [one for one in net.fabric.events() if one.port == "s1-eth2" and one.priorities == (LOSSLESS[0],)]
        found = [one.lab_ns for one in events if one.kind == "storm_detected"]
        ended = [one.lab_ns for one in events if one.kind == "storm_ended" and one.lab_ns < last_ns]
        real = net.fabric.units.nearest_real
        gaps = tuple(real(Duration.from_ns(later - earlier)) for earlier, later in pairwise(found))
        return Seen(tuple(found), tuple(ended), gaps)
