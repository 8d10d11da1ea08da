"""PFC on real ports, to the nanosecond."""

from __future__ import annotations

import pytest

from .conftest import Runner


@pytest.mark.parametrize("rate", ["10Gb/s", "33Gb/s"])
def test_a_pause_lasts_for_its_quanta_at_the_ports_speed(run: Runner, rate: str) -> None:
    assert run("pauses:lasts", rate=rate).check().passed


@pytest.mark.parametrize("victim", ["h1-eth0", "s1-eth2"])
def test_each_field_of_a_pfc_frame_does_what_it_should(run: Runner, victim: str) -> None:
    assert run("pauses:obeys", victim=victim).check().passed


def test_a_pause_travels_back_over_five_switches_and_loses_nothing(run: Runner) -> None:
    assert run("pauses:cascades").check().passed


@pytest.mark.parametrize("action", ["drop", "forward"])
def test_the_watchdog_ends_a_storm_and_nothing_shorter(run: Runner, action: str) -> None:
    assert run("pauses:storms", action=action).check().passed


def test_a_port_in_a_storm_sends_no_xoff_until_it_is_over(run: Runner) -> None:
    assert run("pauses:storms_silence").check().passed
