"""TC1: RoCEv2 without congestion."""

from experiments.conformance._case import Bench, Control, case
from experiments.conformance._ranks import MB, Ranks, one_class, reports
from xoff import Ecn

_QUEUES = "queues of data whose frames are not those that the ranks sent"
_ACKS = "acknowledgements on their queue"
_LOSSY = (0, 1, 2, 5, 6)
_SENDERS, _RECEIVERS = (0, 1), (2, 3)


@case(ports=1, control=Control("one class for all DSCPs", one_class, fails=[_QUEUES, _ACKS]))
def tc01_basic(bench: Bench) -> None:
    """A rank sends lossless data, and another one on all lossy queues: all arrives, each on its queue, unslowed."""
    ranks, dice = Ranks(bench), bench.run.rng
    priorities = {
        0: [dice.choice(ranks.lossless)],
        1: [one for one in _LOSSY if one in bench.lossy] or bench.lossy[:1],
    }
    flows = [
        ranks.flow(
            source, source + 2, priority, 4 * MB // len(several), rate=bench.line * 9 // (10 * len(several)),
            dscp=dice.choice(ranks.dscps(priority)), ecn=Ecn.NOT_ECT,
        )
        for source, several in priorities.items()
        for priority in several
    ]  # fmt: skip
    with ranks.one_switch() as net:
        running = ranks.run(net, flows)
        strays = 0
        for flow, report in zip(flows, running.reports, strict=True):
            target, sent = int(flow.target.removeprefix("h")) - 1, net.fabric.sent(f"{flow.source}-eth0").sent_frames
            # On the queue of CNPs there are messages of the connection manager, too.
            strays += not ranks.queued(net, target, flow.priority) == sent[flow.priority] >= report.received > 0
        acks, of_nics = ranks.control_frames(net, _RECEIVERS, ranks.ack)
        cnps, others = ranks.control_frames(net, _RECEIVERS, ranks.cnp)
        pauses = [ranks.pauses(net, rank) for rank in (*_SENDERS, *_RECEIVERS)]
        bench.claim(_QUEUES, strays, equals=0)
        bench.claim(_ACKS, acks, equals=max(4, of_nics))
        bench.claim("frames on the queue of CNPs", cnps, equals=others)
        ranks.complete(net, flows, running)
    found = reports(running)
    bench.claim("NAKs and time-outs", sum(one.went_back + one.timeouts for one in found), equals=0)
    bench.claim("frames marked", sum(report.marked for report in found), equals=0)
    bench.claim("CNPs", sum(report.cnps_sent + report.cnps_received for report in found), equals=0)
    for side, frames in zip(("by the switch", "by the ranks"), zip(*pauses, strict=True), strict=True):
        bench.claim(f"PFC frames counted {side}", sum(map(sum, frames)), equals=0)
    bench.figure("DSCPs", [flow.dscp for flow in flows])
