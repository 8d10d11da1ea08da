"""What experiments claim on `um` holds on `vm`, the reference, too; docs/engines.md says how their figures differ."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed import lab
from testbed.experiment import definition
from testbed.experiment.fidelity import Verdict
from testbed.lab.engines.engine import PreparedEngine

QUICK = ("incast",)
"""The experiments that every run of the tests makes on `vm`; `xoff test --all` makes the others."""
DEGRADED = (
    "ai_training_step",
    "dcqcn",
    "dcqcn_model",
    "deadlock_dcqcn",
    "fairness",
    "flow_completion",
    "go_back_n",
)
"""Those for whose hosts `vm` has not the CPU, as its fidelity has to say."""
NAMES = [experiment.name for experiment in definition.for_any_engine()]


@pytest.mark.engines("vm")
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.long) for name in NAMES]
)
def test_the_claims_of_an_experiment_hold_on_vm(vm: PreparedEngine, name: str, tmp_path: Path) -> None:
    result = lab.run(definition.find(name), on=vm, out=tmp_path)
    if name in DEGRADED:
        assert result.fidelity.verdict is Verdict.DEGRADED
    else:
        assert result.check().claims
        assert result.fidelity.verdict is not Verdict.DEGRADED, result.fidelity


def test_those_that_are_degraded_are_experiments_for_any_engine() -> None:
    assert set(DEGRADED) <= set(NAMES)
