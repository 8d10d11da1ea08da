"""Clos, rail and dragonfly: their counts, their ways, and sizes that do not fit."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise, permutations
from typing import Any

import pytest

from testbed.net.build.topo import LosslessTopo, TopoError
from testbed.net.fabric.routes import Graph
from topologies.clos import Clos
from topologies.dragonfly import Dragonfly
from topologies.leaf_spine import LeafSpine
from topologies.rail import Rail


def graph_of(topo: LosslessTopo) -> Graph:
    """Return the graph of the topology, as that of a network is. Its ports are named by both ends, and a number."""
    graph, counts = Graph(chosen=topo.next_hop), Counter[frozenset[str]]()
    for one, other, info in topo.links(withInfo=True):
        counts[pair] = number = counts[pair := frozenset((one, other))] + 1
        graph.join(one, f"{one}>{other}:{number}", other, f"{other}>{one}:{number}", info.get("cost", 1))
    graph.forwarding.update(topo.switches())
    return graph


def _name(value: object) -> str | None:
    return f"{type(value).__name__}-{len(value.nodes())}" if isinstance(value, LosslessTopo) else None


FABRICS = [
    Clos(), Clos(3, 2, 3, "1.5"), Clos(2, 4, 4, 4, 2), Rail(), Rail(2, 3, 1, 2), Dragonfly(), Dragonfly(9, 4, 1, 2),
    Dragonfly(5, 4, 2), Dragonfly(3, 4, 1), Dragonfly(2, 1, 2),
]  # fmt: skip


@pytest.mark.parametrize("topo", FABRICS, ids=_name)
def test_every_pair_is_connected_by_ways_of_one_length_without_circles(topo: LosslessTopo) -> None:
    graph = graph_of(topo)
    far = {port: other for ports in graph.neighbours.values() for port, other in ports}
    tables = {
        switch: {host: (port,) for host, port in graph.next_hops(switch).items()} | graph.equal_ways(switch)
        for switch in topo.switches()
    }
    edge = {host: graph.neighbours[host][0][1] for host in topo.hosts()}
    for source, target in permutations(topo.hosts(), 2):
        at, hops = {edge[source]}, 0
        while at != {target}:
            assert target not in at, "a way that is shorter than another one"
            at, hops = {far[port] for node in at for port in tables[node][target]}, hops + 1
            assert hops <= 5
    assert topo.hosts() == [f"h{number}" for number in range(1, len(topo.hosts()) + 1)]


@pytest.mark.parametrize(
    ("topo", "hosts", "switches", "links"),
    [(Clos(), 16, 12, 32), (Clos(2, 4, 4, 4, 2), 32, 12, 44), (Rail(), 16, 6, 24), (Rail(2, 3, 1, 2), 12, 7, 18),
     (Dragonfly(), 12, 6, 18), (Dragonfly(9, 4, 1, 2), 36, 36, 36 + 54 + 36)],
    ids=_name,
)  # fmt: skip
def test_counts(topo: LosslessTopo, hosts: int, switches: int, links: int) -> None:
    assert (len(topo.hosts()), len(topo.switches()), len(topo.links())) == (hosts, switches, links)


@pytest.mark.parametrize(
    ("arguments", "leaf", "agg", "core"),
    [((2, 2, 4, 2), (4, 2), (2, 2), 2), ((3, 2, 3, "1.5"), (3, 2), (2, 2), 3), ((2, 4, 4, 4, 2), (4, 1), (4, 2), 2),
     ((2, 2, 2, 0.5), (2, 4), (2, 2), 2)],
)  # fmt: skip
def test_a_clos_is_oversubscribed_as_asked_for(
    arguments: tuple[Any, ...], leaf: tuple[int, int], agg: tuple[int, int], core: int
) -> None:
    topo = Clos(*arguments)
    graph = graph_of(topo)
    for switch in topo.switches():
        kinds = Counter(other.rstrip("0123456789") for _, other in graph.neighbours[switch])
        if switch.startswith("leaf"):
            assert (kinds["h"], kinds["agg"]) == leaf
        elif switch.startswith("agg"):
            assert (kinds["leaf"], kinds["core"]) == agg
        else:
            assert kinds == {"agg": core}


def test_ways_between_pods_of_a_clos_are_counted() -> None:
    graph = graph_of(Clos())
    assert len(graph.equal_ways("leaf1")["h16"]) == 2
    assert len(graph.equal_ways("agg1")["h16"]) == 2
    assert graph.equal_ways("core1") == {}
    assert "h2" not in graph.equal_ways("leaf1")
    assert "h5" not in graph.equal_ways("agg1")


def test_a_rail_has_its_own_leaf() -> None:
    topo = Rail()
    graph = graph_of(topo)
    assert topo.gpus(2) == ["h5", "h6", "h7", "h8"]
    assert graph.way("h1", "h5") == ["h1>leaf1:1", "leaf1>h5:1"], "the same rail"
    assert len(graph.equal_ways("leaf1")["h2"]) == 2, "the same server, over the spines"
    assert [graph.neighbours[f"h{number}"][0][1] for number in range(1, 5)] == ["leaf1", "leaf2", "leaf3", "leaf4"]
    with pytest.raises(TopoError, match="server is 0; a whole number, 1 or more"):
        topo.gpus(0)


@pytest.mark.parametrize("topo", [one for one in FABRICS if isinstance(one, Dragonfly)], ids=_name)
def test_minimal_ways_of_a_dragonfly_take_one_cable_between_groups(topo: Dragonfly) -> None:
    graph = graph_of(topo)
    for source, target in permutations(topo.hosts(), 2):
        way = graph.way(source, target)
        assert way is not None
        groups = [port.partition("s")[0] for port in way[1:]]
        assert len(groups) <= 4
        assert sum(one != other for one, other in pairwise(groups)) == (groups[0] != groups[-1])


def test_cables_between_groups_are_divided_evenly() -> None:
    topo = Dragonfly(3, 4, 1)
    between = Counter(
        frozenset((one.partition("s")[0], other.partition("s")[0]))
        for one, other in topo.links()
        if one[0] == other[0] == "g" and one.partition("s")[0] != other.partition("s")[0]
    )
    assert between == {frozenset(pair): 2 for pair in (("g1", "g2"), ("g1", "g3"), ("g2", "g3"))}
    ends = Counter(node for link in topo.links() for node in link)
    assert {ends[switch] for switch in topo.switches()} == {1 + 3 + 1}
    ways = graph_of(topo).equal_ways("g1s1")
    assert "h9" not in ways, "at the end of a cable from group 1"
    assert ways["h12"] == ("g1s1>g1s3:1", "g1s1>g1s4:1"), "a cable away from both"


def test_fabrics_hash_by_default() -> None:
    assert [kind().ways for kind in (Clos, Rail, Dragonfly, LeafSpine)] == [LeafSpine(ways="hash").ways] * 4


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Clos(2, 2, 4, 3), "4 hosts at a leaf with oversubscription 3 need 4/3 uplinks, .*hosts=3 or hosts=6"),
        (lambda: Clos(2, 2, 1, 2), "need 1/2 uplinks.*; take hosts=2, or oversubscription=1"),
        (lambda: Clos(2, 3, 4, 2, 2), "3 leaves below .* core_oversubscription 2 need 3/2 .* leaves=2 or leaves=4"),
        (lambda: Clos(oversubscription=0), "oversubscription is 0; a number above zero is expected, such as 1"),
        (lambda: Clos(oversubscription="twice"), "oversubscription is twice; a number above zero"),
        (lambda: Clos(1), "pods is 1; a whole number, 2 or more"),
        (lambda: Rail(spines=0), "spines is 0; a whole number, 1 or more"),
        (lambda: Dragonfly(4, 2), "have 2 for 3 groups, which cannot be divided evenly; take groups=2 or 3"),
        (lambda: Dragonfly(1), "groups is 1; a whole number, 2 or more"),
        (lambda: Dragonfly(3, 2, 2, 0), "cables is 0; a whole number, 1 or more"),
    ],
)  # fmt: skip
def test_sizes_that_do_not_fit_are_refused_with_the_way_out(make: Any, message: str) -> None:
    with pytest.raises(TopoError, match=message):
        make()


@pytest.mark.parametrize("cost", [0, -1, "3", 1.5])
def test_a_cost_that_is_none_is_refused(cost: object) -> None:
    topo = LeafSpine()
    with pytest.raises(Exception, match=r"addLink\(leaf1, leaf2\): cost is .*; write a whole number, 1 or more"):
        topo.addLink("leaf1", "leaf2", cost=cost)


def test_a_way_that_costs_less_is_the_shorter_one() -> None:
    graph = Graph(forwarding={"s1", "s2", "s3"})
    graph.join("h1", "h1:1", "s1", "s1:1")
    graph.join("s1", "s1:2", "s3", "s3:1", 5)
    graph.join("s1", "s1:3", "s2", "s2:1")
    graph.join("s2", "s2:2", "s3", "s3:2")
    graph.join("h2", "h2:1", "s3", "s3:3")
    assert graph.way("h1", "h2") == ["h1:1", "s1:3", "s2:2", "s3:3"]
    assert graph.equal_ways("s1") == {}
