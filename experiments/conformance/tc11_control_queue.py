"""TC11: acknowledgements wait for no paused data if they have a queue of their own."""

from dataclasses import replace
from typing import Any

from experiments.conformance._case import Bench, Control, case, without_ecn
from experiments.conformance._ranks import KB, MB, RANKS, SETTINGS, Ranks, reports
from xoff import Duration, Rate, Ways

_SHORT, _LONG = Duration("40us"), Duration("20ms")
"""Retransmission timers at 100 Gb/s: of the rank that broadcasts, whose own way is free, and of the incast, whose data
wait.
"""
_TARGET = 4
_AI, _CONSTANT, _OTHER = (
    "as fast as the line",
    "at a constant rate",
    "broadcast and its acknowledgements on the other queue",
)


def _timeouts(step: str) -> str:
    return f"{step}: time-outs of the rank whose acknowledgements come back beside the incast"


@case(
    ports=1,
    timeout="300s",
    tables=without_ecn,
    control=Control("acknowledgements on the queue of the data", fails=[_timeouts(_AI)]),
)
def tc11_control_queue(bench: Bench) -> None:
    """Four ranks send to one that sends to them: its acknowledgements have another queue, so it repeats nothing."""
    ranks, line = Ranks(bench), bench.line
    first, last = ranks.lossless
    if bench.is_control:
        _step(bench, _AI, first, first, None)
        return
    _step(bench, _AI, first, ranks.ack, None)
    _step(bench, _CONSTANT, first, ranks.ack, line * 9 // 10)
    if last != first:
        _step(bench, _OTHER, last, last, line * 9 // 10)


def _step(bench: Bench, step: str, priority: int, ack: int, rate: Rate | None) -> None:
    """Run incast and broadcast. `priority` and `ack` are those of the broadcast's data and of its acknowledgements."""
    ranks = Ranks(bench)
    first = ranks.lossless[0]
    incast_ack = first if bench.is_control else ranks.ack
    short, long = replace(SETTINGS, retransmit_after=bench.paced(_SHORT)), replace(SETTINGS, retransmit_after=_LONG)
    with ranks.leaf_spine(2, ways=Ways()) as net:
        each = ranks.filling(net, _TARGET, groups=4, least=6 * MB)
        common: dict[str, Any] = {"message": 128 * KB}
        incast = [
            ranks.flow(
                rank, _TARGET, first, each, ack=incast_ack, rate=rate, settings=long, target_settings=short, **common
            )
            for rank in range(4)
        ]
        broadcast = [
            ranks.flow(_TARGET, rank, priority, max(2 * MB, each // 3), rate=(rate or bench.line) // 8, ack=ack,
                       settings=short, target_settings=long, **common)
            for rank in range(4)
        ]  # fmt: skip
        flows = [*incast, *broadcast]
        running = ranks.run(net, flows)
        found = reports(running)
        bench.claim(_timeouts(step), sum(report.timeouts for report in found[len(incast) :]), equals=0)
        bench.claim(f"{step}: XOFF sent on the queue of the incast", ranks.xoffs(net, [first]), at_least=1)
        ranks.complete(net, flows, running, step)
        acks, of_nics = ranks.control_frames(net, range(RANKS), ack, range(RANKS))
        bench.claim(f"{step}: acknowledgements on their queue", acks, equals=max(1, of_nics))
        received = [ranks.pauses(net, rank) for rank in range(RANKS)]
        bench.claim(f"{step}: PFC frames that ranks received, by rank", [sum(one) for _, one in received],
                    equals=[sum(one) for one, _ in received])  # fmt: skip
    bench.claim(f"{step}: frames marked, and CNPs", sum(one.marked + one.cnps_sent for one in found), equals=0)
    bench.figure(f"{step}: longest completion", max(report.completion for report in found))
