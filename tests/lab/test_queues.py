"""What a switch port's queues give each class, measured where the frames arrive."""

from __future__ import annotations

import pytest

from .conftest import Runner


@pytest.mark.parametrize("job", ["line_rate", "shares", "strict", "yields"])
def test_every_claim_holds(run: Runner, job: str) -> None:
    result = run(f"queues:{job}").check()
    assert len(result.claims) >= 3


def test_equal_shares_are_told_from_those_that_were_asked_for(run: Runner) -> None:
    assert not run("queues:shares", only=1).passed
