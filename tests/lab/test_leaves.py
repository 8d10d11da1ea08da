"""Leaves: switches whose forwarding is Open vSwitch's, with lossless ports."""

from __future__ import annotations

import pytest

from testbed.lab.fidelity import Verdict

from .conftest import Runner


@pytest.mark.parametrize("library", ["os-ken", "ryu"])
def test_the_controllers_rules_make_frames_lossless_that_the_ports_would_drop(run: Runner, library: str) -> None:
    result = run("leaves:controlled", library=library).check()
    assert result.passed and result.fidelity.verdict is Verdict.KEPT


def test_without_a_controller_the_ports_mapping_holds(run: Runner) -> None:
    result = run("leaves:alone").check()
    assert result.passed and result.fidelity.verdict is Verdict.KEPT


def test_the_wan_has_such_leaves_too(run: Runner) -> None:
    result = run("leaves:wan").check()
    assert result.passed and result.fidelity.verdict is Verdict.KEPT


def test_a_dead_controller_loses_nothing_a_dead_daemon_little_and_all_recovers(run: Runner) -> None:
    assert run("leaves:faults").check().passed  # a daemon that starts keeps the CPU busy, so of its promises nothing
