"""A marking rule with a step: a beginning for one of your own, and an experiment that tries it."""

from xoff import Ecn, EcnCurve, Flow, Incast, MarkingRule, Port, PortLine, QueuedFrame, Run, experiment, network


class NewThing(MarkingRule):
    """Mark what the line cannot send within 20 us of hardware's time."""

    def __init__(self, line: PortLine) -> None:
        super().__init__(line)
        self.most = line.rate.bps * line.lab_ns("20us") // 8_000_000_000
        self.longest = 0

    def on_arrival(self, frame: QueuedFrame) -> bool:
        self.longest = max(self.longest, frame.queued_octets)
        return frame.queued_octets >= self.most

    def state(self) -> dict[str, float]:
        return {"longest": self.longest}


@experiment(timeout="60s")
def try_new_thing(run: Run) -> None:
    """Two flows share a port that marks by the rule: some frames are marked, and none is lost."""
    port = Port(ecn={3: EcnCurve.step("40kB")}).with_marking(NewThing)
    with network(Incast(2, port=port, hopts={"port": Port()})) as net:
        flows = net.run(*(Flow(host, "r", count=200, ecn=Ecn.ECT_0) for host in ("h1", "h2")))
        marking = net.fabric.marking("s1-eth3")
    run.claim("lost", flows.lost, equals=0)
    run.claim("marked", sum(report.marked for report in flows.reports), at_least=1)
    run.claim("fault", marking.fault, equals="")
    run.figure("longest queue that a frame found", marking.state["longest"])
