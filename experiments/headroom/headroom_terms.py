"""Each term of the sum of headroom at four rates: without it the frames that the sum says are lost, with all none."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

from xoff import (
    Buffer,
    Cable,
    Duration,
    Flow,
    GroupSettings,
    LosslessTopo,
    PfcFrame,
    Rate,
    RawPort,
    Run,
    Size,
    Static,
    experiment,
    network,
)

RATES = ("10Gb/s", "25Gb/s", "100Gb/s", "400Gb/s")
FRAME = Size("1514B")
ON_LINE = FRAME + Size("24B")
PFC_ON_LINE = Size("84B")
SENDS, STOPS = Duration("26ns"), Duration("40ns")
"""From the threshold to PAUSE, and from PAUSE to the stopped queue: what agents take on `um`."""
FLYING = 6
"""The frames that fit into a round trip, beside a part of one."""
FRAME_CELLS = 8
BELOW = 20
"""The frames that fit below the threshold."""
PRIORITY, OTHER = 3, 0


@dataclass(frozen=True)
class Case:
    """A sum of headroom for senders at four rates, and the frames that it lacks."""

    missing: int = 0
    ahead: bool = False
    """True if a frame begins to leave towards the sender just before PAUSE."""
    pfc_decides: bool = False
    """True if the round trip is so long that one frame more leaves in the time of the PFC frame."""
    line: str = "real"


CASES = {
    "all terms": Case(ahead=True),
    "less the frame ahead of PAUSE": Case(1, ahead=True),
    "less both frames": Case(2, ahead=True),
    "less the round trip": Case(FLYING, ahead=True),
    "no frame ahead": Case(),
    "no frame ahead, less the one that has begun": Case(1),
    "PFC frame decides": Case(pfc_decides=True),
    "PFC frame decides, less its time": Case(1, pfc_decides=True),
}
IDEAL = {
    "ideal line, less the frame ahead": Case(1, ahead=True, line="ideal"),
    "ideal line, less the PFC frame": Case(1, pfc_decides=True, line="ideal"),
}


@experiment(timeout="120s", free_cpu=True)
def headroom_terms(run: Run) -> None:
    """Senders at 10 to 400 Gb/s are paused, with headroom that lacks one term of its sum after the other.

    The terms are the round trip, the frame that is ahead of PAUSE, the PFC frame, and the frame that the sender has
    begun. The control cases are lines on which PFC frames never wait
    and take no time: two of the terms are for nothing there.
    """
    for name, case in CASES.items():
        for rate, (used, lost, dropped) in zip(RATES, _paused(case), strict=True):
            needed = frames(Rate(rate), case)
            run.claim(f"{rate}, {name}: frames in headroom", used, equals=needed - case.missing)
            run.claim(f"{rate}, {name}: lost", (lost, dropped), equals=(case.missing, case.missing))
    for name, case in IDEAL.items():
        for rate, (_, lost, _) in zip(RATES, _paused(case), strict=True):
            run.claim(f"{rate}, {name}: lost", lost, equals=0)


def frames(rate: Rate, case: Case) -> int:
    """Return the frames that come into headroom on a real line: the one that triggers PAUSE, and those whose first bits
    leave until it is obeyed.
    """
    frame, pause = rate.time_for(ON_LINE), rate.time_for(PFC_ON_LINE)
    waits = frame - SENDS if case.ahead else Duration("0s")
    until = _delay(rate, case) * 2 + SENDS + STOPS + waits + pause
    return 1 + until.ps // frame.ps


def _delay(rate: Rate, case: Case) -> Duration:
    """Return the delay of a cable on which the frames ahead, or the time of the PFC frame, make one frame more."""
    frame, pause = rate.time_for(ON_LINE), rate.time_for(PFC_ON_LINE)
    trip = frame * FLYING + (frame - pause // 2 if case.pfc_decides else frame * 19 // 20 - pause)
    return (trip - SENDS - STOPS) // 2


def _paused(case: Case) -> Iterator[tuple[int, int, int]]:
    """Yield the frames in headroom, and those lost by the flow and for want of headroom, for each rate."""

    class Pairs(LosslessTopo):
        """Hosts of one switch, s1, in pairs of the same rate: h1 and r1, and so on."""

        def build(self) -> None:
            self.addSwitch("s1", buffer=_buffer(case))
            for number, rate in enumerate(RATES, 1):
                cable = Cable(rate, delay=_delay(Rate(rate), case))
                for name in "hr":
                    self.addLink(self.addHost(f"{name}{number}"), "s1", cable=cable)

    numbers = range(1, len(RATES) + 1)
    with network(Pairs(line=case.line)) as net, ExitStack() as stack:
        for number in numbers:
            wire = stack.enter_context(RawPort(net[f"r{number}"], f"r{number}-eth0"))
            wire.send(PfcFrame.xoff(net.fabric.port(f"r{number}-eth0").mac, [PRIORITY]).encode())
        net.sleep("30us")
        count = BELOW + FLYING + 10
        flows = [Flow(f"h{number}", f"r{number}", PRIORITY, FRAME, count=count) for number in numbers]
        back = [Flow(f"r{number}", f"h{number}", OTHER, FRAME, count=count) for number in numbers if case.ahead]
        reports = net.run(*flows, *back).reports
        for number, report in zip(numbers, reports[: len(RATES)], strict=True):
            group = net.fabric.group(f"s1-eth{2 * number - 1}", PRIORITY)
            yield group.high_water[2] // FRAME_CELLS, report.lost, group.dropped_frames[0]


def _buffer(case: Case) -> Buffer:
    threshold = Static(BELOW * FRAME_CELLS)
    headrooms = [(frames(Rate(rate), case) - case.missing) * FRAME_CELLS for rate in RATES]
    groups = {
        (2 * number - 1, PRIORITY): GroupSettings(lossless=True, threshold=threshold, xon_offset=0, headroom=cells)
        for number, cells in enumerate(headrooms, 1)
    }
    return Buffer(20_000, xoff=threshold, xon_offset=0, headroom=0, groups=groups)
