"""ECN that marks by a rising probability, as RED and DCQCN want it: the share of marks follows the configured curve."""

from fractions import Fraction
from math import sqrt
from typing import Any

from experiments.congestion._held import Held, Marking, found
from testbed.switch.ecn.red import red_parameters
from xoff import Ecn, EcnCurve, Rate, Run, Size, experiment, network

FRAME = Size("1514B")
LINE = Rate("10Gb/s")
KMIN, KMAX, PMAX = 20, 120, Fraction(1, 5)
BELOW, BETWEEN, JUST_BELOW, ABOVE = 10, (45, 70, 95), 119, 120
"""Lengths of the queue, in frames."""
MIXED = 70
MANY, MORE, SOME, FEW = 2000, 1000, 500, 50


@experiment(timeout="90s")
def ecn_ramp(run: Run) -> None:
    """A queue is held at known lengths between 20 and 120 frames: the share of marked packets is the curve's there.

    Chance decides, so bounds are four standard deviations about what Linux RED is computed to mark; the curve itself
    is within half a point of that. Packets that carry a mark already pass, and those without ECN are dropped instead.
    From 120 frames on everything is marked. The control case is the same queue without ECN.
    """
    curve = EcnCurve(FRAME * KMIN, FRAME * KMAX, PMAX)
    reports = _lengths(run, curve)
    for kind in Ecn:
        run.claim(
            f"{BELOW} waiting, {kind.name}: arrived, by ECN field",
            reports[f"{kind.name} at {BELOW}"].ecn,
            equals=tuple(FEW * (kind is other) for other in Ecn),
        )
    for waiting in (*BETWEEN, JUST_BELOW):
        _claim_marks(run, curve, waiting, reports[f"marks at {waiting}"])
    passed = reports[f"CE at {MIXED}"]
    run.claim(f"{MIXED} waiting, CE: arrived", passed.ecn, equals=(0, 0, 0, SOME))
    run.claim(f"{ABOVE} waiting: marked", reports[f"marks at {ABOVE}"].ecn, equals=(0, 0, 0, FEW))

    other, without = reports["ECT beside NOT_ECT"], reports["NOT_ECT"]
    share = _share(curve, MIXED)
    run.claim("ECT beside NOT_ECT: lost", other.lost, equals=0)
    run.claim("NOT_ECT: arrived with a mark", without.marked, equals=0)
    # Chance drops every 1/share-th of them. A dropped frame shortens the queue, which makes the next drop less likely,
    # and that holds the number closer to this than chance alone.
    spread = 4 * sqrt(without.sent * share * (1 - share))
    run.claim(
        f"NOT_ECT: lost of {without.sent}",
        without.lost,
        at_least=round(without.sent * share - spread),
        at_most=round(without.sent * share + spread),
    )

    marks = sum(report.marked for name, report in _lengths(run, None).items() if not name.startswith("CE"))
    run.claim("without ECN: marked", marks, equals=0)


def _claim_marks(run: Run, curve: EcnCurve, waiting: int, report: Any) -> None:
    """Claim that the queue was as long as planned, nothing was lost, and marks are as many as chance allows."""
    share = _share(curve, waiting)
    # Linux draws the distance between two marks evenly from 1 to `longest`.
    longest = 2 / share - 1
    spread = 4 * sqrt(report.sent * share**3 * (longest**2 - 1) / 12)
    run.claim(f"{waiting} waiting: found waiting", found(report), equals=waiting)
    run.claim(f"{waiting} waiting: lost", report.lost, equals=0)
    passed = (0, 0, report.sent - report.marked, report.marked)
    run.claim(f"{waiting} waiting: all others pass with the ECN field that they had", report.ecn, equals=passed)
    run.figure(f"{waiting} waiting: the curve's share", f"{float(curve.fraction(waiting * FRAME.bytes)):.1%}")
    run.claim(
        f"{waiting} waiting: marked of {report.sent}",
        report.marked,
        at_least=round(report.sent * share - spread),
        at_most=round(report.sent * share + spread),
    )


def _share(curve: EcnCurve, waiting: int) -> float:
    """Return the share that Linux RED marks in the long run, with the parameters that follow the curve."""
    return float(red_parameters(curve, plug_below=True).expected_fraction(waiting * FRAME.bytes))


def _lengths(run: Run, curve: EcnCurve | None) -> dict[str, Any]:
    """Return the report of the packets at each length."""
    with network(Marking(curve)) as net:
        held = Held(net)
        held.grow(f"to {BELOW}", BELOW)
        for kind in Ecn:
            held.hold(f"{kind.name} at {BELOW}", FEW, kind)
        length = BELOW
        for waiting, frames in [*((length, MANY) for length in BETWEEN), (JUST_BELOW, SOME), (ABOVE, FEW)]:
            held.grow(f"to {waiting}", waiting - length)
            held.hold(f"marks at {waiting}", frames if curve else FEW)
            if waiting == MIXED:
                held.hold(f"CE at {MIXED}", SOME, Ecn.CE)
            length = waiting
        held.rest(ABOVE - MIXED)
        # A quarter of what leaves shall be without ECN, so somewhat more has to come.
        share = _share(curve, MIXED) if curve else 0
        held.beside("NOT_ECT", MORE, Ecn.NOT_ECT, Rate.from_bps(int(LINE.bps / 4 / (1 - share))))
        held.hold("ECT beside NOT_ECT", MORE * 3, rate=LINE * 3 // 4)
        return held.run()
