"""The experiments on equal ways come out, and hashing gives uplinks the flows that the reference says for any seed."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed.lab.engines.engine import PreparedEngine
from tests.lab.conftest import Runner, failed_claims, kept

EXPERIMENTS = ("ecmp_collisions", "ecmp_polarisation", "failed_uplink", "flowlets", "spraying")


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_claim_holds_and_the_lab_kept_its_promises(ready: PreparedEngine, tmp_path: Path, name: str) -> None:
    kept(name, ready, tmp_path)


def test_flows_are_on_the_uplinks_of_the_reference_with_five_seeds(run: Runner) -> None:
    assert failed_claims(run("equal_ways:seeds")) == set()


@pytest.mark.parametrize("many", [3, pytest.param(20, marks=pytest.mark.long)])
def test_octets_are_as_they_were_sent_for_seeds_of_spraying_with_pfc_and_selective_repeat(
    run: Runner, many: int
) -> None:
    assert failed_claims(run("equal_ways:sprayed_octets", many=many)) == set()


def test_a_switch_that_hashes_in_place_of_spraying_is_seen(run: Runner) -> None:
    found = failed_claims(run("equal_ways:hashing_in_place_of_spraying"))
    assert found == {"spray: part of the emptiest uplink", "spray: slowest flow"}


def test_flowlets_that_are_hashed_flows_are_seen(run: Runner) -> None:
    found = failed_claims(run("equal_ways:no_silence_is_looked_for"))
    assert "one flow, gap of 8 us: uplinks" in found
