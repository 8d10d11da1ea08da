"""Agents, speakers, controllers and the agent supervisor are killed at random moments while experiments run."""

from __future__ import annotations

import pytest

from testbed.lab.engines.engine import PreparedEngine

from ..conftest import Runner, failed_claims

LONG = (
    ("incast", 2), ("wan_read", 4), ("mixed", 5), ("parking_lot", 6), ("wan_ring", 7), ("wan_tenants", 8),
    ("cross_dc", 9), ("cross_dc", 19),
)  # fmt: skip
SAMPLE = [("incast", 1), ("conservation", 3), *(pytest.param(*case, marks=pytest.mark.long) for case in LONG)]


@pytest.mark.parametrize(("name", "seed"), SAMPLE, ids=str)
def test_random_kills_lose_nothing_freeze_nothing_and_leave_nothing(
    run: Runner, ready: PreparedEngine, name: str, seed: int
) -> None:
    if ready.engine.name != "um":
        pytest.skip("where the work of the CPU takes time there is a bound, which die_at_random measures")
    assert failed_claims(run("kills:under", seed=seed, which=name)) == set()


@pytest.mark.parametrize(
    ("name", "seed"), [("incast", 10), pytest.param("wan_read", 11, marks=pytest.mark.long)], ids=str
)
def test_supervisors_killed_at_random_lose_nothing_either(
    run: Runner, ready: PreparedEngine, name: str, seed: int
) -> None:
    if ready.engine.name != "um":
        pytest.skip("see above")
    assert failed_claims(run("kills:under", seed=seed, which=name, kills=5, parents=True)) == set()


def test_a_killed_supervisor_has_a_successor_and_its_agents_are_kept(run: Runner, ready: PreparedEngine) -> None:
    if ready.engine.name != "um":
        pytest.skip("see above")
    assert failed_claims(run("kills:supervisors")) == set()
