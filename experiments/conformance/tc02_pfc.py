"""TC2: an incast of RoCEv2 that PFC alone holds."""

from fractions import Fraction

from experiments.conformance._case import Bench, Control, case, without_ecn, without_pfc
from experiments.conformance._ranks import AGAIN, KB, MB, Ranks, reports

_XOFF = "XOFF sent on the lossless priorities"


@case(ports=1, timeout="240s", tables=without_ecn, control=Control("no PFC", without_pfc, fails=[_XOFF, AGAIN]))
def tc02_pfc(bench: Bench) -> None:
    """Six ranks send lossless data to one, and another sends lossy data: PFC holds them, and nothing is sent again."""
    ranks = Ranks(bench)
    first, second = ranks.lossless
    with ranks.one_switch() as net:
        each = ranks.filling(net, 7, Fraction(2, 5), 6 * MB)
        flows = [ranks.flow(rank, 7, first if rank < 3 else second, each) for rank in range(6)]
        flows[5] = ranks.flow(5, 7, second, each, message=4 * KB)
        flows += [ranks.flow(6, 7, priority, MB, message=128 * KB, rate=bench.line // 20) for priority in ranks.lossy]
        running = ranks.run(net, flows)
        received = sum(
            net.fabric.pfc(f"h{rank + 1}-eth0", one)["xoff_received"] for rank in range(6) for one in {first, second}
        )
        bench.claim(_XOFF, ranks.xoffs(net, ranks.lossless), at_least=1)
        bench.claim("XOFF that ranks received, less than were sent", ranks.xoffs(net) - received, equals=0)
        ranks.complete(net, flows, running)
    bench.claim("frames marked", sum(report.marked for report in running.reports), equals=0)
    bench.claim("CNPs", sum(report.cnps_sent for report in reports(running)), equals=0)
