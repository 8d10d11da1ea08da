"""The layout of fabrics: layers by distance to hosts, groups of equal neighbours, bundles, and no node on another."""

from __future__ import annotations

from itertools import combinations, pairwise
from xml.etree import ElementTree

import pytest

from testbed.lab.results.folder import Network
from testbed.report.pages.layers import CableCurve, groups, halves, is_layered, layers_of, layout
from testbed.report.pages.topology import drawing
from tests.unit.report.test_topology import CHAIN, DUAL, FABRIC, RING, TWO, of


def fat_tree(k: int) -> Network:
    """Return a fat tree: k pods of k/2 edge and k/2 aggregation switches, and (k/2)^2 core switches."""
    half, cables = k // 2, list[tuple[str, str]]()
    kinds: dict[str, str] = {}
    for edge in range(k * half):
        pod = edge // half
        cables += [(f"h{edge * half + host + 1}", f"edge{edge + 1}") for host in range(half)]
        cables += [(f"edge{edge + 1}", f"agg{pod * half + number + 1}") for number in range(half)]
    for agg in range(k * half):
        cables += [(f"agg{agg + 1}", f"core{agg % half * half + number + 1}") for number in range(half)]
    for one, other in cables:
        kinds |= {name: "switch" for name in (one, other) if name[0] != "h"}
    return of(cables, **kinds)


def leaf_spine(leaves: int, spines: int, hosts: int) -> Network:
    cables = [(f"h{leaf * hosts + host + 1}", f"leaf{leaf + 1}") for leaf in range(leaves) for host in range(hosts)]
    cables += [(f"leaf{leaf + 1}", f"spine{spine + 1}") for leaf in range(leaves) for spine in range(spines)]
    names = dict.fromkeys(name for cable in cables for name in cable)
    return of(cables, **{name: "switch" for name in names if name[0] != "h"})


STAR = of([(f"h{number}", "s1") for number in range(1, 41)])


def test_the_layer_of_a_switch_is_its_distance_to_a_host() -> None:
    layer = layers_of(fat_tree(4))
    assert [layer[name] for name in ("h1", "edge8", "agg3", "core4")] == [0, 1, 2, 3]
    assert sum(one == 0 for one in layer.values()) == 16


@pytest.mark.parametrize("network", [CHAIN, RING, TWO, of([("h1", "s1"), ("h2", "s1"), ("h3", "s1")])])
def test_small_networks_and_rings_go_from_left_to_right(network: Network) -> None:
    assert not is_layered(network)


@pytest.mark.parametrize("network", [FABRIC, STAR, fat_tree(4), leaf_spine(2, 2, 4), leaf_spine(4, 4, 16)])
def test_fabrics_and_many_hosts_are_in_layers(network: Network) -> None:
    assert is_layered(network)


def test_groups_have_the_same_neighbours() -> None:
    above = {"e1": frozenset("ab"), "e2": frozenset("ab"), "e10": frozenset("cd"), "e3": frozenset("cd")}
    assert groups(above, above) == [["e1", "e2"], ["e3", "e10"]]


@pytest.mark.parametrize(
    "network", [FABRIC, STAR, fat_tree(4), fat_tree(8), leaf_spine(4, 4, 16), leaf_spine(32, 8, 16), DUAL]
)
def test_no_node_is_on_another_and_all_are_inside(network: Network) -> None:
    at = layout(network)
    assert at.boxes.keys() == network.nodes.keys() and len(at.lines) == len(network.cables)
    for one in at.boxes.values():
        assert one.x - one.width / 2 >= 0 and one.x + one.width / 2 <= at.width
        assert one.y - one.height / 2 >= 0 and one.y + one.height / 2 <= at.height
    rows: dict[float, list[tuple[float, float]]] = {}
    for one in at.boxes.values():
        rows.setdefault(one.y, []).append((one.x - one.width / 2, one.x + one.width / 2))
    for row in rows.values():
        assert all(a[1] <= b[0] or b[1] <= a[0] for a, b in combinations(row, 2))
    heights = sorted(rows)
    assert all(other - one >= 20 for one, other in pairwise(heights))
    assert layout(network) == at, "the same network, the same drawing"


