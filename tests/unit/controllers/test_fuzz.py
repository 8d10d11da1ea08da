"""A short run of `tests.fuzz_controller` for each of the controller's doors; set XOFF_FUZZ for a longer one."""

from __future__ import annotations

import os

import pytest

from tests.fuzz_controller import DOORS, RestDoor, SessionDoor, run

SHORT = 500


@pytest.mark.parametrize("name", DOORS)
def test_damaged_input_is_taken_refused_or_counted_and_raises_nothing_else(name: str) -> None:
    door = DOORS[name](1)
    run(door, int(os.environ.get("XOFF_FUZZ", SHORT)))
    assert len(door.outcomes) >= 3 and min(door.outcomes.values()) >= 1
    assert not set(door.outcomes) & {"500", "AssertionError"}


def test_damage_is_inside_where_it_counts() -> None:
    sessions, rest = SessionDoor(2), RestDoor(2)
    run(sessions, SHORT)
    run(rest, SHORT)
    ends = [name for name in sessions.south.counters if name.startswith("end ")]
    assert sessions.outcomes["taken"] > SHORT / 20 and sessions.outcomes["refused"] > SHORT / 20
    assert {"end bad_hello", "end malformed"} <= set(ends)
    assert {"200", "201", "204", "400", "401", "404", "421", "422"} <= set(rest.outcomes)


@pytest.mark.parametrize("name", DOORS)
def test_the_same_seed_gives_the_same_inputs(name: str) -> None:
    first, second = DOORS[name](7), DOORS[name](7)
    run(first, 300)
    run(second, 300)
    assert first.outcomes == second.outcomes
