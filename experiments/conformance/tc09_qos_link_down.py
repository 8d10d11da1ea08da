"""TC9: lossless traffic keeps its share where a link is down."""

from collections.abc import Sequence
from contextlib import ExitStack
from fractions import Fraction
from typing import Any

from experiments.conformance._case import Bench, Control, case, without_pfc
from experiments.conformance._ranks import AGAIN, DROPPED, FRAME, KB, MB, Ranks, dcqcn, reports
from xoff import Duration, Ecn, Flows, Ways

_SPINES, _PAIRS = 2, 16
_BEGIN, _MEASURE = Duration("100us"), Duration("400us")
"""The times from a step until its rates are measured, and in which they are measured, at 100 Gb/s."""
_ONE, _SEVERAL, _CONSTANT = "one queue pair with DCQCN", "16 with DCQCN", "16 at a constant rate"
_XOFF = f"{_CONSTANT}: XOFF sent"


@case(
    ports=1, timeout="300s", control=Control("no PFC", without_pfc, fails=[_XOFF, f"{_CONSTANT}: lossless {DROPPED}"])
)
def tc09_qos_link_down(bench: Bench) -> None:
    """Three lossy flows fill the uplink that is left: lossless queue pairs get their share of it, and lose nothing."""
    ranks = Ranks(bench)
    priority = ranks.lossless[-1]
    least = int(_share(bench, ranks, priority) * 97)
    steps: dict[str, tuple[int, Any]] = {
        _ONE: (1, dcqcn(bench)), _SEVERAL: (_PAIRS, dcqcn(bench)), _CONSTANT: (_PAIRS, None),
    }  # fmt: skip
    with ranks.leaf_spine(_SPINES, ways=Ways()) as net, ExitStack() as stack:
        for leaf in ("leaf1", "leaf2"):
            net.fabric.cabling.pull(net.port(leaf, "spine2"))
        net.sleep("50us")  # until both leaves have noticed, which takes the same time at each speed
        fill = bench.fill_time(net, FRAME)
        background: list[Flows] = []

        def shares(also: Sequence[Flows] = ()) -> list[int]:
            """Return the percent of the line that each lossy flow gets for a time, and after them those of others."""
            running = [*background, *also]
            before = [one.received_by(0) for one in running]
            net.sleep(bench.paced(_MEASURE))
            taken = [one.received_by(0) - count for one, count in zip(running, before, strict=True)]
            return [bench.frame_time(FRAME) * frames * 100 // bench.paced(_MEASURE) for frames in taken]

        def still_silent() -> bool:
            return not ranks.xoffs(net, [priority]) and not ranks.dropped(net, [priority])

        for place in range(3):
            flow = bench.flow(f"h{place + 1}", f"h{place + 5}", ranks.lossy[place % len(ranks.lossy)], FRAME, ecn=None)
            background.append(stack.enter_context(Flows([flow], settle=bench.settle_time(fill))))
            net.sleep(bench.paced(_BEGIN))
            bench.claim(f"{place + 1} lossy flows: share of the uplink, in percent", sum(shares()), at_least=97)
        for name, (many, control) in steps.items():
            if bench.is_control and name != _CONSTANT:
                continue
            own = ranks.flow(3, 7, priority, message=MB if many == 1 else 128 * KB, queue_pairs=many,
                             rate_control=control, ecn=Ecn.ECT_0, settings=ranks.quick_cnps)  # fmt: skip
            before = ranks.xoffs(net, [priority])
            with Flows([own], settle=bench.settle_time(fill)) as running:
                net.sleep(bench.paced(_BEGIN))
                for _ in range(fill * 2 // bench.paced(_BEGIN)):
                    if control or not still_silent():
                        break
                    net.sleep(bench.paced(_BEGIN))
                *lossy, lossless = shares([running])
            (report,), xoffs = reports(running), ranks.xoffs(net, [priority]) - before
            bench.claim(f"{name}: share of the uplink of lossless data, in percent", lossless, at_least=least)
            bench.claim(f"{name}: share of all data, in percent", sum(lossy) + lossless, at_least=97)
            bench.claim(f"{name}: lossy flows that stood still", lossy.count(0), equals=0)
            bench.claim(f"{name}: {AGAIN}", report.retransmitted, equals=0)
            bench.claim(f"{name}: lossless {DROPPED}", ranks.dropped(net, [priority]), equals=0)
            if control:
                bench.claim(f"{name}: frames marked", report.marked, at_least=1)
                bench.claim(f"{name}: CNPs lost", report.cnps_sent - report.cnps_received, equals=0)
                bench.figure(f"{name}: CNPs", report.cnps_received)
                bench.figure(f"{name}: XOFF sent", xoffs)
            else:
                bench.claim(_XOFF, xoffs, at_least=1)
        net.sleep(bench.paced(_BEGIN))
        bench.claim("lossy flows afterwards: share of the uplink, in percent", sum(shares()), at_least=97)


def _share(bench: Bench, ranks: Ranks, priority: int) -> Fraction:
    """Return the part of a line that the queue of lossless data has by its weight, beside those of the background."""
    settings = bench.given.ports[bench.ports[0]].settings
    if ranks.queue(priority) in settings.strict:
        return Fraction(9, 10)
    queues = {ranks.queue(one) for one in (priority, *ranks.lossy)}
    weights = {queue: settings.dwrr.get(queue, 1) for queue in queues}
    return Fraction(weights[ranks.queue(priority)], sum(weights.values()))