def test_a_leaf_is_above_its_hosts_and_a_spine_above_the_middle() -> None:
    at = layout(leaf_spine(2, 1, 4))
    hosts = [at.boxes[f"h{number}"] for number in range(1, 5)]
    assert at.boxes["leaf1"].x == sum(one.x for one in hosts) / 4
    assert at.boxes["spine1"].x == (at.boxes["leaf1"].x + at.boxes["leaf2"].x) / 2
    assert at.boxes["spine1"].y < at.boxes["leaf1"].y < hosts[0].y
    assert [one.x for one in hosts] == sorted(one.x for one in hosts), "in the order of their numbers"


def test_64_hosts_stand_in_one_row_and_128_of_a_fat_tree_in_two() -> None:
    one_row = {box.y for name, box in layout(leaf_spine(4, 4, 16)).boxes.items() if name[0] == "h"}
    two_rows = {box.y for name, box in layout(fat_tree(8)).boxes.items() if name[0] == "h"}
    assert (len(one_row), len(two_rows)) == (1, 2)


def test_cables_of_a_pod_pass_through_its_middle() -> None:
    network = fat_tree(8)
    at = layout(network)
    (line,) = [at.lines[n] for n, cable in enumerate(network.cables) if cable["nodes"] == ["edge1", "agg4"]]
    assert line is not None
    middle = sum(at.boxes[f"edge{number}"].x for number in range(1, 5)) / 4
    port, towards = line.points[0], line.points[1]
    assert abs(towards[0] - (port[0] + 0.75 * (middle - port[0]))) < 1e-9
    straight = layout(leaf_spine(2, 2, 4))
    assert all(len(line.points) == 2 for line in straight.lines if line is not None), "few cables are straight"


def test_cables_between_switches_of_the_highest_layer_go_over_them_inside_of_the_drawing() -> None:
    ring = [f"s{number}" for number in range(1, 31)]
    network = of([*zip(ring, [*ring[1:], ring[0]], strict=True), *((f"h{one}", one) for one in ring)])
    at = layout(network)
    lines = [line for line, cable in zip(at.lines, network.cables, strict=True) if line and cable["nodes"][1][0] == "s"]
    heights = [line.points[0][1] - line.points[1][1] for line in lines]
    assert max(heights) > 3 * min(heights), "the farther, the higher"
    assert all(line.points[0][1] - 0.75 * height >= 0 for line, height in zip(lines, heights, strict=True))


def test_halves_of_a_cable_meet_in_its_middle() -> None:
    assert halves(CableCurve(((0, 0), (10, 20)))) == ("M0.0 0.0L5.0 10.0", "M10.0 20.0L5.0 10.0")
    curve = CableCurve(((0, 0), (0, 8), (8, 8), (8, 16)))
    assert halves(curve) == (
        "M0.0 0.0C0.0 4.0 2.0 6.0 4.0 8.0",
        "M8.0 16.0C8.0 12.0 6.0 10.0 4.0 8.0",
    )
    corner = CableCurve(((4, 10), (0, 10), (0, 0)))
    assert halves(corner) == ("M4.0 10.0L0.0 10.0L0.0 5.0", "M0.0 0.0L0.0 5.0")


def test_ports_are_in_the_order_of_what_is_at_the_other_end() -> None:
    at = layout(leaf_spine(4, 4, 16))
    own = [at.ports[f"leaf1-h{number}"][0] for number in range(1, 17)]
    assert own == sorted(own) and len(set(own)) == 16


def test_the_drawing_of_a_fabric_has_every_port_and_both_halves_of_each_cable() -> None:
    network = fat_tree(4)
    source = drawing(network, "d")
    tree = ElementTree.fromstring(source[source.index("<svg") : source.index("</svg>") + 6])
    ports = {element.get("data-port") for element in tree.iter() if element.get("data-port")}
    loads = [element.get("data-load") for element in tree.iter() if element.get("data-load")]
    ends = [end for cable in network.cables for end in cable["ends"]]
    assert ports == set(ends) and sorted(map(str, loads)) == sorted(ends)
    assert 'data-map="fit"' in source
