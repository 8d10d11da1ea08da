"""DCQCN after one notification: the cut, and the way back by time or by octets."""

import itertools
from dataclasses import replace

from xoff import (
    DCQCN_PAPER,
    Dcqcn,
    DcqcnParameters,
    Duration,
    Ecn,
    EcnCurve,
    Flow,
    Incast,
    Rate,
    Roce,
    RoceReport,
    Run,
    Size,
    experiment,
    marking,
    network,
)

LINE = Rate("10Gb/s")
STEPS = 5
SAMPLE = Duration("1us")
COUNTED = Size("100kB")


@experiment(timeout="60s")
def dcqcn_recovery(run: Run) -> None:
    """A short burst beside a RoCE flow has one of its packets marked: the receiver's CNP halves the flow's rate.

    Then the rate goes half of the way back to what it was at each event: 7.5, 8.75, 9.375 Gb/s and so on. By time the
    events come each 55 us, or 110 us if it is set so; by octets each 100 kB that are sent. Control
    case: without a mark there is no CNP, and the rate stays.
    """
    expected = _halves(LINE.bps)
    for case, parameters, interval in (
        ("by time", replace(DCQCN_PAPER, byte_counter=None), Duration("55us")),
        (
            "by twice the time",
            replace(DCQCN_PAPER, byte_counter=None, increase_interval=Duration("110us")),
            Duration("110us"),
        ),
        ("by octets", replace(DCQCN_PAPER, byte_counter=COUNTED, increase_interval=Duration("1s")), None),
    ):
        report = _run(run, case, parameters, "20kB")
        run.claim(f"{case}: CNPs", report.cnps_received, equals=1)
        steps = _steps(report)
        events = steps[1 : STEPS + 1]
        run.claim(f"{case}: rates", [rate for _, _, rate in steps][: STEPS + 1], equals=expected)
        if interval:
            gaps = [after[0] - before[0] for before, after in itertools.pairwise(events)]
            run.claim(f"{case}: between steps, at least", min(gaps), at_least=interval - SAMPLE)
            run.claim(f"{case}: between steps, at most", max(gaps), at_most=interval + SAMPLE)
        else:
            sent = [after[1] - before[1] for before, after in itertools.pairwise(events)]
            # The counter counts octets on the wire, 1106 for 1024 of payload, and is looked at each millisecond.
            least, most = (COUNTED.bytes * 1024 // 1106 + packets * 1024 for packets in (-3, 3))
            run.claim(f"{case}: octets between steps, at least", min(sent), at_least=least)
            run.claim(f"{case}: octets between steps, at most", max(sent), at_most=most)
    report = _run(run, "no marks", DCQCN_PAPER, None)
    run.claim("no marks: CNPs", report.cnps_received, equals=0)
    run.claim("no marks: rates", [rate for _, _, rate in _steps(report)], equals=[LINE.bps])


def _halves(rate: int) -> list[int]:
    """Return the line rate, the cut, and half of the way back at each event."""
    found, target = [rate, rate // 2], rate
    while len(found) <= STEPS:
        found.append((found[-1] + target) // 2)
    return found


def _steps(report: RoceReport) -> list[tuple[Duration, int, int]]:
    """Return moment, octets sent and rate, where the rate is another than before."""
    found: list[tuple[Duration, int, int]] = []
    for sample in report.samples:
        rate = int(sample["rate_bps"])
        if not found or found[-1][2] != rate:
            moment = report.scale.nearest_real(Duration.from_ns(sample["lab_ns"]))
            found.append((moment, sample["sent"], rate))
    return found


def _run(run: Run, case: str, parameters: DcqcnParameters, kmin: str | None) -> RoceReport:
    curve = EcnCurve.step(kmin) if kmin else None
    with network(Incast(n=2, **marking(curve)), case=case) as net:
        flows = [
            Flow(
                "h1",
                "r",
                transport=Roce(sample=SAMPLE),
                duration="1500us",
                rate_control=lambda line: Dcqcn(line, parameters),
            ),
            # In the queue it makes, the flow's packets are marked until its first CNP has slowed it down.
            Flow("h2", "r", rate=LINE, start="300us", duration="30us", ecn=Ecn.ECT_0),
        ]
        running = net.run(*flows)
        run.claim(f"{case}: dropped", net.fabric.dropped(), equals=0)
        return running.reports_of(RoceReport)[0]
