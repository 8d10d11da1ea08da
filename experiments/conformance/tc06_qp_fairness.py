"""TC6: queue pairs share a line alike, however many of them a rank has."""

from dataclasses import replace

from experiments.conformance._case import Bench, Control, case, without_ecn
from experiments.conformance._ranks import AGAIN, DROPPED, FRAME, KB, SETTINGS, Ranks, reports
from xoff import DCQCN_PAPER, Dcqcn, DcqcnParameters, Duration, Ecn, Flows, Line

_DEVIATION = "largest deviation of a queue pair from the mean rate, in percent"
_CONVERGE, _MEASURE = Duration("8ms"), Duration("8ms")
"""The times in which rates settle, and in which they are measured, at 100 Gb/s."""
_MANY = 4


@case(ports=1, timeout="300s", control=Control("no ECN", without_ecn, fails=[_DEVIATION]))
def tc06_qp_fairness(bench: Bench) -> None:
    """One rank with a queue pair and one with four send to a third: by DCQCN each queue pair gets a like share."""
    ranks = Ranks(bench)
    priority = ranks.lossless[0]
    parameters = _parameters(bench)

    def control(line: Line) -> Dcqcn:
        return Dcqcn(line, parameters)

    settings = replace(SETTINGS, cnp_interval=bench.paced(SETTINGS.cnp_interval))
    flows = [
        ranks.flow(rank, 7, priority, message=128 * KB, rate_control=control, ecn=Ecn.ECT_0, settings=settings)
        for rank in (0, *[1] * _MANY)
    ]
    with ranks.one_switch() as net:
        settle = bench.settle_time(bench.fill_time(net))
        with Flows(flows, settle=settle) as running:
            net.sleep(bench.paced(_CONVERGE))
            before = [running.received_by(place) for place in range(len(flows))]
            net.sleep(bench.paced(_MEASURE))
            taken = [running.received_by(place) - count for place, count in enumerate(before)]
        mean = sum(taken) / len(taken)
        worst = max(abs(frames - mean) for frames in taken) * 100 / max(1.0, mean)
        bench.claim(_DEVIATION, round(worst, 1), at_most=30)
        bench.claim(AGAIN, sum(report.retransmitted for report in reports(running)), equals=0)
        bench.claim(DROPPED, net.fabric.dropped(), equals=0)
        used = bench.frame_time(FRAME) * sum(taken) * 100 // bench.paced(_MEASURE)
        bench.figure("share of the line in use, in percent", used)
        bench.figure("frames by queue pair", taken)
        bench.figure("XOFF sent", ranks.xoffs(net))


def _parameters(bench: Bench) -> DcqcnParameters:
    """Return DCQCN's parameters with times and steps that follow the speed of the line, as the times of the case do.

    Those of the paper are for 40 Gb/s: steps of 40 Mb/s would bring no rate near to its share of 800 Gb/s.
    """
    faster, paper = bench.switch.scale.k, DCQCN_PAPER
    return replace(
        paper,
        alpha_interval=bench.paced(paper.alpha_interval),
        increase_interval=bench.paced(paper.increase_interval),
        additive_increase=paper.additive_increase * faster // 1000,
        hyper_increase=paper.hyper_increase * faster // 1000,
    )
