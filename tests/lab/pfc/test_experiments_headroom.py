"""The experiments on headroom come out, a fault in them would be seen, and measured headroom fits links of any kind."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from testbed.lab.engines.engine import PreparedEngine
from testbed.lab.job.job import Limits
from testbed.units import Duration
from tests.lab.conftest import Runner, failed_claims, kept

EXPERIMENTS = (
    "headroom_short",
    "headroom_terms",
    "headroom_response",
    "headroom_distance",
    "headroom_recable",
    "headroom_one_sided",
    "headroom_sharing",
)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.long if name == "headroom_terms" else ()) for name in EXPERIMENTS]
)
def test_every_claim_holds_and_the_lab_kept_its_promises(ready: PreparedEngine, tmp_path: Path, name: str) -> None:
    kept(name, ready, tmp_path)


def test_the_three_links_come_out_as_the_proposal_draws_them(ready: PreparedEngine, tmp_path: Path) -> None:
    result = kept("three_links", ready, tmp_path)
    assert result.folder is not None
    drawn = ElementTree.parse(result.folder / "three-links.svg").iter("{http://www.w3.org/2000/svg}rect")
    bars = [(bar.get("class"), float(bar.get("x", 0))) for bar in drawn if bar.get("width") != "12"]
    kinds = [kind for kind, _ in bars]
    assert (kinds.count("headroom"), kinds.count("bridge")) == (9, 9)
    assert [x for kind, x in bars if kind == "lost"] == sorted({x for _, x in bars if x})[1:3]

    lines = [json.loads(line) for line in (result.folder / "dcbx.jsonl").read_text().splitlines()]
    measured = [line for line in lines if line["what"] == "headroom" and line["phase"] == "measured"]
    assert measured
    for line in measured:  # of the hardware, whose cables are up to 100 km; in the lab all takes longer
        assert f"round trip {Duration.nearest_ns(line['shortest_ns'])} to " in line["text"]
        assert line["round_trip_ns"] < 2_000_000, line


def failing(run: Runner, fault: str) -> set[str]:
    return failed_claims(run(f"faults:{fault}"))


def test_headroom_of_one_frame_less_is_seen_in_both_directions(run: Runner) -> None:
    found = failing(run, "short_headroom_of_a_frame_less")
    for way in ("there", "back"):
        assert {f"{name}, {way}: lost" for name in ("just enough", "1664 octets short", "8320 octets short")} <= found
        assert f"plenty, {way}: lost" not in found
        assert f"1664 octets more, {way}: lost" not in found


def test_a_response_that_is_not_measured_is_seen_as_loss(run: Runner) -> None:
    found = failing(run, "a_response_that_is_not_measured")
    assert {"12us later: more headroom, in frames", "12us later: lost"} <= found
    assert "0s later: lost" not in found


@pytest.mark.parametrize("links", [24, pytest.param(1000, marks=pytest.mark.long)])
def test_measured_headroom_is_what_links_need_and_little_more(run: Runner, links: int) -> None:
    run("random_links:random_links", links=links, limits=Limits(virtual_s=20_000, wall_s=7200)).check()


def test_a_round_trip_measured_too_short_is_seen_on_random_links(run: Runner) -> None:
    result = run("faults:half_the_round_trip", limits=Limits(virtual_s=2000, wall_s=1200))
    assert {claim.name for claim in result.claims if not claim.passed} == {"measured less than needed"}
