"""TC6: queue pairs share a line alike by DCQCN, those of one queue and of two, and however many a rank has."""

from collections.abc import Sequence

from experiments.conformance._case import Bench, Control, case, without_ecn
from experiments.conformance._incast import DUAL, SENDERS, SINGLE, TARGET, Incast
from experiments.conformance._ranks import AGAIN, DROPPED, FRAME, KB, MB, Ranks, dcqcn, reports
from xoff import Duration, Ecn, Flow, Flows, Network

_MANY = 4
_MANY_TO_ONE = f"queue pairs of one rank and {_MANY} of another"
_DEVIATION = "largest deviation from the mean rate, in percent"
_CONVERGE, _MEASURE = Duration("8ms"), Duration("8ms")
"""The times in which rates settle, and in which they are measured, at 100 Gb/s."""


@case(ports=1, timeout="300s", control=Control("no ECN", without_ecn, fails=[f"{_MANY_TO_ONE}: {_DEVIATION}"]))
def tc06_qp_fairness(bench: Bench) -> None:
    """Two ranks send to a third by DCQCN, on one queue, on two, and with one queue pair against four: equal shares."""
    ranks = Ranks(bench)
    many = [
        ranks.flow(rank, TARGET, ranks.lossless[0], message=128 * KB, rate_control=dcqcn(bench), ecn=Ecn.ECT_0,
                   settings=ranks.quick_cnps)
        for rank in (0, *[1] * _MANY)
    ]  # fmt: skip
    with ranks.one_switch() as net:
        running = _measured(bench, net, many, len(many), _MANY_TO_ONE)
        bench.claim(f"{_MANY_TO_ONE}: {AGAIN}", sum(one.retransmitted for one in reports(running)), equals=0)
        bench.claim(f"{_MANY_TO_ONE}: {DROPPED}", net.fabric.dropped(), equals=0)
        bench.figure(f"{_MANY_TO_ONE}: XOFF sent", ranks.xoffs(net))
    for scenario in () if bench.is_control else (SINGLE, DUAL):
        with ranks.one_switch() as net:
            incast = Incast(ranks, net, scenario)
            flows = incast.flows(
                messages=(MB, MB), ecn=Ecn.ECT_0, rate_control=dcqcn(bench), settings=ranks.quick_cnps, endless=True
            )
            incast.take(flows, _measured(bench, net, flows, len(SENDERS), scenario))
            incast.claim_delivery()
            incast.claim_marks()
            bench.figure(f"{scenario}: XOFF for ranks 0 and 1", incast.xoffs)


def _measured(bench: Bench, net: Network, flows: Sequence[Flow], fair: int, name: str) -> Flows:
    """Run flows until their rates have settled, and claim that the first `fair` of them then have like rates."""
    with Flows(flows, settle=bench.settle_time(bench.fill_time(net))) as running:
        net.sleep(bench.paced(_CONVERGE))
        before = [running.received_by(place) for place in range(fair)]
        net.sleep(bench.paced(_MEASURE))
        taken = [running.received_by(place) - count for place, count in enumerate(before)]
    mean = sum(taken) / len(taken)
    worst = max(abs(frames - mean) for frames in taken) * 100 / max(1.0, mean)
    bench.claim(f"{name}: {_DEVIATION}", round(worst, 1), at_most=30)
    used = bench.frame_time(FRAME) * sum(taken) * 100 // bench.paced(_MEASURE)
    bench.figure(f"{name}: share of the line in use, in percent", used)
    bench.figure(f"{name}: frames by queue pair", taken)
    return running
