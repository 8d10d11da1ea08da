"""The drawing of a network: every node has a place of its own, and the same network the same drawing."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from testbed.lab.results.folder import Network
from testbed.report.pages.topology import drawing, places


def of(cables: list[tuple[str, str]], **kinds: str) -> Network:
    """Return a network of nodes whose names give their kinds: h1, s1, r1."""
    names = dict.fromkeys(name for cable in cables for name in cable)
    kind = {"h": "host", "s": "switch", "r": "router"}
    nodes = {name: kinds.get(name, kind.get(name[0], "switch")) for name in names} | kinds
    laid = [{"ends": [f"{a}-{b}", f"{b}-{a}"], "nodes": [a, b]} for a, b in cables]
    return Network(1, 0, 1, "", "Test", nodes, laid, {}, {})


CHAIN = of([("h1", "s1"), ("s1", "s2"), ("s2", "s3"), ("s3", "h2"), ("h3", "s2"), ("h4", "s2")])
RING = of([("s1", "s2"), ("s2", "s3"), ("s3", "s4"), ("s4", "s1"), *((f"h{n}", f"s{n}") for n in range(1, 5))])
STAR = of([(f"h{n}", "s1") for n in range(1, 20)])
TWO = of([("h1", "s1"), ("s1", "h2"), ("h3", "s2"), ("s2", "h4"), ("h5", "h6")], s9="switch")
DUAL = of(
    [("h1", "s1"), ("h1", "s2"), ("s1", "s3"), ("s2", "s3"), ("s3", "s4"), ("s3", "s5"), ("h2", "s4"), ("h2", "s5")]
)
DRAGONFLY = of(
    [(f"h{switch}{number}", f"s{switch}") for switch in range(1, 7) for number in range(2)]
    + [("s1", "s2"), ("s3", "s4"), ("s5", "s6"), ("s1", "s4"), ("s3", "s6"), ("s5", "s2")]
)
FABRIC = of(
    [(f"s{leaf}", f"s{spine}") for leaf in range(1, 5) for spine in (11, 12)]
    + [(f"h{leaf}{n}", f"s{leaf}") for leaf in range(1, 5) for n in range(4)]
)


@pytest.mark.parametrize("network", [CHAIN, RING, STAR, TWO, DUAL, DRAGONFLY, FABRIC])
def test_no_two_nodes_share_a_place(network: Network) -> None:
    found = places(network)
    assert found.keys() == network.nodes.keys()
    apart = [
        abs(a.x - b.x) * 170 >= 50 or abs(a.y - b.y) * 84 >= 30
        for one, a in found.items()
        for other, b in found.items()
        if one < other
    ]
    assert all(apart)
    assert places(network) == found


def test_a_chain_goes_from_left_to_right_with_hosts_at_its_ends() -> None:
    found = places(CHAIN)
    assert [found[name].x for name in ("h1", "s1", "s2", "s3", "h2")] == [0, 1, 2, 3, 4]
    assert found["h3"].y < found["s2"].y < found["h4"].y


def test_the_drawing_is_xml_with_every_node_and_port() -> None:
    tree = ElementTree.fromstring(drawing(RING, "drawing"))
    assert {element.get("data-port") for element in tree.iter() if element.get("data-port")} == {
        end for cable in RING.cables for end in cable["ends"]
    }
    assert sum(str(element.get("class")).startswith("node ") for element in tree.iter()) == 8


def test_parallel_cables_are_drawn_beside_each_other() -> None:
    tree = ElementTree.fromstring(drawing(of([("s1", "s2"), ("s1", "s2"), ("s1", "s2")]), "drawing"))
    heights = {element.get("y1") for element in tree.iter("line")}
    assert len(heights) == 3
