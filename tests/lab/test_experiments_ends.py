"""Each shipped experiment at both ends of its parameters' ranges: what it claims holds there, too."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed import lab
from testbed.lab import definition
from testbed.lab.definition import OneOf
from testbed.lab.engine import Kind, Ready

from .conftest import failed_claims

QUICK = {"incast", "conservation"}
"""Those that take seconds at both ends."""
ENDS = [
    pytest.param(one.name, end, marks=() if one.name in QUICK else pytest.mark.long, id=f"{one.name}-{name}")
    for one in definition.shipped()
    if one.parameters
    for end, name in ((0, "low"), (-1, "high"))
]


@pytest.mark.parametrize(("name", "end"), ENDS)
def test_claims_hold_at_the_ends_of_the_ranges(ready: Ready, tmp_path: Path, name: str, end: int) -> None:
    if ready.kind is not Kind.UM:
        pytest.skip("on the emulated machine this takes hours; `XOFF_TEST_ENGINE=um` runs it")
    experiment = definition.find(name)
    ends = {one.name: one.limits.ends[end] for one in experiment.parameters if one.limits}
    result = lab.run(experiment, parameters=ends, seed=1, on=ready, out=tmp_path)
    assert failed_claims(result) == set()
    assert result.claims


@pytest.mark.long
@pytest.mark.parametrize("name", [one.name for one in definition.shipped() if len(one.parameters) > 1])
def test_claims_hold_at_each_end_by_itself(ready: Ready, tmp_path: Path, name: str) -> None:
    if ready.kind is not Kind.UM:
        pytest.skip("on the emulated machine this takes hours; `XOFF_TEST_ENGINE=um` runs it")
    experiment = definition.find(name)
    failed = {}
    for parameter in experiment.parameters:
        if parameter.limits and not isinstance(parameter.limits, OneOf):
            for end in parameter.limits.ends:
                result = lab.run(experiment, parameters={parameter.name: end}, seed=1, on=ready, out=tmp_path)
                failed[f"{parameter.name}={end}"] = failed_claims(result)
    assert {which for which, claims in failed.items() if claims} == set(), failed
