"""A fair rate that the switch computes, as in RoCC: a rule stamps it, and the senders follow it."""

import time
from dataclasses import dataclass

from xoff import (
    ROCE_PRIORITY,
    Acknowledgement,
    Duration,
    EcnCurve,
    Flow,
    Flows,
    Incast,
    Line,
    Port,
    PortLine,
    PortRule,
    Rate,
    RateControl,
    RoceReport,
    Run,
    Size,
    StampedPacket,
    experiment,
    network,
    steady_rates,
)

LINE = Rate("10Gb/s")
LASTS, SETTLED, STEADY = Duration("40ms"), Duration("20ms"), Duration("18ms")
LOOK = Duration("50us")
FEW, MANY = 2, 10
REFERENCE = 50_000
"""The octets at which the queue is to be held."""
PERIOD = "40us"
LEAST = 0.005
"""The least fair rate, as a part of the line."""


class FairRate(PortRule):
    """A PI controller of the rate that each flow may have: by how long the queue is, and by how much it has grown."""

    def __init__(self, line: PortLine) -> None:
        super().__init__(line)
        self.period_lab_ns = line.lab_ns(PERIOD)
        self.line_bps = float(line.rate.bps)
        self.due_lab_ns = 0
        self.fair = 1.0
        self.before = 0

    def on_stamp(self, packet: StampedPacket) -> int:
        if packet.now_lab_ns >= self.due_lab_ns:
            self.due_lab_ns = packet.now_lab_ns + self.period_lab_ns
            above, growth = packet.queued_octets - REFERENCE, packet.queued_octets - self.before
            gain = min(1.0, max(0.05, self.fair * 2))
            self.fair = min(1.0, max(LEAST, self.fair - gain * (1.2e-7 * above + 1.2e-6 * growth)))
            self.before = packet.queued_octets
        return int(self.fair * self.line_bps / 1000)

    def state(self) -> dict[str, float]:
        return {"fair": self.fair}


class Follows(RateControl):
    """A rate that is the least of those which the ports on the way have stamped."""

    counts_acknowledgements = True
    needs_telemetry = True

    def __init__(self, line: Line) -> None:
        super().__init__(line)
        self.line_lab_bps = float(line.rate.bps)

    def on_acknowledged(self, now_lab_ns: int, acknowledged: Acknowledgement) -> None:
        rate = self.line_lab_bps
        for stamp in acknowledged.stamps:
            rate = min(rate, stamp.kbps * 1000.0)
        self.rate_lab_bps = max(rate, 1000.0)


@dataclass(frozen=True)
class _Outcome:
    mean: Size
    goodput: Rate
    fairness: float
    lost: int


@experiment(timeout="600s")
def rocc_fair_rate(run: Run) -> None:
    """Two flows, then ten, into a port: DCQCN with marks by a curve, and a fair rate that the switch stamps.

    A rule of this file computes one rate for all flows by a PI controller of the queue, and stamps it into their
    packets. Acknowledgements bring it back, and the senders have it as their rate. So the queue of two flows and of ten
    is within 10 % of 50 kB, the flows are equally fast, and the line is full. The curve's queue of ten flows is at
    least twice that of two.
    """
    found = {}
    for flows in (FEW, MANY):
        found["curve", flows] = _run(run, f"curve, {flows} flows", flows, own=False)
        found["rule", flows] = _run(run, f"rule, {flows} flows", flows, own=True)
    growth = found["curve", MANY].mean.bytes / found["curve", FEW].mean.bytes
    run.claim("curve: mean queue of ten flows over that of two", round(growth, 3), at_least=2.0)
    for flows in (FEW, MANY):
        one = found["rule", flows]
        low, high = (Size.from_bytes(REFERENCE * percent // 100) for percent in (90, 110))
        run.claim(f"rule, {flows} flows: mean queue", one.mean, at_least=low, at_most=high)
        run.claim(f"rule, {flows} flows: goodput", one.goodput, at_least=LINE * 95 // 100)
        run.claim(f"rule, {flows} flows: Jain's index of fairness", one.fairness, at_least=0.999)
    run.claim("lost", sum(one.lost for one in found.values()), equals=0)


def _run(run: Run, case: str, senders: int, *, own: bool) -> _Outcome:
    curve = Port(ecn={ROCE_PRIORITY: EcnCurve("10kB", "800kB", "20%")})
    topology = Incast(
        n=senders,
        port=Port(telemetry=True).with_rule(FairRate, ROCE_PRIORITY) if own else curve,
        hopts={"port": Port()},
        total=12_000,
        xoff=1_100,
        xon_offset=16,
    )
    hosts = [f"h{number}" for number in range(1, senders + 1)]
    control = Follows if own else "dcqcn"
    flows = [Flow(host, "r", transport="roce", duration=LASTS, rate_control=control) for host in hosts]
    bottleneck = f"s1-eth{senders + 1}"
    with network(topology, case=case) as net:
        queues = []
        with Flows(flows) as running:
            time.sleep(net.fabric.units.lab(SETTLED).ns / 1e9)
            for _ in range(STEADY // LOOK):
                queues.append(net.fabric.sent(bottleneck).queued_bytes[ROCE_PRIORITY])
                time.sleep(net.fabric.units.lab(LOOK).ns / 1e9)
            running.wait()
        if own:
            run.figure(f"{case}: fair part at the end", round(net.fabric.marking(bottleneck).state["fair"], 4))
    reports = running.reports_of(RoceReport)
    rates = [rate.bps for rate in steady_rates(reports, SETTLED, STEADY)]
    mean = Size.from_bytes(sum(queues) // len(queues))
    fairness = round(sum(rates) ** 2 / (len(rates) * sum(rate**2 for rate in rates)), 4)
    if not own:
        run.figure(f"{case}: mean queue", mean)
        run.figure(f"{case}: Jain's index of fairness", fairness)
    run.figure(f"{case}: longest and shortest queue", [Size.from_bytes(max(queues)), Size.from_bytes(min(queues))])
    return _Outcome(mean, Rate.from_bps(sum(rates)), fairness, sum(report.lost for report in reports))
