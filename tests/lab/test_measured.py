"""Headroom measured by the agents of real ports."""

from __future__ import annotations

from .conftest import Runner


def test_round_trips_are_measured_to_a_percent(run: Runner) -> None:
    run("measured:exactness").check()


def test_what_is_measured_divides_the_buffer_while_traffic_flows(run: Runner) -> None:
    run("measured:application").check()


def test_a_peer_without_the_capability_leaves_the_default(run: Runner) -> None:
    text = run("measured:no_capability").check().figure("text")
    assert text.startswith("s1-eth1: headroom is not measured, since the peer does not announce it"), text


def test_a_switch_with_many_ports_measures_them_all(run: Runner) -> None:
    run("measured:many").check()


def test_forged_frames_are_counted_and_change_nothing(run: Runner) -> None:
    run("measured:forgeries").check()
