"""PFC in the lab does what literature and switch test plans demand, and a fault in it would be seen."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed.lab.engines.engine import PreparedEngine
from tests.lab.conftest import Runner, failed_claims, kept

EXPERIMENTS = ("incast", "thresholds", "hysteresis", "mixed", "victim", "parking_lot", "conservation")


LONG = ("hysteresis", "thresholds")
"""They take 8 CPU seconds and more; tests below run parts of both with a fault in them."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.long if name in LONG else ()) for name in EXPERIMENTS]
)
def test_every_claim_holds_and_the_lab_kept_its_promises(ready: PreparedEngine, tmp_path: Path, name: str) -> None:
    kept(name, ready, tmp_path)


def failing(run: Runner, fault: str) -> set[str]:
    return failed_claims(run(f"broken:{fault}"))


def test_a_threshold_of_one_cell_more_is_seen_with_frames_that_take_one(run: Runner) -> None:
    found = failing(run, "a_threshold_of_one_cell_more")
    assert "static threshold of 40 cells, frames of 60 octets: PAUSE comes with frame" in found
    assert "static threshold of 40 cells, frames of 1514 octets: PAUSE comes with frame" not in found


def test_an_offset_of_one_cell_more_is_seen(run: Runner) -> None:
    found = failing(run, "an_offset_of_one_cell_more")
    assert "offset 0, frames of 1 cells: XON comes when so many have left" in found
    assert "offset 8, frames of 8 cells: XON comes when so many have left" in found
    assert "offset 1, frames of 8 cells: XON comes when so many have left" not in found


def test_loss_for_want_of_headroom_is_seen_at_the_receiver(run: Runner) -> None:
    assert {"with PFC: h1", "with PFC: h2"} <= failing(run, "headroom_for_no_frame")


def test_loss_between_switches_is_seen_by_conservation(run: Runner) -> None:
    found = failing(run, "a_cable_that_loses_frames")
    assert {"with PFC: octets received from each host", "with PFC: octets into each switch"} <= found
    assert "with PFC: octets sent by each host" not in found
