"""DCQCN in the lab beside a packet-level model in pure Python: the same rates, for 1, 2 and 8 flows."""

from experiments.congestion._bottleneck import Bottleneck, simulate
from xoff import (
    Buffer,
    Duration,
    EcnCurve,
    Flow,
    Incast,
    Line,
    Rate,
    Roce,
    RoceReport,
    Run,
    Scale,
    Size,
    Static,
    experiment,
    jain_index,
    marking,
    roce_outcome,
)

LINE, SCALE = Rate("10Gb/s"), Scale(1000)
PARTS, PART = 10, Duration("1ms")
LASTS = PART * PARTS
"""Loads are compared in so many parts of the time."""
WIRE_BITS = 1106 * 8
"""The bits of a full packet on the wire."""
MESSAGE = Size.from_bytes(64 * 1024)
"""A message of full packets alone, as in the model."""
MANY = 8
WINDOWS = 100
"""The windows of a report in such a part of the time."""


@experiment(timeout="120s")
def dcqcn_model(run: Run) -> None:
    """1, 2 and 8 flows start together and share a port that marks from 40 kB of queue on.

    The mean rate of a flow over the run is within 5 % of what the model computes, and the number of CNPs within 10 %,
    rounded up to a whole one. So is the rate of each of 1 or 2 flows. Which of 8 equal flows gets more depends on
    single packets, in the model as in the lab: so their rates are compared in the order of rates, and are within 10 %.
    Millisecond by millisecond the line's load is a tenth of the line from the model's on average, or less. The model is
    `experiments/congestion/_bottleneck.py`: paced sources, a queue, marks and CNPs, and nothing of the lab's network.
    """
    curve = EcnCurve.step("40kB")
    for number in (1, 2, 8):
        reports = _run(run, curve, number)
        first_lab_ns = min(report.first_lab_ns for report in reports)
        starts_lab_ns = [report.first_lab_ns - first_lab_ns for report in reports]
        model = simulate(Bottleneck(Line(SCALE.lab(LINE), SCALE), curve), starts_lab_ns, _lab_ns(LASTS), _lab_ns(PART))
        lab = [
            [sum(report.windows[part * WINDOWS : (part + 1) * WINDOWS]) for part in range(PARTS)] for report in reports
        ]
        found, wanted = (
            [[packets * WIRE_BITS * 10**12 // PART.ps for packets in flow] for flow in flows]
            for flows in (lab, [flow.windows for flow in model.flows])
        )
        loads = [[sum(part) for part in zip(*flows, strict=True)] for flows in (found, wanted)]
        for where, rates, load in (("in the lab", found, loads[0]), ("in the model", wanted, loads[1])):
            run.figure(f"{number} flows, {where}: rate of each", [sum(flow) // PARTS for flow in rates], "b/s")
            run.figure(f"{number} flows, {where}: line's load in each millisecond", load, "b/s")
        share = round(sum(loads[0]) * 100 / sum(loads[1]), 1)
        run.claim(f"{number} flows: mean rate of a flow, in % of the model's", share, at_least=95.0, at_most=105.0)
        each = [
            round(one * 100 / other, 1)
            for one, other in zip(*[_in_order([sum(flow) for flow in flows]) for flows in (found, wanted)], strict=True)
        ]
        least, most = (95.0, 105.0) if number < MANY else (90.0, 110.0)
        name = f"{number} flows: rate of each, in % of the model's"
        run.claim(f"{name}, the smallest", min(each), at_least=least)
        run.claim(f"{name}, the largest", max(each), at_most=most)
        apart = sum(abs(one - other) for one, other in zip(*loads, strict=True)) // PARTS
        run.claim(f"{number} flows: load apart, mean of milliseconds", Rate.from_bps(apart), at_most=LINE // 10)
        cnps = [sum(report.cnps_received for report in reports), sum(flow.cnps for flow in model.flows)]
        run.figure(f"{number} flows: CNPs in the lab and in the model", cnps)
        run.claim(f"{number} flows: CNPs apart", abs(cnps[0] - cnps[1]), at_most=-(-max(cnps) // 10))
        indices = [jain_index([Rate.from_bps(sum(flow)) for flow in flows]) for flows in (found, wanted)]
        run.claim(f"{number} flows: Jain's index, lab and model", min(indices), at_least=0.98)


def _lab_ns(time: Duration) -> int:
    return SCALE.lab(time).ns


def _in_order(rates: list[int]) -> list[int]:
    """Return rates flow by flow, or those of many flows in order."""
    return rates if len(rates) < MANY else sorted(rates)


def _run(run: Run, curve: EcnCurve | None, number: int) -> tuple[RoceReport, ...]:
    flows = [
        Flow(f"h{place}", "r", transport=Roce(message=MESSAGE), duration=LASTS, rate_control="dcqcn")
        for place in range(1, number + 1)
    ]
    buffer = Buffer(total=20_000, xoff=Static(2000))
    found = roce_outcome(Incast(n=number, buffer=buffer, **marking(curve)), flows, f"{number} flows")
    run.claim(f"{number} flows: pauses", found.pauses, equals=0)
    run.claim(f"{number} flows: lost or sent twice", found.lost, equals=0)
    run.claim(f"{number} flows: every octet as it was sent", found.is_intact, equals=True)
    return found.reports
