"""The controller of a network over several kernels: one process in part 0, and the same answers in all parts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from testbed import lab
from testbed.experiment import definition
from testbed.lab.engines.engine import PreparedEngine
from testbed.lab.results.result import Status

from ..conftest import JOBS, Runner, failed_claims

pytestmark = pytest.mark.engines("um")
MANAGEMENT = ("part 0", "part 1")


def test_cross_dc_holds_its_claims_in_two_parts_with_one_digest(ready: PreparedEngine, tmp_path: Path) -> None:
    """Routers and leaves of part 1 have their sessions with the controller over the management cable."""
    runs = [lab.run(definition.find("cross_dc"), on=ready, out=tmp_path, partitions=2).check() for _ in range(2)]
    assert [failed_claims(one) for one in runs] == [set()] * 2
    assert len({one.digest for one in runs}) == 1
    assert runs[0].folder is not None
    without, under = map(json.loads, (runs[0].folder / "partition.jsonl").read_text().splitlines())
    assert [tuple(cable["nodes"]) for cable in without["cables"]] == [("r1", "r2")]
    assert [tuple(cable["nodes"]) for cable in under["cables"]] == [("r1", "r2"), MANAGEMENT]
    one, other = (under["cables"][1]["from"][part] for part in MANAGEMENT)
    assert 0 < one["received"] <= other["sent"]
    assert 0 < other["received"] <= one["sent"]
    assert one["dropped"] == other["dropped"] == 0


def test_what_one_part_asks_all_know_also_of_a_controller_that_was_killed(run: Runner) -> None:
    result = run("partition_control:asked").check()
    assert result.claims
    assert failed_claims(result) == set()


@pytest.mark.parametrize(
    ("job", "expected"),
    [
        (
            "killed",
            "ControllerError: no controller answers at http://127.0.0.1:8181: Connection refused; ",
        ),
        ("absent", "ControllerFailed: the controller does not start: controllers: "),
    ],
)
def test_a_controller_that_dies_gives_the_error_that_it_gives_in_one_kernel(
    job: str, expected: str, ready: PreparedEngine, tmp_path: Path
) -> None:
    found = definition.load_file(JOBS / "partition_control.py", job)
    whole, divided = (lab.run(found, on=ready, out=tmp_path, partitions=parts) for parts in (1, 2))
    assert (whole.status, divided.status) == (Status.ERROR,) * 2
    assert whole.reason.startswith(expected)
    assert divided.reason.removeprefix("part 1: ") == whole.reason  # all parts have it, and one is the first
