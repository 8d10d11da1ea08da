"""TC1: RoCEv2 without congestion."""

from experiments.conformance._case import Bench, Control, case
from experiments.conformance._ranks import MB, RANKS, Ranks, one_class, reports

_QUEUES = "ranks whose data are not all on the queue of their DSCP"
_ACKS = "ranks whose acknowledgements are not on their queue"


@case(ports=1, control=Control("one class for all DSCPs", one_class, fails=[_QUEUES, _ACKS]))
def tc01_basic(bench: Bench) -> None:
    """Four ranks send to four others, lossless and lossy: all arrives, each on its queue, and nothing slows it down."""
    ranks, half = Ranks(bench), RANKS // 2
    first, second = ranks.lossless
    priorities = {0: [first], 1: [second], 2: ranks.lossy, 3: [first, ranks.lossy[0]]}
    flows = [
        ranks.flow(source, source + half, priority, 4 * MB // len(several), rate=bench.line * 9 // (10 * len(several)))
        for source, several in priorities.items()
        for priority in several
    ]
    with ranks.one_switch() as net:
        running = ranks.run(net, flows)
        arrived: dict[tuple[int, int], int] = {}
        for flow, report in zip(flows, running.reports, strict=True):
            place = int(flow.target.removeprefix("h")) - 1, flow.priority
            arrived[place] = arrived.get(place, 0) + report.received
        strays = {rank for (rank, priority), frames in arrived.items() if ranks.queued(net, rank, priority) != frames}
        silent = [rank for rank in priorities if ranks.queued(net, rank, ranks.ack) < 4]
        xoffs = ranks.xoffs(net)
        bench.claim(_QUEUES, len(strays), equals=0)
        bench.claim(_ACKS, len(silent), equals=0)
        ranks.complete(net, flows, running)
    bench.claim("frames marked", sum(report.marked for report in running.reports), equals=0)
    bench.claim("CNPs", sum(report.cnps_sent for report in reports(running)), equals=0)
    bench.claim("XOFF sent", xoffs, equals=0)
