"""What a run on `um` is forecast to take of the CPU, beside what it takes: within a factor of two."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from bench.cpu import Meter
from testbed import lab
from testbed.experiment import definition
from testbed.lab.engines.engine import PreparedEngine
from testbed.lab.runs.api import ForesightedWatcher
from testbed.lab.runs.outlook import Outlook

from .conftest import JOBS, Output

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


@pytest.mark.parametrize(
    ("job", "parameters", "nodes"),
    [
        ("incast", {"transport": "udp"}, 6),
        ("incast", {"transport": "roce", "senders": "2"}, 4),
        ("idle", {}, 65),
    ],
)
def test_a_run_takes_what_was_forecast(
    job: str, parameters: dict[str, str], nodes: int, ready: PreparedEngine, tmp_path: Path
) -> None:
    costs, seen = ready.costs, Seen()
    assert costs is not None
    assert isinstance(seen, ForesightedWatcher)
    what = definition.load_file(JOBS / "forecast.py", job)
    with closing(Meter()) as meter:
        lab.run(what, parameters=parameters, on=ready, out=tmp_path, watcher=seen).check()
        took_s = meter.read_s()
    set_up = seen.parts[f"network of {nodes} nodes"]
    assert set_up.takes_s is not None
    forecast_s = set_up.takes_s * (1 + costs.job_s / costs.set_up_s(nodes))
    if job == "incast":
        flows = seen.parts["flows"]
        assert flows.takes_s is not None
        assert flows.lab_s is not None
        forecast_s += flows.takes_s
        done = [one.done for one in seen.left if one.what == "flows" and one.done is not None]
        assert done == sorted(done)
        assert done[-1] > 0.8, "the time that the flows take in the lab was foreseen"
    assert 0.5 < took_s / forecast_s < 2, f"{took_s:.2f} s of CPU, and {forecast_s:.2f} s were foreseen"
