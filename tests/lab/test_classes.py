"""The classes of a port, frame by frame: shares of many kinds, and what a pause leaves to the others."""

from __future__ import annotations

from testbed.lab.fidelity import Verdict

from .conftest import Runner


def test_classes_share_a_switch_port_as_configured_and_never_exceed_the_line(run: Runner) -> None:
    result = run("classes:switch_port").check()
    assert result.fidelity.verdict is Verdict.KEPT, result.fidelity


def test_a_paused_class_of_a_host_leaves_the_others_at_line_rate(run: Runner) -> None:
    result = run("classes:host_port").check()
    assert result.fidelity.verdict is Verdict.KEPT, result.fidelity


def test_in_a_pause_frames_are_marked_by_the_queue_at_its_beginning(run: Runner) -> None:
    assert run("classes:marks_in_a_pause").check().passed


def test_pfc_goes_by_the_port_in_and_ecn_by_the_port_out(run: Runner) -> None:
    assert run("classes:in_and_out").check().passed
