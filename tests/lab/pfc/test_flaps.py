"""Links are lost and come back among other changes: only frames on them are lost, and nothing stands still."""

from __future__ import annotations

import pytest

from testbed.lab.engines.engine import PreparedEngine

from ..conftest import Runner, failed_claims


@pytest.mark.parametrize(
    ("seed", "duration"), [(1, "6s"), *(pytest.param(seed, "60s", marks=pytest.mark.long) for seed in range(1, 11))]
)
def test_flaps_kills_and_changes_lose_only_what_was_in_the_cables_that_were_pulled(
    run: Runner, ready: PreparedEngine, seed: int, duration: str
) -> None:
    if ready.engine.name != "um":
        pytest.skip("where the work of the CPU takes time there is a bound, which die_at_random measures")
    assert failed_claims(run("flaps:flapping", seed=seed, duration=duration)) == set()
