"""Malformed and hostile frames change nothing but counters."""

from __future__ import annotations

from .conftest import Runner


def test_a_hundred_thousand_hostile_frames_change_nothing_but_counters(run: Runner) -> None:
    assert run("hostile:hostile").check().passed


def test_an_agent_that_does_not_look_loses_frames_but_no_congestion(run: Runner) -> None:
    assert run("hostile:deaf").check().passed
