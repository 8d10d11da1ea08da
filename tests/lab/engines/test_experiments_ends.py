"""Each shipped experiment at the ends of its parameters' ranges: what it claims holds there, too."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed.experiment import definition
from testbed.lab.engines.engine import PreparedEngine

from .. import once
from ..conftest import failed_claims

QUICK = {
    ("incast", "frames=200"), ("conservation", "pauses=1"), ("wan_ring", "lasts=1ms"), ("wan_read", "wan=100km"),
    ("ai_training_step", "kilobytes=150"),
}  # fmt: skip
"""Ends that the suite always runs: each takes some seconds, and at most of them a claim failed once."""
CASES = {case.name for case in definition.conformance()}
EXPERIMENTS = [one for one in definition.shipped() if one.name not in CASES]
"""`test_conformance.py` runs the cases at all speeds."""
ENDS = [
    pytest.param(
        one.name,
        {parameter.name: end},
        marks=() if (one.name, f"{parameter.name}={end}") in QUICK else pytest.mark.long,
        id=f"{one.name}-{parameter.name}={end}",
    )
    for one in EXPERIMENTS
    for parameter in one.parameters
    if parameter.limits
    for end in parameter.limits.ends
]
CORNERS = [
    pytest.param(
        one.name,
        {parameter.name: parameter.limits.ends[place] for parameter in one.parameters if parameter.limits},
        marks=pytest.mark.long,
        id=f"{one.name}-{name}",
    )
    for one in EXPERIMENTS
    if len(one.parameters) > 1
    for place, name in ((0, "low"), (-1, "high"))
]


def test_all_quick_ends_are_ends() -> None:
    assert sum(not param.marks for param in ENDS) == len(QUICK)


@pytest.mark.parametrize(("name", "ends"), [*ENDS, *CORNERS])
def test_claims_hold_at_the_ends_of_the_ranges(
    ready: PreparedEngine, tmp_path: Path, name: str, ends: dict[str, object]
) -> None:
    if ready.engine.name != "um":
        pytest.skip("on the emulated machine this takes hours; `XOFF_TEST_ENGINE=um` runs it")
    result = once.run(name, ends, on=ready, out=tmp_path)
    assert failed_claims(result) == set()
    assert result.claims
