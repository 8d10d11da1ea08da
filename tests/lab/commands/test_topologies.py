"""The topologies that come with Xoff are as in their pictures: each host is reached, and nothing goes in circles."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed import lab
from testbed.experiment import definition
from testbed.lab import Status
from testbed.lab.engines.engine import PreparedEngine
from testbed.net.shell.topologies import names
from tests.lab.conftest import ROOT, Runner

RUNS = (
    ("incast,3", "back-to-back", "dumbbell,2", "chain,4", "parking-lot,3"),
    ("ring,3", "ring,4", "ring,5", "ring,6", "ring,4,clockwise=1"),
    ("leaf-spine,2,2,2", "leaf-spine,3,3,1", "leaf-spine,1,1,2"),
    ("fat-tree,4", "fat-tree,2"),
    ("clos,2,2,2,2", "clos,2,2,2,1,2", "rail,2,2,2,2", "dragonfly,3,2,1"),
    ("routed-leaf-spine,2,2,1", "routed-fat-tree,2"),
    ("three-links", "dc1-wan-dc2", "dc1-wan-dc2,1,figure=2"),
)
CIRCLES = {
    "ring,4,clockwise=1": ["s1 -> s2", "s2 -> s3", "s3 -> s4", "s4 -> s1"],
    "dragonfly,3,2,1": sorted(
        f"{one} -> {other}"
        for pair in ("g1s1 g1s2", "g2s1 g2s2", "g3s1 g3s2", "g1s1 g2s2", "g2s1 g3s2", "g3s1 g1s2")
        for one, other in (pair.split(), pair.split()[::-1])
    ),
}
WAYS = {
    "ring,4,clockwise=1;h2;h1": ["s2 -> s3", "s3 -> s4", "s4 -> s1"],
    "ring,4;h2;h1": ["s2 -> s1"],
    "ring,4;h2;h4": ["s1 -> s4", "s2 -> s1"],  # the other way would pass through the lowest switch
    "ring,5;h4;h2": ["s1 -> s2", "s4 -> s5", "s5 -> s1"],  # likewise, though that way is shorter
    "chain,3;h1;h3": ["s1 -> s2", "s2 -> s3"],
}


def test_every_lossless_topology_is_tested() -> None:
    """The experiments wan_read and wan_ring test srv6-wan and srv6-ring."""
    assert {wanted.partition(",")[0] for one in RUNS for wanted in one} == set(names()) - {
        "star",
        "srv6-wan",
        "srv6-ring",
    }


@pytest.mark.parametrize("wanted", RUNS, ids=lambda wanted: wanted[0].partition(",")[0])
def test_everybody_is_reached_once_and_nothing_is_lost(run: Runner, wanted: tuple[str, ...]) -> None:
    result = run("topologies:work", wanted=" ".join(wanted)).check()
    for one in wanted:
        circle = result.figure(f"{one}: buffers that wait for each other in a circle")
        assert circle == CIRCLES.get(one, [])


def test_hosts_have_each_other_as_permanent_neighbours(run: Runner) -> None:
    assert len(run("topologies:neighbours").check().claims) == 5


def test_frames_go_the_way_of_the_topology(run: Runner) -> None:
    result = run("topologies:ways", wanted=" ".join(WAYS)).check()
    assert {figure.name: figure.value for figure in result.figures} == WAYS


def test_arguments_that_make_no_sense_get_one_message(run: Runner) -> None:
    result = run("topologies:refused")
    assert result.status is Status.OK
    said = {figure.name: figure.value for figure in result.figures}
    unknown = said.pop("incast,foo=1")
    assert unknown.startswith(
        "topology incast,foo=1: incast has no foo; it takes n, scale, cable, bw, rate, delay, length, "
    )
    assert said == {
        "incast,0": "topology incast,0: Incast: n is 0; a whole number, 1 or more, is expected",
        "dumbbell,-1": "topology dumbbell,-1: Dumbbell: n is -1; a whole number, 1 or more, is expected",
        "chain,1": "topology chain,1: Chain: n is 1; a whole number, 2 or more, is expected",
        "parking-lot,n=1.5": "topology parking-lot,n=1.5: ParkingLot: n is 1.5; a whole number, 2 or more, is expected",
        "ring,1": "topology ring,1: Ring: n is 1; a whole number, 3 or more, is expected",
        "ring,4,clockwise=no": "topology ring,4,clockwise=no: Ring: clockwise is 'no'; 0 or 1 is expected",
        "leaf-spine,2,0": "topology leaf-spine,2,0: LeafSpine: spines is 0; a whole number, 1 or more, is expected",
        "clos,2,2,4,3": (
            "topology clos,2,2,4,3: Clos: 4 hosts at a leaf with oversubscription 3 need 4/3 uplinks, which is no "
            "whole number; take hosts=3 or hosts=6, or oversubscription=1 or 2 or 4"
        ),
        "rail,4,4,0": "topology rail,4,4,0: Rail: spines is 0; a whole number, 1 or more, is expected",
        "three-links,3": "topology three-links,3: three-links takes at most 0 values, and not 1",
        "incast,4,5,6": "topology incast,4,5,6: incast takes at most 1 values (n), and not 3",
        "incast,3,lenght=5m": "topology incast,3,lenght=5m: incast has no lenght; did you mean length?",
        "incast,3,n=4": "topology incast,3,n=4: n is given twice",
        "star,x": "topology star,x: Star: n is 'x'; a whole number, 1 or more, is expected",
        "dc1-wan-dc2,two": "topology dc1-wan-dc2,two: Dc1WanDc2: n is 'two'; a whole number, 1 or more, is expected",
        "dc1-wan-dc2,figure=1": "topology dc1-wan-dc2,figure=1: Dc1WanDc2: figure is 1; 3 or 2 is expected",
        "chain,length=5kg": (
            "topology chain,length=5kg: Chain: '5kg' is not a length: unknown unit 'kg'; write for example '500m'"
        ),
    }


def test_a_network_that_is_too_large_is_refused_in_one_line(run: Runner) -> None:
    """Such a network once ended in a traceback, "Too many open files"."""
    result = run("ways:too_large")
    assert result.figure("said") == "a network of 1501 nodes is too large: at most 960 are possible here"


@pytest.mark.long
def test_a_network_of_200_nodes_fits_into_the_limits_of_a_job(ready: PreparedEngine, tmp_path: Path) -> None:
    """Such a network once ran out of memory: each agent had a copy of half the process that forked it."""
    growth = definition.load_file(ROOT / "bench" / "jobs" / "growth.py", "groups")
    result = lab.run(growth, parameters={"groups": "40", "frames": "50"}, on=ready, out=tmp_path).check()
    assert {figure.name: figure.value for figure in result.figures} == {"nodes": 200, "lost": 0}
