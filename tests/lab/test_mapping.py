"""Before a network starts, the mappings along its paths are compared, because PFC would fail without a word."""

from __future__ import annotations

import pytest

from .conftest import Runner


@pytest.mark.parametrize(
    ("what", "sentence"),
    [
        ("dscp", "s1-eth2 maps dscp 26 to dot1p 4, "),
        ("local", "s1-eth2 puts dot1p 3 into queue 5, "),
    ],
)
def test_a_port_that_maps_otherwise_keeps_the_network_from_starting(run: Runner, what: str, sentence: str) -> None:
    result = run("mapping:mismatched", what=what).check()
    assert not result.figure("started")
    assert sentence in result.figure("said")
    assert "give both the same table" in result.figure("said")


def test_or_the_user_is_warned_and_it_starts(run: Runner) -> None:
    result = run("mapping:mismatched", mismatch="warn").check()
    assert result.figure("started")
    assert result.figure("said").startswith("warning: ")


@pytest.mark.parametrize(("what", "mismatch"), [("dscp", "ignore"), ("same", "refuse")])
def test_nothing_is_said_where_nothing_is_wrong_or_nobody_wants_to_know(run: Runner, what: str, mismatch: str) -> None:
    result = run("mapping:mismatched", what=what, mismatch=mismatch).check()
    assert (result.figure("started"), result.figure("said")) == (True, "")
