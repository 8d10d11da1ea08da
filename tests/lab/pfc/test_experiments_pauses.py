"""The experiments on storms, watchdogs, deadlocks, late answers and ECN come out, and a fault in them would be seen."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed.lab.engines.engine import PreparedEngine
from tests.lab.conftest import Runner, failed_claims, kept

EXPERIMENTS = (
    "not_enabled",
    "duty_cycle",
    "storm",
    "response",
    "watchdog",
    "deadlock",
    "ecn_step",
    "ecn_ramp",
)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_claim_holds_and_the_lab_kept_its_promises(ready: PreparedEngine, tmp_path: Path, name: str) -> None:
    kept(name, ready, tmp_path)


def failing(run: Runner, fault: str) -> set[str]:
    return failed_claims(run(f"faults:{fault}"))


def test_a_marking_threshold_of_one_frame_more_is_seen(run: Runner) -> None:
    found = failing(run, "a_step_one_frame_late")
    assert {f"20 waiting, {kind}: arrived, by ECN field" for kind in ("ECT_0", "ECT_1")} <= found
    assert "20 waiting, NOT_ECT: arrived" in found
    assert not any(name.startswith(("10 waiting", "19 waiting", "without")) for name in found)


def test_half_the_marks_are_too_few(run: Runner) -> None:
    found = failing(run, "half_the_marks")
    assert {f"{waiting} waiting: marked of 2000" for waiting in (45, 70, 95)} <= found
    assert "120 waiting: marked" not in found


def test_headroom_of_one_frame_less_is_seen_at_the_edge_and_beyond(run: Runner) -> None:
    assert failing(run, "headroom_of_a_frame_less") == {
        "delay of the slack less half a frame: lost",
        "delay of the slack and half a frame: lost",
        "delay of the slack and a frame and a half: lost",
        "delay of the slack and four frames and a half: lost",
    }


def test_a_lossy_priority_that_obeys_is_seen(run: Runner) -> None:
    found = failing(run, "a_lossy_priority_that_obeys")
    assert "XOFF of the lossy priority: goodput of the lossy priority" in found
    assert "XOFF of the lossy priority: goodput of the lossless priority" not in found


def test_pauses_that_are_a_twentieth_too_long_are_seen_in_goodput(run: Runner) -> None:
    assert failing(run, "pauses_too_long") == {
        f"paused {part} of the time, until the time is over: goodput" for part in ("1/4", "1/2", "3/4")
    }


def test_a_storm_that_spreads_to_another_priority_is_seen(run: Runner) -> None:
    assert failing(run, "a_storm_that_spreads") == {"one priority: goodput of the other lossless one"}


def test_a_watchdog_that_bites_one_poll_early_is_seen(run: Runner) -> None:
    found = failing(run, "a_watchdog_that_is_early")
    assert {f"{action}: storms found in the short pause and the broken one" for action in ("drop", "forward")} <= found


def test_a_deadlock_of_the_routing_that_should_have_none_is_seen(run: Runner) -> None:
    found = failing(run, "a_ring_without_up_and_down")
    assert "up/down: received in the second half, of each flow" in found
    assert not any(name.startswith("clockwise") for name in found)
