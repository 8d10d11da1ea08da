"""A rate control that halves at each CNP: a beginning for one of your own, and an experiment that tries it."""

from xoff import EcnCurve, Flow, Incast, Line, Port, RateControl, Run, experiment, roce_outcome

_STEP_NS = 100_000


class NewThing(RateControl):
    """Take half of the rate at each CNP, and a twentieth of the line more every 100 us of hardware's time."""

    needs_marks = True  # the run warns where no port on a flow's way marks

    def __init__(self, line: Line) -> None:
        super().__init__(line)
        self._step_lab_ns = int(_STEP_NS * line.scale.k)
        self._next_lab_ns = 1 << 62

    def on_cnp(self, now_lab_ns: int) -> None:
        self.rate_lab_bps = max(self.rate_lab_bps / 2, self.line.rate.bps / 100)
        self._next_lab_ns = now_lab_ns + self._step_lab_ns

    @property
    def deadline_lab_ns(self) -> int:
        return self._next_lab_ns

    def on_deadline(self, now_lab_ns: int) -> None:
        self.rate_lab_bps = min(self.line.rate.bps, self.rate_lab_bps + self.line.rate.bps / 20)
        self._next_lab_ns = now_lab_ns + self._step_lab_ns if self.rate_lab_bps < self.line.rate.bps else 1 << 62


@experiment(timeout="60s")
def try_new_thing(run: Run) -> None:
    """Two flows share a port that marks: CNPs come, and nothing is lost."""
    port = Port(ecn={3: EcnCurve("20kB", "80kB", "20%")})
    flows = [Flow(host, "r", transport="roce", size="1MB", rate_control=NewThing) for host in ("h1", "h2")]
    outcome = roce_outcome(Incast(2, port=port), flows)
    run.claim("lost", outcome.lost, equals=0)
    run.claim("CNPs", outcome.cnps, at_least=1)
