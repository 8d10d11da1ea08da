"""A load of flows with rate controls of one's own, for bench/control.py."""

from testbed.measures import offered_load
from testbed.measures.offered_load import OfferedLoad
from testbed.roce import rates
from testbed.roce.rates.dcqcn import PAPER, Dcqcn
from xoff import Duration, Line, RateControl, Run, experiment


class OwnDcqcn(Dcqcn):
    """DCQCN as a class of one's own."""

    def __init__(self, line: Line) -> None:
        super().__init__(line, PAPER)


class Aimd(RateControl):
    """Half at a CNP, an eightieth of the line more each 300 us."""

    needs_marks = True

    def __init__(self, line: Line) -> None:
        super().__init__(line)
        self._step_lab_ns = line.lab_ns("300us")
        self._due_lab_ns = 1 << 62

    def on_cnp(self, now_lab_ns: int) -> None:
        self.rate_lab_bps = max(self.rate_lab_bps / 2, self.line.rate.bps / 256)
        self._due_lab_ns = now_lab_ns + self._step_lab_ns

    @property
    def deadline_lab_ns(self) -> int:
        return self._due_lab_ns

    def on_deadline(self, now_lab_ns: int) -> None:
        self.rate_lab_bps = min(self.rate_lab_bps + self.line.rate.bps / 80, self.line.rate.bps)
        self._due_lab_ns = self._due_lab_ns + self._step_lab_ns if self.rate_lab_bps < self.line.rate.bps else 1 << 62


class AimdInPython(Aimd):
    """The same with a method that has no code."""

    def on_loss(self, now_lab_ns: int) -> None:
        try:
            pass
        finally:
            pass


for _name, _kind in {"own-dcqcn": OwnDcqcn, "aimd": Aimd, "aimd-python": AimdInPython}.items():
    rates.register(_name, _kind)


@experiment(timeout="3600s")
def load(run: Run, *, control: str = "dcqcn", flows: int = 400) -> None:
    """Flows over a fat tree at 60 % of its lines."""
    offered_load.perform(run, OfferedLoad.of(
        topo="fat-tree,4", sizes="hadoop", table=None, load="60%", control=control, pattern="random", flows=flows,
        lasts=Duration("0s"), hosts=0, pfc=True, ecn="on",
    ))  # fmt: skip
