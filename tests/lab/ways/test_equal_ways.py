"""Switches choose among equal ways as their reference does, and leave a way that has lost its carrier."""

from __future__ import annotations

import re

import pytest

from ..conftest import Runner, failed_claims


@pytest.mark.parametrize("many", [20_000, pytest.param(1_000_000, marks=pytest.mark.long)])
def test_the_port_program_chooses_as_the_reference_does(run: Runner, many: int) -> None:
    assert failed_claims(run("equal_ways:choices", many=many)) == set()


def test_the_port_program_hashes_the_fields_of_any_frame_as_the_reference_does(run: Runner) -> None:
    assert failed_claims(run("equal_ways:frames", many=300)) == set()


@pytest.mark.parametrize(
    ("by", "frames", "lost"),
    [("resilient", [386, 348, 603, 439], 18), ("hash", [651, 348, 603, 174], 18), ("spray", [514, 232, 515, 515], 12)],
)
def test_frames_leave_a_lost_way_after_the_time_that_is_set(run: Runner, by: str, frames: list[int], lost: int) -> None:
    result = run("equal_ways:a_lost_way", by=by)
    assert failed_claims(result) == set()
    assert (result.figure("frames"), result.figure("lost")) == (frames, lost)


def test_a_way_that_comes_back_is_used_at_once(run: Runner) -> None:
    assert failed_claims(run("equal_ways:a_way_back")) == set()


def test_spraying_fills_each_uplink_of_permutation_traffic_evenly(run: Runner) -> None:
    result = run("equal_ways:permutation")
    assert failed_claims(result) == set()
    assert result.figure("frames") == [[499] * 4] * 4


def test_hashing_leaves_uplinks_empty_that_no_flow_hashes_to(run: Runner) -> None:
    found = run("equal_ways:permutation", ways="hash").figure("frames")
    assert [row.count(0) for row in found] == [2, 2, 1, 1]


@pytest.mark.parametrize(
    ("job", "which", "said"),
    [
        ("equal_ways:without_effect", {}, "ways='hash' has no effect: leaf1 and all others have one way to each host"),
        ("equal_ways:at_a_leaf", {}, "ways has no effect at s1, where Open vSwitch forwards as it is told"),
        (
            "equal_ways:odd_settings",
            {"which": "neighbour"},
            "the weight of spin1 has no effect: no switch has such a neighbour",
        ),
    ],
)
def test_settings_without_effect_are_warned_of(
    run: Runner, capfd: pytest.CaptureFixture[str], job: str, which: dict[str, str], said: str
) -> None:
    result = run(job, **which)
    assert result.folder is not None
    assert said in (result.folder / "output.log").read_text()


@pytest.mark.parametrize(
    ("which", "warns"),
    [
        ({}, True),
        ({"recovery": "go-back-0"}, True),
        ({"recovery": "selective repeat"}, False),
        ({"waits": "100us"}, False),
        ({"ways": "hash"}, False),
    ],
    ids=["go-back-N", "go-back-0", "selective repeat", "a NIC that waits", "by flow"],
)
def test_flows_that_take_packets_in_order_alone_over_ways_by_frame_are_warned_of(
    run: Runner, which: dict[str, str], warns: bool
) -> None:
    result = run("equal_ways:in_order_alone", **which)
    assert result.folder is not None
    log = result.folder / "output.log"
    said = log.read_text() if log.exists() else ""
    rule, recovery = which.get("ways", "random"), which.get("recovery", "go-back-N")
    told = (
        f"warning: {recovery} takes packets in their order alone, and leaf1 gives each frame a way of its own "
        f"('{rule}'): what comes late is sent again as if it were lost, with all behind it (flows: h1 to h3, h2 to "
        "h3). "
    )
    assert (told in said) == warns == ("packets in their order alone" in said)
    assert bool(result.figure("packets sent again")) == (warns or recovery == "selective repeat")
    assert ("packets came out of their order, and " in said) == warns
    assert (f", and {result.figure('packets sent again')} were sent again. " in said) == warns


def test_a_switch_without_a_choice_and_polarised_ways_are_warned_of_and_defaults_are_not(
    run: Runner, capfd: pytest.CaptureFixture[str]
) -> None:
    result = run("equal_ways:of_one_switch")
    assert result.folder is not None
    said = [line for line in (result.folder / "output.log").read_text().splitlines() if "warning" in line]
    assert [line.partition("warning: ")[2] for line in said] == [
        "ways='spray' has no effect at s1, which has one way to each host; leave it out there",
        "the ways are polarised: agg1 and 3 others hash the same fields with the same seed as a switch before, leaf1, "
        "so that 4 of their 8 ways can carry frames and the others none; leave seed out, and each switch has its own, "
        "or give the tiers different seeds or fields",
    ]


@pytest.mark.parametrize(
    ("which", "said"),
    [
        ("gap", r"gap is 1us; leaf1-eth2 takes 1.2304us for a frame"),
        ("weights", r"the weights of leaf1 have a sum of 300; divide them, 256 is the most"),
        ("buckets", r"leaf1 has a table of 1 buckets for all its ways; 2 or more are needed"),
    ],
)
def test_settings_that_cannot_work_are_refused(run: Runner, which: str, said: str) -> None:
    assert re.search(said, run("equal_ways:odd_settings", which=which).reason)
