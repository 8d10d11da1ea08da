"""TC9: lossless traffic keeps its share where a link is down."""

from fractions import Fraction

from experiments.conformance._case import Bench, Control, case, without_ecn, without_pfc
from experiments.conformance._ranks import AGAIN, FRAME, KB, Ranks, reports
from xoff import Duration, Flows, Ways

_SPINES, _PAIRS = 2, 16
_ALONE, _LONG = Duration("300us"), Duration("2ms")
"""The times for which the background is alone, and in which RoCE is beside it, at 100 Gb/s."""


@case(ports=1, timeout="300s", tables=without_ecn, control=Control("no PFC", without_pfc, fails=[AGAIN]))
def tc09_qos_link_down(bench: Bench) -> None:
    """Three lossy flows fill the uplink that is left: lossless queue pairs get their share of it, and lose nothing."""
    ranks = Ranks(bench)
    background = [
        bench.flow(f"h{place + 1}", f"h{place + 5}", ranks.lossy[place % len(ranks.lossy)], ecn=None)
        for place in range(3)
    ]
    own = ranks.flow(3, 7, ranks.lossless[0], message=128 * KB, queue_pairs=_PAIRS, start=bench.paced(_ALONE))
    with ranks.leaf_spine(_SPINES, ways=Ways()) as net:
        for leaf in ("leaf1", "leaf2"):
            net.fabric.cabling.pull(net.port(leaf, "spine2"))
        net.sleep("50us")  # until both leaves have noticed, which takes the same time at each speed
        settle = bench.settle_time(bench.fill_time(net))
        with Flows([*background, own], settle=settle) as running:
            net.sleep(bench.paced(_ALONE) * 2)
            before = [running.received_by(place) for place in range(4)]
            net.sleep(bench.paced(_LONG))
            taken = [running.received_by(place) - count for place, count in enumerate(before)]
        share = bench.frame_time(FRAME) * taken[3] * 100 // bench.paced(_LONG)
        bench.claim("share of the uplink of lossless data, in percent", share, at_least=int(_share(bench, ranks) * 97))
        bench.claim(AGAIN, sum(report.retransmitted for report in reports(running)), equals=0)
        bench.claim("background flows that stood still", sum(frames == 0 for frames in taken[:3]), equals=0)
        bench.claim("XOFF sent on the lossless priority", ranks.xoffs(net, ranks.lossless[:1]), at_least=1)
        bench.figure("frames of the background and of RoCE", taken)


def _share(bench: Bench, ranks: Ranks) -> Fraction:
    """Return the part of a line that the queue of lossless data has by its weight, beside those of the background."""
    settings = bench.given.ports[bench.ports[0]].settings
    if ranks.queue(ranks.lossless[0]) in settings.strict:
        return Fraction(9, 10)
    queues = {ranks.queue(one) for one in (ranks.lossless[0], *ranks.lossy)}
    weights = {queue: settings.dwrr.get(queue, 1) for queue in queues}
    return Fraction(weights[ranks.queue(ranks.lossless[0])], sum(weights.values()))
