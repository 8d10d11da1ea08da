"""A rate control that halves at each CNP: a beginning for one of your own, and an experiment that tries it."""

from testbed.lab import Run, experiment
from testbed.roce.rates import Line, RateControl

_STEP_NS = 100_000


class NewThing(RateControl):
    """Half of the rate at each CNP, and a twentieth of the line more every 100 us of hardware's time."""

    needs_marks = True  # the run warns where no port on a flow's way marks

    def __init__(self, line: Line) -> None:
        super().__init__(line)
        self._step_ns = int(_STEP_NS * line.scale.k)
        self._next_ns = 1 << 62

    def on_cnp(self, now_ns: int) -> None:
        self.rate_bps = max(self.rate_bps / 2, self.line.rate.bps / 100)
        self._next_ns = now_ns + self._step_ns

    @property
    def deadline_ns(self) -> int:
        return self._next_ns

    def on_deadline(self, now_ns: int) -> None:
        self.rate_bps = min(self.line.rate.bps, self.rate_bps + self.line.rate.bps / 20)
        self._next_ns = now_ns + self._step_ns if self.rate_bps < self.line.rate.bps else 1 << 62


@experiment(timeout="60s")
def try_new_thing(run: Run) -> None:
    """Two flows share a port that marks: CNPs come, and nothing is lost."""
    from testbed.ecn.curve import EcnCurve
    from testbed.net.network import network
    from testbed.net.port import Port
    from testbed.net.traffic import Flow, Flows
    from testbed.net.traffic.roce import RoceReport
    from topologies.incast import Incast

    port = Port(ecn={3: EcnCurve("20kB", "80kB", "20%")})
    with network(Incast(2, port=port), autoStaticArp=True):
        flows = [Flow(f"h{n}", "r", transport="roce", size="1MB", rate_control=NewThing) for n in (1, 2)]
        with run.measuring(), Flows(flows) as running:
            running.wait()
        reports = [report for report in running.reports if isinstance(report, RoceReport)]
    run.claim("lost", [report.lost for report in reports], equals=[0, 0])
    run.claim("CNPs", sum(report.cnps_received for report in reports), at_least=1)
