"""The forecast of a run's lab time on `um`; `bench/load.py check` measures how near that of its CPU time comes."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed import lab
from testbed.experiment import definition
from testbed.lab.engines.engine import PreparedEngine
from testbed.lab.runs.api import ForesightedWatcher
from testbed.lab.runs.outlook import Outlook

from ..conftest import JOBS, Output

MARKS = {"*": [("engines", "um")]}


class Seen(Output):
    """A watcher that keeps the first outlook of each part of a run."""

    def __init__(self) -> None:
        super().__init__()
        self.parts: dict[str, Outlook] = {}
        self.left: list[Outlook] = []

    def outlook(self, outlook: Outlook | None) -> None:
        if outlook is not None:
            self.parts.setdefault(outlook.what, outlook)
            self.left.append(outlook)


@pytest.mark.parametrize("transport", ["udp", "roce"])
def test_the_time_of_flows_is_foreseen(transport: str, ready: PreparedEngine, tmp_path: Path) -> None:
    assert ready.costs is not None
    seen = Seen()
    assert isinstance(seen, ForesightedWatcher)
    what = definition.load_file(JOBS / "forecast.py", "incast")
    result = lab.run(what, parameters={"transport": transport}, on=ready, out=tmp_path, watcher=seen).check()
    (took_s,) = (float(figure.value) for figure in result.figures if figure.name == "flows took")
    set_up, flows = seen.parts["network of 4 nodes"], seen.parts["flows"]
    assert set_up.takes_s is not None
    assert flows.takes_s is not None
    assert flows.lab_s == pytest.approx(took_s, rel=0.03), "headers are taken for the longest"
    done = [one.done for one in seen.left if one.what == "flows" and one.done is not None]
    assert done == sorted(done)
    assert done[-1] > 0.8
