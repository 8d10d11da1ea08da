"""Both engines in virtual time on the same experiments: the same claims, and figures as close as is stated."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed import lab
from testbed.experiment import definition
from testbed.lab.engines import table
from testbed.lab.engines.engine import PreparedEngine
from tools import engine_figures, tolerances
from tools.tolerances import Stated

QUICK = ("incast",)
"""The experiments that every run of the tests compares on both engines; `xoff test --all` compares the others."""

ROOT = Path(__file__).parents[3]
NAMES = [experiment.name for experiment in definition.for_any_engine()]


@pytest.fixture(scope="module")
def um() -> PreparedEngine:
    return table.prepare("um", print)


@pytest.mark.engines("um", "vm")
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name in QUICK else pytest.mark.long) for name in NAMES],
)
def test_an_experiment_has_the_same_claims_and_close_figures_on_both_engines(
    um: PreparedEngine, vm: PreparedEngine, name: str, tmp_path: Path
) -> None:
    experiment = definition.find(name)
    mine, theirs = (lab.run(experiment, on=on, out=tmp_path) for on in (um, vm))
    assert mine.check().claims
    found = engine_figures.compare(mine, theirs, tolerances.read(ROOT).get(name, Stated()))
    assert found.faults == ()
    assert found.figures or found.degraded
