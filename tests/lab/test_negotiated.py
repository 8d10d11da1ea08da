"""Ports that speak DCBX, under load, and when something ends."""

from __future__ import annotations

from .conftest import Runner


def test_changes_under_load_lose_nothing_that_stays_lossless(run: Runner) -> None:
    run("negotiated:changes_under_load").check()


def test_what_was_negotiated_outlives_speakers_and_agents(run: Runner) -> None:
    run("negotiated:deaths").check()


def test_links_and_neighbours_come_and_go(run: Runner) -> None:
    run("negotiated:comes_and_goes").check()


def test_a_buffer_that_is_too_small_refuses_and_keeps_what_it_has(run: Runner) -> None:
    refused = run("negotiated:too_small").check().figure("refused")
    assert "cells are missing" in refused["s1-eth2"], refused
