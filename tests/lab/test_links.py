"""Cables that go down and up, and traffic of other kinds: every cell comes back, and nothing else is lost."""

from __future__ import annotations

import pytest

from .conftest import Runner


@pytest.mark.parametrize("delay", ["0s", "5us"])
def test_a_cable_that_goes_down_frees_what_waits_for_it_and_works_when_it_is_back(run: Runner, delay: str) -> None:
    assert run("links:down_and_up", delay=delay).check().passed


@pytest.mark.parametrize("delay", ["0s", "5us"])
def test_a_pause_does_not_outlive_its_link_at_either_end(run: Runner, delay: str) -> None:
    assert run("links:flap", delay=delay).check().passed


def test_a_loss_that_no_counter_explains_fails_a_run(run: Runner) -> None:
    result = run("links:vanish")
    (claim,) = (claim for claim in result.claims if not claim.passed)
    assert (claim.name, claim.measured) == ("lost without a counter that tells where", 20)


def test_tcp_and_broadcasts_beside_lossless_traffic_leave_no_cell_behind(run: Runner) -> None:
    assert run("links:mixed_traffic").check().passed
