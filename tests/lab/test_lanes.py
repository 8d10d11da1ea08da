"""What path records promise is what a network under the same policy does."""

from __future__ import annotations

from .conftest import Runner


def test_frames_of_an_sl_arrive_exactly_where_a_path_with_it_is_found(run: Runner) -> None:
    outcomes = run("lanes:arrive_as_found").check().figure("outcomes")
    assert min(outcomes.values()) > 300, outcomes
