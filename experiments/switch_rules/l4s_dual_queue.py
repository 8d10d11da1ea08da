"""A marking rule of one's own couples two queues, as L4S does: the short queue is marked for the long one, too."""

from dataclasses import dataclass

from xoff import (
    Duration,
    EcnCurve,
    Flow,
    Incast,
    MarkingRule,
    PfcSettings,
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
LASTS, SETTLED, STEADY = Duration("20ms"), Duration("10ms"), Duration("9ms")
BULK, SHORT = 3, 4
"""The queue of the bulk flow, and the one of low latency, which is strict."""
STEP = 5_000
"""The octets in the short queue from which on it marks for its own sake."""
LEAST, MOST, STEEPEST = 40_000, 160_000, 0.2
"""The curve of the bulk queue, in octets."""


class Coupled(MarkingRule):
    """Two queues with one probability: what the bulk queue is marked with, frames of the short one are, too."""

    def __init__(self, line: PortLine) -> None:
        super().__init__(line)
        self.probability = 0.0
        self.coupled = 0
        self.own = 0

    def on_arrival(self, frame: QueuedFrame) -> bool:
        if frame.queue == BULK:
            self.probability = self._of(frame.queued_octets)
            return self.chance() < self.probability
        if frame.queued_octets >= STEP:
            self.own += 1
            return True
        if self.chance() < self.probability:
            self.coupled += 1
            return True
        return False

    def _of(self, queued: int) -> float:
        if queued >= MOST:
            return 1.0
        return max(0.0, STEEPEST * (queued - LEAST) / (MOST - LEAST))

    def state(self) -> dict[str, float]:
        return {"probability": self.probability, "coupled": self.coupled, "own": self.own}


@dataclass(frozen=True)
class _Outcome:
    bulk: Rate
    short: Rate
    longest: list[Size]
    lost: int


@experiment(timeout="120s")
def l4s_dual_queue(run: Run) -> None:
    """A flow of low latency in a strict queue, and a bulk flow behind it, both with DCQCN, at one port.

    Each queue marks by its own length in the first case. The strict queue is never long, so its flow is never marked,
    takes the line, and the bulk flow starves behind it. In the second case a rule of this file marks: the probability
    that the bulk queue has holds for frames of the strict queue, too, which for its own sake marks from 5 kB on. Then
    both flows have a good part of the line, and the strict queue is as short as before.
    """
    apart = _run(run, "each queue alone", coupled=False)
    run.claim("each queue alone: goodput of the bulk flow", apart.bulk, at_most=LINE // 20)
    both = _run(run, "coupled", coupled=True)
    run.claim("coupled: goodput of the bulk flow", both.bulk, at_least=LINE * 3 // 10)
    run.claim("coupled: goodput of the short flow", both.short, at_least=LINE * 3 // 10)
    run.claim("coupled: longest queue of the short flow", both.longest[1], at_most=Size("5kB"))
    run.claim("lost", apart.lost + both.lost, equals=0)


def _run(run: Run, case: str, *, coupled: bool) -> _Outcome:
    port = Port(
        pfc=PfcSettings(enabled=frozenset({BULK, SHORT})),
        strict=frozenset({SHORT}),
        ecn={BULK: EcnCurve("40kB", "160kB", "20%"), SHORT: EcnCurve.step("5kB")},
    )
    host = Port(pfc=port.pfc)
    topology = Incast(
        n=2,
        port=port.with_marking(Coupled) if coupled else port,
        hopts={"port": host},
        total=6000,
        xoff=1600,
        xon_offset=16,
    )
    with network(topology, case=case) as net:
        flows = [
            Flow("h1", "r", BULK, transport="roce", duration=LASTS, rate_control="dcqcn"),
            Flow("h2", "r", SHORT, transport="roce", duration=LASTS, rate_control="dcqcn"),
        ]
        reports = net.run(*flows).reports_of(RoceReport)
        queues = net.fabric.sent("s1-eth3").most_queued_bytes
        if coupled:
            state = net.fabric.marking("s1-eth3").state
            run.figure(f"{case}: frames of the short queue marked for the other one", int(state["coupled"]))
            run.figure(f"{case}: frames of the short queue marked for its own length", int(state["own"]))
    bulk, short = steady_rates(reports, SETTLED, STEADY)
    longest = [Size.from_bytes(queues[queue]) for queue in (BULK, SHORT)]
    run.figure(f"{case}: goodput of the bulk flow and of the short one", [bulk, short])
    run.figure(f"{case}: longest queue of the bulk flow and of the short one", longest)
    run.figure(f"{case}: CNPs of the bulk flow and of the short one", [report.cnps_received for report in reports])
    return _Outcome(bulk, short, longest, sum(report.lost for report in reports))
