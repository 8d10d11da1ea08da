"""Frames that a rule drops are in a counter, and a frame that is in none fails the run, by name."""

from __future__ import annotations

import pytest

from tests.lab.conftest import Runner, failed_claims

pytestmark = pytest.mark.engines("um")


def test_what_a_rule_drops_in_a_lossless_class_is_counted_by_name(run: Runner) -> None:
    result = run("rule_faults:drops")
    assert failed_claims(result) == set()
    assert result.figure("lost by both") == 40
    assert result.figure("dropped or still queued, by reason") == {"rule of a port": 40}


def test_a_drop_that_no_counter_has_fails_the_run(run: Runner) -> None:
    assert failed_claims(run("rule_faults:drops", forget=3)) == {"lost, and in no counter"}
