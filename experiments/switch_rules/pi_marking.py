"""A marking rule of one's own, a PI controller, holds a queue at one length, whatever the number of flows."""

import time
from dataclasses import dataclass

from xoff import (
    ROCE_PRIORITY,
    Duration,
    EcnCurve,
    Flow,
    Flows,
    Incast,
    MarkingRule,
    Port,
    PortLine,
    QueuedFrame,
    Rate,
    RoceReport,
    Run,
    Size,
    experiment,
    network,
    steady_rates,
)

LINE = Rate("10Gb/s")
LASTS, SETTLED, STEADY = Duration("50ms"), Duration("25ms"), Duration("24ms")
LOOK = Duration("50us")
FEW, MANY = 2, 10
REFERENCE = 100_000
"""The octets at which the queue is to be held."""
MOST = 0.1
"""The greatest probability of a mark, so that the queue of the start is forgotten soon."""


class Pi(MarkingRule):
    """The probability of a mark, which follows the queue, and its sum over time, each 20 us of the hardware."""

    def __init__(self, line: PortLine) -> None:
        super().__init__(line)
        self.period_lab_ns = line.lab_ns("20us")
        self.due_lab_ns = 0
        self.integral = 0.0
        self.probability = 0.0

    def on_arrival(self, frame: QueuedFrame) -> bool:
        if frame.now_lab_ns >= self.due_lab_ns:
            self.due_lab_ns = frame.now_lab_ns + self.period_lab_ns
            above = frame.queued_octets - REFERENCE
            self.integral = _within(self.integral + 1e-9 * above)
            self.probability = _within(self.integral + 2e-7 * above)
        return self.chance() < self.probability

    def state(self) -> dict[str, float]:
        return {"probability": self.probability}


def _within(probability: float) -> float:
    return min(MOST, max(0.0, probability))


@dataclass(frozen=True)
class _Outcome:
    mean: Size
    goodput: Rate
    lost: int


@experiment(timeout="600s")
def pi_marking(run: Run) -> None:
    """Two flows and then ten, with DCQCN, into a port that marks by a curve, and into one that marks by a rule.

    The more flows there are, the more marks each of them needs, and a curve gives more marks for a longer queue alone:
    its queue of ten flows is at least twice that of two. A rule of this file, a PI controller as switches with RoCC or
    PIE have it, raises the probability until the queue is 100 kB long: it is within 40 % of that for two flows and
    for ten.
    """
    found = {}
    for flows in (FEW, MANY):
        for case, rule in (("curve", None), ("rule", Pi)):
            found[case, flows] = _run(run, f"{case}, {flows} flows", flows, rule)
    growth = found["curve", MANY].mean.bytes / found["curve", FEW].mean.bytes
    run.claim("curve: mean queue of ten flows over that of two", round(growth, 3), at_least=2.0)
    for flows in (FEW, MANY):
        mean = found["rule", flows].mean
        low, high = (Size.from_bytes(REFERENCE * percent // 100) for percent in (60, 140))
        run.claim(f"rule, {flows} flows: mean queue", mean, at_least=low, at_most=high)
        run.claim(f"rule, {flows} flows: goodput", found["rule", flows].goodput, at_least=LINE * 85 // 100)
    run.claim("lost", sum(one.lost for one in found.values()), equals=0)


def _run(run: Run, case: str, senders: int, rule: type[MarkingRule] | None) -> _Outcome:
    port = Port(ecn={ROCE_PRIORITY: EcnCurve("10kB", "800kB", "20%")})
    topology = Incast(
        n=senders,
        port=port if rule is None else port.with_marking(rule),
        hopts={"port": Port()},
        total=12_000,
        xoff=1_100,
        xon_offset=16,
    )
    hosts = [f"h{number}" for number in range(1, senders + 1)]
    flows = [Flow(host, "r", transport="roce", duration=LASTS, rate_control="dcqcn") for host in hosts]
    bottleneck = f"s1-eth{senders + 1}"
    with network(topology, case=case) as net:
        queues = []
        with Flows(flows) as running:
            time.sleep(net.fabric.units.lab(SETTLED).ns / 1e9)
            for _ in range(STEADY // LOOK):
                queues.append(net.fabric.sent(bottleneck).queued_bytes[ROCE_PRIORITY])
                time.sleep(net.fabric.units.lab(LOOK).ns / 1e9)
            running.wait()
        reports = running.reports_of(RoceReport)
        if rule is not None:
            run.figure(f"{case}: probability at the end", round(net.fabric.marking(bottleneck).state["probability"], 5))
    mean = Size.from_bytes(sum(queues) // len(queues))
    goodput = Rate.from_bps(sum(rate.bps for rate in steady_rates(reports, SETTLED, STEADY)))
    if rule is None:
        run.figure(f"{case}: mean queue", mean)
    run.figure(f"{case}: longest and shortest queue", [Size.from_bytes(max(queues)), Size.from_bytes(min(queues))])
    return _Outcome(mean, goodput, sum(report.lost for report in reports))
