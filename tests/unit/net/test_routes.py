"""Forwarding: trees for broadcasts, and shortest ways for stations, with and without loops."""

from __future__ import annotations

import pytest

from testbed.net.fabric.routes import Graph


def network(*cables: str, switches: str) -> Graph:
    """Return the graph of cables that are written "s1-s2"; the port at an end is called node:number."""
    graph = Graph(forwarding=set(switches.split()))
    counts: dict[str, int] = {}
    for cable in cables:
        ends = cable.split("-")
        for end in ends:
            counts[end] = counts.get(end, 0) + 1
        one, other = ends
        graph.join(one, f"{one}:{counts[one]}", other, f"{other}:{counts[other]}")
    return graph


STAR = network("h1-s1", "h2-s1", "h3-s1", switches="s1")
RING = network("h1-s1", "h2-s2", "h3-s3", "h4-s4", "s1-s2", "s2-s3", "s3-s4", "s4-s1", switches="s1 s2 s3 s4")
TWICE = network("h1-s1", "s1-s2", "s1-s2", "h2-s2", switches="s1 s2")
APART = network("h1-s1", "h2-s2", "s1-r", "r-s2", switches="s1 s2")


def test_a_tree_has_no_loop_and_floods_everywhere() -> None:
    assert not STAR.has_loop()
    assert STAR.tree("s1") == {"s1:1", "s1:2", "s1:3"}


def test_every_station_of_a_star_is_one_port_away() -> None:
    assert STAR.next_hops("s1") == {"h1": "s1:1", "h2": "s1:2", "h3": "s1:3"}


def test_a_ring_floods_along_a_tree_only() -> None:
    assert RING.has_loop()
    between = {
        switch: {port for port in RING.tree(switch) if port != f"{switch}:1"} for switch in sorted(RING.forwarding)
    }
    assert sum(len(ports) for ports in between.values()) == 2 * 3  # three cables of four, both ends
    assert all(f"{switch}:1" in RING.tree(switch) for switch in RING.forwarding), "hosts always hear broadcasts"


def test_frames_in_a_ring_take_the_shorter_way() -> None:
    assert RING.next_hops("s1")["h2"] == "s1:2"
    assert RING.next_hops("s1")["h4"] == "s1:3"
    assert RING.next_hops("s1")["h1"] == "s1:1"


def test_of_equally_short_ways_the_stations_number_chooses_always_the_same() -> None:
    opposite = {switch: RING.next_hops(switch)["h3"] for switch in ("s1",)}
    assert opposite["s1"] in {"s1:2", "s1:3"}
    assert RING.next_hops("s1") == RING.next_hops("s1")
    ways = {TWICE.next_hops("s1")["h2"], TWICE.next_hops("s2")["h1"]}
    assert all(way.endswith((":2", ":3", ":1")) for way in ways)


def test_two_parallel_cables_are_a_loop_and_only_one_floods() -> None:
    assert TWICE.has_loop()
    assert len(TWICE.tree("s1") & {"s1:2", "s1:3"}) == 1
    one, other = TWICE.tree("s1") & {"s1:2", "s1:3"}, TWICE.tree("s2") & {"s2:1", "s2:2"}
    assert int(one.pop()[-1]) - 1 == int(other.pop()[-1]), "both ends of the same cable"


def test_a_router_parts_two_networks() -> None:
    assert not APART.has_loop()
    assert APART.next_hops("s1") == {"h1": "s1:1", "r": "s1:2"}
    assert "h1" not in APART.next_hops("s2")


def test_a_topology_may_choose_the_way() -> None:
    graph = network("h1-s1", "h2-s2", "h3-s3", "s1-s2", "s2-s3", "s3-s1", switches="s1 s2 s3")
    graph.chosen = lambda switch, host: "s2" if (switch, host) == ("s1", "h3") else None
    assert graph.next_hops("s1")["h3"] == "s1:2"
    assert graph.next_hops("s2")["h3"] == "s2:3"


@pytest.mark.parametrize("graph", [STAR, RING, TWICE, APART])
def test_following_the_ways_always_arrives(graph: Graph) -> None:
    by_port = {port: other for ports in graph.neighbours.values() for port, other in ports}
    for switch in graph.forwarding:
        for station in graph.next_hops(switch):
            at, steps = switch, 0
            while at != station:
                at = by_port[graph.next_hops(at)[station]]
                steps += 1
                assert steps <= len(graph.forwarding) + 1


def test_a_way_has_the_port_that_each_switch_chooses() -> None:
    assert STAR.way("h1", "h3") == ["h1:1", "s1:3"]
    assert RING.way("h1", "h2") == ["h1:1", "s1:2", "s2:1"]
    for source, target in (("h1", "h3"), ("h3", "h1"), ("h2", "h4")):
        way = RING.way(source, target)
        assert way is not None
        assert way[0] == f"{source}:1"
        assert [RING.next_hops(port[:2])[target] for port in way[1:]] == way[1:]


def test_through_a_router_no_way_is_known() -> None:
    assert APART.way("h1", "h2") is None
    assert APART.way("h1", "r") == ["h1:1", "s1:2"]


def test_a_shortest_way_goes_through_routers_too() -> None:
    assert APART.shortest("h1", "h2") == ["h1:1", "s1:2", "r:2", "s2:1"]
    assert RING.shortest("h1", "h2") == RING.way("h1", "h2")
    assert APART.shortest("h1", "h1") == []
    assert APART.shortest("h1", "nobody") == []


def test_a_way_that_a_topology_lets_run_in_a_circle_ends() -> None:
    ring = network("h1-s1", "h2-s2", "h3-s3", "s1-s2", "s2-s3", "s3-s1", switches="s1 s2 s3")
    ring.chosen = lambda switch, host: {"s1": "s2", "s2": "s3", "s3": "s1"}[switch] if host == "h2" else None
    assert ring.way("h1", "h2") is None
    assert ring.way("h1", "h3") == ["h1:1", "s1:3", "s3:1"]
