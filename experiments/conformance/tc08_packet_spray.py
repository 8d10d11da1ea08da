"""TC8: leaves spray packets over their uplinks, and receivers put them in order."""

from experiments.conformance._case import Bench, Control, case
from experiments.conformance._ranks import KB, RANKS, Ranks, reports
from xoff import Duration, Ecn, Nic, Size, Ways

_SPINES = 4
_PREFERRED = {"spine1": 8}
_UNBALANCED = "fullest uplink above the emptiest, in percent of it"
_WAITED = "most that waited at an uplink"
_MOST = Size("100kB")
_WAITS = Nic(reorder_time=Duration("50us"), reorder_packets=1024)


@case(ports=1, timeout="240s", control=Control("a leaf that prefers one uplink", fails=[_UNBALANCED, _WAITED]))
def tc08_packet_spray(bench: Bench) -> None:
    """All ranks send to all others, packet by packet over all uplinks: those are equally full, and nothing is lost."""
    ranks = Ranks(bench)
    flows = [
        ranks.flow(source, target, ranks.lossless[0], 512 * KB, message=128 * KB, ecn=Ecn.ECT_0, nic=_WAITS)
        for source in range(RANKS)
        for target in range(RANKS)
        if source != target
    ]
    with ranks.leaf_spine(_SPINES, ways=Ways("spray", weights=_PREFERRED if bench.is_control else {})) as net:
        running = ranks.run(net, flows)
        frames = {leaf: [way.frames for way in net.ways(leaf)] for leaf in ("leaf1", "leaf2")}
        worst = max((max(one) - min(one)) * 100 / max(1, min(one)) for one in frames.values())
        bench.claim(_UNBALANCED, round(worst, 1), at_most=5)
        queues = [net.fabric.sent(way.port).most_queued_bytes for leaf in frames for way in net.ways(leaf)]
        bench.claim(_WAITED, Size.from_bytes(max(map(sum, queues))), at_most=_MOST)
        ranks.complete(net, flows, running)
        bench.claim("XOFF sent", ranks.xoffs(net), equals=0)
        acks, of_nics = ranks.control_frames(net, range(RANKS), ranks.ack, range(RANKS))
        bench.claim("acknowledgements on their queue", acks, equals=max(1, of_nics))
    found = reports(running)
    bench.claim("frames marked", sum(report.marked for report in found), equals=0)
    bench.claim("CNPs", sum(report.cnps_sent for report in found), equals=0)
    bench.figure("frames by uplink", frames)
    bench.figure("frames out of order", sum(report.out_of_order for report in found))
    bench.figure("frames of data", sum(report.sent for report in found))
    bench.figure("longest completion", max(report.completion for report in found))
