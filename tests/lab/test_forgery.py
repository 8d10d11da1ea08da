"""A job that is root in the lab does not reach the supervisor: not its frames, not its memory, not its CPU."""

from __future__ import annotations

import pytest

from testbed.lab import Status, engine
from testbed.lab.engine import Ready
from testbed.lab.job import Limits

from .conftest import Runner

pytestmark = pytest.mark.engines("vm", "um")


@pytest.mark.parametrize("payload", ["END", "stray data"])
def test_a_job_finds_no_way_to_the_supervisors_frames(run: Runner, payload: str) -> None:
    result = run("forge:forges", payload=payload)
    assert (result.status, result.reason) == (Status.ERROR, "ValueError: the job failed")
    assert result.figure("processes outside the sandbox") > 0, "the job did not see whom it attacks"
    reached = {figure.name: figure.value for figure in result.figures if isinstance(figure.value, list)}
    assert len(reached) == 8
    assert not any(reached.values()), reached


def test_a_job_that_spins_at_the_highest_priority_is_ended_by_a_limit(run: Runner, ready: Ready) -> None:
    """By that of wall time where a spinning process stops virtual time; what the job left is kept in either case."""
    result = run("forge:spins_at_the_highest_priority", limits=Limits(virtual_s=3, wall_s=15))
    um = ready.kind is engine.Kind.UM
    assert result.status is (Status.WALL_TIMEOUT if um else Status.TIMEOUT), result.reason
    assert result.figure("begun") == 1
    assert result.folder is not None
    assert (result.folder / "kept.txt").read_text() == "kept"
    assert result.times.wall_s < 60
