"""TC10: a leaf that loses an uplink sends its flows by others, and takes it again when it is back."""

from experiments.conformance._case import Bench, Control, case, without_ecn
from experiments.conformance._ranks import MB, Ranks, reports
from xoff import Duration, Flows, Network, Ways

_SPINES, _PAIRS = 4, 4
_STEP, _EDGE = Duration("300us"), Duration("100us")
"""The length of each part, and the time after a change in which flows find their way, at 100 Gb/s."""
_STILL = "queue pairs that stood still while the link was down"


@case(ports=1, timeout="300s", tables=without_ecn, control=Control("a leaf that does not notice", fails=[_STILL]))
def tc10_failover(bench: Bench) -> None:
    """An uplink with traffic fails and comes back: every queue pair goes on by another one, and it is used again."""
    ranks = Ranks(bench)
    flows = [
        ranks.flow(rank, rank + 4, ranks.lossless[0], message=MB, rate=bench.line // (2 * _PAIRS))
        for rank in range(3)
        for _ in range(_PAIRS)
    ]
    step, edge = bench.paced(_STEP), bench.paced(_EDGE)
    ways = Ways(gone_after="1s") if bench.is_control else Ways()
    with ranks.leaf_spine(_SPINES, ways=ways) as net:
        with Flows(flows, settle=bench.settle_time(bench.fill_time(net))) as running:

            def received() -> list[int]:
                return [running.received_by(place) for place in range(len(flows))]

            net.sleep(step)
            uplink = max(_frames(net), key=lambda port: (_frames(net)[port], port))
            spine = net.fabric.far_end(net.fabric.port(uplink)).node.name
            other = net.port("leaf2", spine)  # a routing protocol would have the other leaf leave this way too
            for port in (uplink, other):
                net.fabric.cabling.pull(port)
            net.sleep(edge)
            at_begin, on_uplink = received(), _frames(net)[uplink]
            net.sleep(step)
            still = sum(after == before for before, after in zip(at_begin, received(), strict=True))
            in_vain = _frames(net)[uplink] - on_uplink
            for port in (uplink, other):
                net.fabric.cabling.plug(port)
            net.sleep(edge)
            back = _frames(net)[uplink]
            net.sleep(step)
            again = _frames(net)[uplink] - back
        found = reports(running)
        bench.claim(_STILL, still, equals=0)
        bench.claim("frames given to the uplink while it was down", in_vain, equals=0)
        bench.claim("frames given to it after it was back", again, at_least=1)
        bench.claim("queue pairs that failed", sum(bool(report.failure) for report in found), equals=0)
        bench.claim("flows whose data are not those that were sent", sum(not one.intact for one in found), equals=0)
        bench.figure("frames sent again", sum(report.retransmitted for report in found))


def _frames(net: Network) -> dict[str, int]:
    return {way.port: way.frames for way in net.ways("leaf1")}
