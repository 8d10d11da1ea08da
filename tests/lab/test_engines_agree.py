"""Both engines in virtual time on the same experiments: the same claims, whether or not the CPU's work takes time."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed import lab
from testbed.lab import definition, engine
from testbed.lab.engine import Ready

QUICK = ("incast", "duty_cycle")
"""Of these each whole run of the tests has both engines; the others are compared by `xoff test --all`."""

CASES = {case.name for case in definition.conformance()}
"""Of `xoff conformance`; they are for um alone."""
NAMES = [experiment.name for experiment in definition.shipped() if experiment.name not in CASES]


@pytest.fixture(scope="module")
def um() -> Ready:
    return engine.prepare(engine.Kind.UM, print)


@pytest.mark.engines("um", "vm")
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name in QUICK else pytest.mark.long) for name in NAMES],
)
def test_an_experiment_makes_the_same_claims_on_both_engines(um: Ready, vm: Ready, name: str, tmp_path: Path) -> None:
    experiment = definition.find(name)
    mine, theirs = (lab.run(experiment, on=on, out=tmp_path).check() for on in (um, vm))
    assert [claim.name for claim in mine.claims] == [claim.name for claim in theirs.claims]
