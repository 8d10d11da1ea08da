"""TC3: an incast of RoCEv2 with DCQCN."""

from experiments.conformance._case import Bench, Control, case, without_ecn
from experiments.conformance._ranks import KB, MB, Ranks, reports
from xoff import Ecn

_MARKED, _CNPS = "frames marked", "CNPs that senders received"


@case(ports=1, timeout="240s", control=Control("no ECN", without_ecn, fails=[_MARKED, _CNPS]))
def tc03_dcqcn(bench: Bench) -> None:
    """Six ranks send lossless data to one by DCQCN: the switch marks, and CNPs come back on their own queue."""
    ranks = Ranks(bench)
    first, second = ranks.lossless
    flows = [
        ranks.flow(
            rank, 7, first if rank < 3 else second, 6 * MB, message=128 * KB, rate_control="dcqcn", ecn=Ecn.ECT_0
        )
        for rank in range(6)
    ]
    with ranks.one_switch() as net:
        before = [ranks.queued(net, rank, ranks.cnp) for rank in range(6)]
        running = ranks.run(net, flows)
        found = reports(running)
        sent, received = sum(one.cnps_sent for one in found), sum(one.cnps_received for one in found)
        on_queue = sum(ranks.queued(net, rank, ranks.cnp) for rank in range(6)) - sum(before)
        bench.claim(_CNPS, received, at_least=1)
        bench.claim(_MARKED, sum(report.marked for report in found), at_least=1)
        bench.claim("CNPs lost", sent - received, equals=0)
        # A reply of the connection manager to each sender goes there too.
        bench.claim("frames on the queue of CNPs that are none", on_queue - sent - len(flows), equals=0)
        ranks.complete(net, flows, running)
        bench.figure("XOFF sent", ranks.xoffs(net))
