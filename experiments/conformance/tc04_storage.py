"""TC4: storage traffic, which keeps its rate, against AI traffic, which DCQCN slows down."""

from fractions import Fraction

from experiments.conformance._case import Bench, Control, case, without_ecn
from experiments.conformance._ranks import AGAIN, DROPPED, INCOMPLETE, MB, Ranks, missing, reports
from xoff import Ecn

_PAUSED = "XOFF sent with DCQCN, in percent of those without"


@case(ports=1, timeout="300s", control=Control("no ECN", without_ecn, fails=[_PAUSED]))
def tc04_storage(bench: Bench) -> None:
    """The same incast at a constant rate and with DCQCN: the first is held by PFC, the second by far less of it."""
    ranks = Ranks(bench)
    first, second = ranks.lossless
    xoffs, again, left, dropped, marked = [], 0, 0, 0, []
    for control in (None, "dcqcn"):
        with ranks.one_switch() as net:
            each = ranks.filling(net, 7, Fraction(2, 5), 8 * MB)
            flows = [
                ranks.flow(rank, 7, first if rank < 3 else second, each, rate_control=control, ecn=Ecn.ECT_0)
                for rank in range(6)
            ]
            running = ranks.run(net, flows)
            xoffs.append(ranks.xoffs(net, ranks.lossless))
            again += sum(report.retransmitted for report in reports(running))
            left += missing(flows, running)
            dropped += net.fabric.dropped()
            marked.append(sum(report.marked for report in running.reports))
    constant, controlled = xoffs
    bench.claim(_PAUSED, controlled * 100 // max(1, constant), at_most=50)
    bench.claim("XOFF sent without DCQCN", constant, at_least=1)
    for name, value in ((INCOMPLETE, left), (AGAIN, again), (DROPPED, dropped)):
        bench.claim(name, value, equals=0)
    bench.figure("frames marked without and with DCQCN", marked)
