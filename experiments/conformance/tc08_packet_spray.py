"""TC8: leaves spray packets over their uplinks, and receivers put them in order."""

from experiments.conformance._case import Bench, Control, case
from experiments.conformance._ranks import KB, RANKS, Ranks
from xoff import Duration, Ecn, Nic, Ways

_SPINES = 4
_UNBALANCED = "fullest uplink above the emptiest, in percent of it"
_WAITS = Nic(reorder_time=Duration("50us"), reorder_packets=1024)


@case(ports=1, timeout="240s", control=Control("a hash of each flow", fails=[_UNBALANCED]))
def tc08_packet_spray(bench: Bench) -> None:
    """All ranks send to all others, packet by packet over all uplinks: those are equally full, and nothing is lost."""
    ranks = Ranks(bench)
    flows = [
        ranks.flow(source, target, ranks.lossless[0], 512 * KB, message=128 * KB, rate=bench.line // RANKS,
                   ecn=Ecn.ECT_0, nic=_WAITS)
        for source in range(RANKS) for target in range(RANKS) if source != target
    ]  # fmt: skip
    with ranks.leaf_spine(_SPINES, ways=Ways() if bench.is_control else Ways("spray")) as net:
        running = ranks.run(net, flows)
        frames = {leaf: [way.frames for way in net.ways(leaf)] for leaf in ("leaf1", "leaf2")}
        worst = max((max(one) - min(one)) * 100 / max(1, min(one)) for one in frames.values())
        bench.claim(_UNBALANCED, round(worst, 1), at_most=5)
        ranks.complete(net, flows, running)
        bench.claim("XOFF sent", ranks.xoffs(net), equals=0)
    bench.claim("frames marked", sum(report.marked for report in running.reports), equals=0)
    bench.figure("frames by uplink", frames)
    bench.figure("frames out of order", sum(report.out_of_order for report in running.reports))
    bench.figure("frames of data", sum(report.sent for report in running.reports))
