"""Where networks are cut."""

from __future__ import annotations

from typing import Any

import pytest

from testbed.errors import UsageError
from testbed.net.build.topo import LosslessTopo
from testbed.net.fabric.cable import Cable
from testbed.net.partition.cut import Cut, cut
from testbed.switch.link.errors import BitErrors
from topologies.fat_tree import FatTree
from topologies.incast import Incast
from topologies.leaf_spine import LeafSpine

LONG = Cable("10Gb/s", "100m")


class Sites(LosslessTopo):
    """Two pairs of switches without a delay inside, and a long cable between them."""

    def build(self, between: Cable = LONG) -> None:
        for site in ("a", "b"):
            for number in (1, 2):
                self.addSwitch(f"{site}{number}")
                self.addLink(self.addHost(f"h{site}{number}"), f"{site}{number}")
            self.addLink(f"{site}1", f"{site}2")
        self.addLink("a2", "b1", cable=between)


def crossing(divided: Cut) -> int:
    return len(divided.cables)


def test_a_leaf_keeps_its_hosts_and_parts_have_about_the_same_work() -> None:
    divided = cut(LeafSpine(leaves=4, spines=2, hosts=3, cable=LONG), 2)
    for number in range(1, 13):
        assert divided.part_of[f"h{number}"] == divided.part_of[f"leaf{(number - 1) // 3 + 1}"]
    leaves = [divided.part_of[f"leaf{number}"] for number in range(1, 5)]
    assert sorted(leaves) == [0, 0, 1, 1]
    assert crossing(divided) == 4  # each spine is with one of the parts: two leaves of the other one are far
    assert {one.delay_ns for one in divided.cables} == {500_000}


def test_a_fat_tree_is_cut_between_pods() -> None:
    topo = FatTree(4, cable=LONG)
    divided = cut(topo, 4)
    pods: dict[int, set[str]] = {part: {node for node in divided.nodes(part)} for part in range(4)}
    assert all(sum(not topo.isSwitch(node) for node in nodes) == 4 for nodes in pods.values())
    assert crossing(divided) <= 12  # of the 16 cables between pods and core


class Three(LosslessTopo):
    """Three switches in a row; the first cable between them has what the test gives."""

    def build(self, first: Cable = LONG) -> None:
        for number in (1, 2, 3):
            self.addSwitch(f"s{number}")
            self.addLink(self.addHost(f"h{number}"), f"s{number}")
        self.addLink("s1", "s2", cable=first)
        self.addLink("s2", "s3", cable=LONG)


@pytest.mark.parametrize("given", [{"llr": True}, {"errors": BitErrors("1e-9")}])
def test_a_cable_with_llr_or_errors_is_never_cut(given: dict[str, Any]) -> None:
    first = Cable("10Gb/s", "100m", **given)
    assert [one.nodes for one in cut(Three(first=first), 2).cables] == [("s2", "s3")]
    topo = Three(first=first)
    topo.partition = [["s1"], ["s2", "s3"]]
    with pytest.raises(UsageError, match=r"the cable of s1 and s2 is between two parts and has no delay, .* llr"):
        cut(topo, 2)
    with pytest.raises(UsageError, match=r"only 2 pieces of it can be apart, for the cable of s1 and s2 .* llr"):
        cut(Three(first=first), 3)


def test_what_has_no_delay_between_stays_together() -> None:
    divided = cut(Sites(), 2)
    assert [one.nodes for one in divided.cables] == [("a2", "b1")]
    assert divided.nodes(divided.part_of["a1"]) == ["a1", "a2", "ha1", "ha2"]
    assert divided.as_json()["cables"] == [{"nodes": ["a2", "b1"], "parts": [0, 1], "lab_delay_ns": 500_000}]


class Chosen(Sites):
    partition: Any = (["b1", "b2"], ["a1", "a2"])


def test_a_topology_can_name_its_parts() -> None:
    assert cut(Chosen(), 2).part_of == {
        "a1": 1, "a2": 1, "ha1": 1, "ha2": 1, "b1": 0, "b2": 0, "hb1": 0, "hb2": 0,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("partition", "parts", "expected"),
    [
        ((["a1", "a2"], []), 2, "part 1 has no nodes"),
        ((["a1", "a2"], ["b1", "b3"]), 2, "there is no node b3; there are a1, a2"),
        ((["a1", "a2"], ["b1"]), 2, "b2"),
        ((["a1", "a2"], ["a2", "b1", "b2"]), 2, "a2 is in part 0 and in part 1"),
        ((["a1", "a2"], ["b1", "b2"]), 3, "its partition has 2 parts, not 3; --partitions 2"),
        ((["a1", "b1", "b2"], ["a2"]), 2, "the cable of a1 and a2 is between two parts and has no delay"),
    ],
)
def test_parts_that_cannot_be_are_refused(partition: Any, parts: int, expected: str) -> None:
    topo = Sites()
    topo.partition = partition
    with pytest.raises(UsageError, match=expected):
        cut(topo, parts)


def test_more_parts_than_there_can_be_are_refused_with_the_way_out() -> None:
    with pytest.raises(UsageError, match=r"only 2 pieces of it can be apart, for the cable of a1 and a2 has no delay"):
        cut(Sites(), 3)
    with pytest.raises(
        UsageError, match=r"Incast: 2 parts are asked for, and it has 1 switches and routers; it cannot"
    ):
        cut(Incast(4, cable=LONG), 2)
    with pytest.raises(UsageError, match="--partitions 6 is the most"):
        cut(LeafSpine(leaves=4, spines=2, hosts=1, cable=LONG), 7)
    with pytest.raises(UsageError, match="2 to 16 parts, not 17"):
        cut(Sites(), 17)


class Row(LosslessTopo):
    """Four switches in a row; the cables between them have these delays in the lab."""

    def build(self, *lengths: str) -> None:
        self.partition = tuple([f"s{number}"] for number in range(1, len(lengths) + 2))
        for number in range(1, len(lengths) + 2):
            self.addLink(self.addHost(f"h{number}"), self.addSwitch(f"s{number}"))
        for number, length in enumerate(lengths, 1):
            for _ in range(2):
                self.addLink(f"s{number}", f"s{number + 1}", cable=Cable("10Gb/s", length))


def test_the_farthest_parts_are_as_far_as_the_cables_between_them() -> None:
    assert cut(Row("100m", "1km", "200m"), 4).farthest_ns == 500_000 + 5_000_000 + 1_000_000


def test_a_management_cable_is_as_long_as_the_way_but_not_longer_than_sessions_bear() -> None:
    divided = cut(Row("100m", "1km", "100km"), 4)
    managed = divided.managed()
    assert managed.management == 6
    assert managed.cables[:6] == divided.cables
    assert managed.as_json()["cables"][6:] == [
        {"nodes": ["part 0", f"part {part}"], "parts": [0, part], "lab_delay_ns": ns}
        for part, ns in ((1, 500_000), (2, 5_500_000), (3, 50_000_000))
    ]
    assert managed.farthest_ns == 50_000_000 + 5_500_000 < divided.farthest_ns
