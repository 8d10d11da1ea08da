"""TC11: acknowledgements wait for no paused data if they have a queue of their own."""

from dataclasses import replace
from fractions import Fraction

from experiments.conformance._case import Bench, Control, case, without_ecn
from experiments.conformance._ranks import KB, MB, SETTINGS, Ranks, reports
from xoff import Duration, Ways

_TIMEOUTS = "time-outs of the rank whose acknowledgements come back beside the incast"
_SHORT, _LONG = Duration("40us"), Duration("20ms")
"""Retransmission timers at 100 Gb/s: of that rank, whose own way is free, and of the incast, whose data wait."""


@case(
    ports=1,
    timeout="300s",
    tables=without_ecn,
    control=Control("acknowledgements on the queue of the data", fails=[_TIMEOUTS]),
)
def tc11_control_queue(bench: Bench) -> None:
    """Four ranks send to one that sends to them: its acknowledgements have their own queue, so it repeats nothing."""
    ranks = Ranks(bench)
    priority = ranks.lossless[0]
    ack = priority if bench.is_control else ranks.ack
    short, long = replace(SETTINGS, retransmit_after=bench.paced(_SHORT)), replace(SETTINGS, retransmit_after=_LONG)
    with ranks.leaf_spine(2, ways=Ways()) as net:
        each = ranks.filling(net, 4, Fraction(1, 2), 6 * MB)
        incast = [
            ranks.flow(rank, 4, priority, each, message=128 * KB, ack=ack, settings=long, target_settings=short)
            for rank in range(4)
        ]
        broadcast = [
            ranks.flow(4, rank, priority, max(2 * MB, each // 3), message=128 * KB, rate=bench.line // 8, ack=ack,
                       settings=short, target_settings=long)
            for rank in range(4)
        ]  # fmt: skip
        flows = [*incast, *broadcast]
        running = ranks.run(net, flows)
        found = reports(running)
        bench.claim(_TIMEOUTS, sum(report.timeouts for report in found[len(incast) :]), equals=0)
        ranks.complete(net, flows, running)
        bench.claim("XOFF sent on the lossless priority", ranks.xoffs(net, [priority]), at_least=1)
    bench.claim("CNPs", sum(report.cnps_sent for report in found), equals=0)
    bench.figure("longest completion", max(report.completion for report in found))
