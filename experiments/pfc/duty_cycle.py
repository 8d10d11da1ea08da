"""Pauses at a steady beat: what gets through is the part of the time in which nothing is paused."""

import time
from fractions import Fraction

from xoff import Duration, Flow, Flows, Incast, Mac, PfcFrame, Port, Rate, RawPort, Run, experiment, network

LINE = Rate("10Gb/s")
PERIOD = Duration("520us")
PERIODS = 4
PARTS = (Fraction(1, 4), Fraction(1, 2), Fraction(3, 4))
RECEIVER = Mac.parse("02:00:00:00:00:01")


@experiment(timeout="60s")
def duty_cycle(run: Run) -> None:
    """A receiver pauses its switch for 1/4, 1/2 and 3/4 of the time: the rest of the line rate gets through.

    A pause ends with its time or by XON, and both give the same. A frame that has begun is not cut, so each period can
    be wrong by one of the 422 frames that it has room for. The control case is a switch without PFC.
    """
    beats = [(part, by_xon) for part in PARTS for by_xon in (False, True)]
    for (part, by_xon), (goodput, lost) in zip(beats, _through(run, Port(), beats), strict=True):
        name = f"paused {part} of the time, until {'XON' if by_xon else 'the time is over'}"
        due = LINE * (part.denominator - part.numerator) // part.denominator
        run.claim(f"{name}: goodput", goodput, at_least=due * 99 // 100, at_most=due * 101 // 100)
        run.claim(f"{name}: lost", lost, equals=0)
    [(goodput, _)] = _through(run, Port().without_pfc(), [(Fraction(1, 2), False)])
    run.claim("XOFF for 1/2 of the time, without PFC: goodput", goodput, at_least=LINE * 99 // 100)


def _through(run: Run, port: Port, beats: list[tuple[Fraction, bool]]) -> list[tuple[Rate, int]]:
    """Return the goodput and the losses of a flow at line rate in each beat."""
    found = []
    with (
        network(Incast(n=1, port=port)) as net,
        RawPort(net["r"], "r-eth0") as wire,
        run.measuring(),
    ):
        for part, by_xon in beats:
            pause = Duration.from_ns(int(PERIOD.ns * part))
            xoff = PfcFrame.xoff(RECEIVER, [3]) if by_xon else PfcFrame.xoff(RECEIVER, [3], LINE.quanta(pause))
            with Flows([Flow("h1", "r")]) as flows:
                begin_ns = time.monotonic_ns() + 100_000_000
                for number in range(PERIODS + 1):  # one more than is counted: the counting begins a little later
                    wire.send_at(xoff.encode(), begin_ns + number * net.lab_ns(PERIOD))
                    if by_xon:
                        until_ns = begin_ns + number * net.lab_ns(PERIOD) + net.lab_ns(pause)
                        wire.send_at(PfcFrame.xon(RECEIVER, [3]).encode(), until_ns)
            report, end_ns = flows.reports[0], begin_ns + net.lab_ns(PERIOD * PERIODS)
            found.append((report.goodput_between(begin_ns, end_ns), report.lost))
    return found
