"""A topology can be made and looked at without Mininet, and lists what it has in Mininet's order.

tests/lab/commands/test_topology_order.py compares it with Mininet's own class.
"""

from __future__ import annotations

from typing import Any

import pytest

from testbed.net.build.graph import Topo
from testbed.net.build.nodes import LosslessSwitch
from topologies.incast import Incast
from topologies.star import Star


class Parts(Topo):
    """Nodes whose numbers sort otherwise as text, and two links between one pair of them."""

    def build(self, hosts: int = 11) -> None:
        self.addSwitch("s2")
        for number in (10, 2, hosts):
            self.addHost(f"h{number}", ip=f"10.0.0.{number}")
        self.addSwitch("s1")
        for node in ("h10", "h2", "s1", "s1"):
            self.addLink("s2", node, bw=10)


def test_names_come_in_the_order_of_their_numbers() -> None:
    topo = Parts()
    assert topo.nodes() == ["h2", "h10", "h11", "s1", "s2"]
    assert topo.nodes(sort=False) == ["s2", "h10", "h2", "h11", "s1"]
    assert (topo.hosts(), topo.switches()) == (["h2", "h10", "h11"], ["s1", "s2"])
    assert topo.nodeInfo("h2") == {"ip": "10.0.0.2"}
    assert topo.nodeInfo("s1") == {"isSwitch": True}


def test_links_keep_the_order_of_their_ends() -> None:
    links: list[Any] = Parts().links(sort=True, withKeys=True)
    assert links == [("s2", "h2", 1), ("s2", "h10", 1), ("s2", "s1", 1), ("s2", "s1", 2)]


def test_ports_are_numbered_from_one_at_switches_and_from_zero_at_hosts() -> None:
    topo = Parts()
    assert topo.port("s2", "h10") == (1, 0)
    assert topo.port("s1", "s2") == [(1, 3), (2, 4)]
    assert topo.linkInfo("s1", "s2") == {"bw": 10, "node1": "s2", "node2": "s1", "port1": 3, "port2": 1}
    assert topo.linkInfo("s1", "s2", 2)["port1"] == 4


def test_defaults_are_for_what_has_no_options_of_its_own() -> None:
    topo = Parts(hopts={"ip": "10.0.0.9"}, lopts={"bw": 1})
    assert topo.addHost("x") == "x"
    assert topo.nodeInfo("x") == {"ip": "10.0.0.9"}
    assert topo.linkInfo("s2", "h2")["bw"] == 10
    topo.addLink("x", "s1")
    assert topo.linkInfo("x", "s1")["bw"] == 1


def test_it_becomes_a_graph_of_another_library() -> None:
    class Graph:
        def __init__(self) -> None:
            self.nodes: list[Any] = []
            self.edges: list[Any] = []

        def add_nodes_from(self, nodes: Any) -> None:
            self.nodes.extend(nodes)

        def add_edge(self, *ends: str, **about: Any) -> None:
            self.edges.append((*ends, about))

    graph = Parts().convertTo(Graph, data=False)
    assert graph.nodes == ["s2", "h10", "h2", "h11", "s1"]
    assert graph.edges == [
        ("h10", "s2", {"key": 1}),
        ("h2", "s2", {"key": 1}),
        ("s1", "s2", {"key": 1}),
        ("s1", "s2", {"key": 2}),
    ]


@pytest.mark.parametrize("topo", [Incast(2), Star(2)], ids=["lossless", "plain"])
def test_shipped_topologies_are_there_without_mininet(topo: Topo) -> None:
    assert topo.switches() == ["s1"]
    assert all(ends[1] == "s1" for ends in topo.links())


def test_a_lossless_topology_names_the_class_of_its_switches() -> None:
    assert Incast(2).nodeInfo("s1")["cls"] is LosslessSwitch
