"""The fat tree: its counts, its full bisection, and the ways of frames in it."""

from __future__ import annotations

from collections import Counter

import pytest

from testbed.net.build.topo import TopoError
from testbed.net.fabric.routes import Graph
from topologies.fat_tree import FatTree


def graph_of(topo: FatTree) -> Graph:
    """Return the graph of the topology, as that of a network is."""
    graph = Graph(chosen=topo.next_hop)
    for one, other in topo.links():
        graph.join(one, f"{one}>{other}", other, f"{other}>{one}")
    graph.forwarding.update(topo.switches())
    return graph


@pytest.mark.parametrize(("k", "hosts", "switches", "links"), [(2, 2, 5, 6), (4, 16, 20, 48), (6, 54, 45, 162)])
def test_counts(k: int, hosts: int, switches: int, links: int) -> None:
    topo = FatTree(k)
    assert (len(topo.hosts()), len(topo.switches()), len(topo.links())) == (hosts, switches, links)
    ends = Counter(node for link in topo.links() for node in link)
    assert {ends[switch] for switch in topo.switches() if not switch.startswith("core")} == {k}
    assert {ends[switch] for switch in topo.switches() if switch.startswith("core")} == {k}


@pytest.mark.parametrize("k", [4, 6])
def test_ways_are_shortest_and_use_all_cores_alike(k: int) -> None:
    topo = FatTree(k, ways="host number")
    graph, used = graph_of(topo), Counter[str]()
    source = "h1"
    for target in topo.hosts()[1:]:
        way = graph.way(source, target)
        assert way is not None and way[-1].endswith(f">{target}")
        assert len(way) == len(graph.shortest(source, target))
        used.update(node for port in way if (node := port.partition(">")[0]).startswith("core"))
    assert len(used) == k * k // 4
    assert max(used.values()) - min(used.values()) <= k // 2


def test_hosts_of_one_edge_switch_have_it_alone_between_them() -> None:
    assert graph_of(FatTree(4)).way("h1", "h2") == ["h1>edge1", "edge1>h2"]
    assert graph_of(FatTree(4)).way("h1", "h3") == ["h1>edge1", "edge1>agg1", "agg1>edge2", "edge2>h3"]


def test_switches_choose_if_they_are_to() -> None:
    topo = FatTree(4)
    assert graph_of(topo).equal_ways("edge1")["h16"] == ("edge1>agg1", "edge1>agg2")
    assert FatTree(4, ways="host number").next_hop("edge1", "h16") == "agg2"


@pytest.mark.parametrize(("k", "message"), [(5, "such as 4 or 6"), (1, "2 or more"), ("4", "2 or more")])
def test_a_number_of_ports_that_cannot_be_is_refused(k: object, message: str) -> None:
    with pytest.raises(TopoError, match=message):
        FatTree(k)
