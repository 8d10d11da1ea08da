"""The experiments on equal ways come out, and hashing gives uplinks the flows that the reference says for any seed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from testbed.lab.engines.engine import PreparedEngine
from testbed.lab.results.result import Result
from testbed.report.pages.page import report
from tests.lab.conftest import Runner, failed_claims, kept

EXPERIMENTS = ("ecmp_collisions", "ecmp_polarisation", "failed_uplink", "flowlets", "spraying")


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_claim_holds_and_the_lab_kept_its_promises(ready: PreparedEngine, tmp_path: Path, name: str) -> None:
    result = kept(name, ready, tmp_path)
    if name == "ecmp_collisions":
        assert _uplinks_of_the_report(result) == next(
            one.measured for one in result.claims if one.name == "hash: queue pairs of uplinks"
        )


def _uplinks_of_the_report(result: Result) -> list[list[int]]:
    """The flows of each leaf's uplinks by the table of ways, of flows that have one queue pair each."""
    assert result.folder is not None
    (section,) = re.findall(r'<section aria-label="Ways of flows">.*?</section>', report([result.folder]), re.DOTALL)
    found = [[0] * 4 for _ in range(4)]
    for leaf, spine, many in re.findall(
        r"leaf(\d) - spine(\d) - leaf\d</t[dh]><td[^>]*>hash</td><td[^>]*>(\d+)<", section
    ):
        found[int(leaf) - 1][int(spine) - 1] += int(many)
    return found


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
