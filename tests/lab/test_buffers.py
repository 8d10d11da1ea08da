"""The port program's buffer and the reference of it never differ in a counter."""

from __future__ import annotations

import pytest

from .conftest import Runner

DROPS = {"headroom", "headroom pool", "threshold", "shared pool"}
SIGNALS = {"xoff", "xon", "recheck xon", "impossible release"}
CHANGES = {"configured", "configured, resumed", "busy"}


def test_ten_thousand_steps_of_each_history_leave_no_difference(run: Runner) -> None:
    result = run("buffers:agrees_step_by_step").check()
    assert set(result.figure("what happened")) >= DROPS | SIGNALS | CHANGES


@pytest.mark.slow
def test_many_more_histories_leave_no_difference(run: Runner) -> None:
    assert run("buffers:agrees_step_by_step", seed=2, seeds=40).check().passed


def test_frames_at_the_ports_of_a_switch_leave_no_difference(run: Runner) -> None:
    result = run("buffers:agrees_with_frames").check()
    assert result.figure("frames") > 2000
    happened = [result.figure(f"network {number}: drops, congestions, reliefs") for number in range(3)]
    assert all(sum(one[kind] for one in happened) > 80 for kind in ("drop", "congested", "relieved")), happened
