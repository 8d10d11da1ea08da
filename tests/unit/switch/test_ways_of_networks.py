"""Equal ways without a network: polarisation, and the way of a flow."""

from __future__ import annotations

from typing import Any

import pytest

from testbed.errors import UsageError
from testbed.net.build.flow_path import FlowNames, in_topology
from testbed.net.fabric.routes import Graph
from testbed.switch.ways.model import Fields, Group
from testbed.switch.ways.network import Switch, Way
from testbed.switch.ways.path import by_frame, path
from testbed.switch.ways.polarisation import Polarisation, polarisation
from testbed.switch.ways.settings import By, Ways
from xoff import Chain, Clos, Dragonfly, FatTree, LeafSpine, LosslessTopo, Star

UDP = FlowNames("udp", 40_000)


def _name(value: object) -> str:
    return type(value).__name__


def found_in(topo: LosslessTopo, seed: int = 1) -> Polarisation | None:
    return in_topology(topo, "h1", "h2", UDP, seed)[1]


@pytest.mark.parametrize("k", [4, 6])
def test_one_seed_for_all_leaves_a_fat_tree_one_way_for_each_aggregation_switch(k: int) -> None:
    found = found_in(FatTree(k, ways=Ways(seed=7)))
    assert found is not None
    assert (found.ways, found.carrying) == (k * (k // 2) ** 2, k * k // 2)
    assert found.switches == tuple(f"agg{number}" for number in range(1, k * k // 2 + 1))
    assert found.before.startswith("edge")
    assert f"agg1 and {k * k // 2 - 1} others hash the same fields" in str(found)
    assert f"{found.carrying} of their {found.ways} ways can carry frames and the others none" in str(found)


def test_seeds_of_their_own_other_fields_or_one_tier_do_not_polarise() -> None:
    for topo in (FatTree(4), FatTree(4, ways="resilient"), LeafSpine(4, 4, 4, ways=Ways(seed=7)), Clos(ways="spray")):
        assert found_in(topo) is None
    assert found_in(FatTree(4, ways="host number")) is None


@pytest.mark.parametrize(
    ("edge", "agg", "ways", "carrying"),
    [
        (Ways(seed=7), Ways(seed=8), 0, 0),
        (Ways(seed=7), Ways(seed=7, fields=("source", "destination")), 0, 0),
        (Ways(seed=7), Ways("flowlet", seed=7), 0, 0),
        (Ways(seed=7), Ways("resilient", seed=7, buckets=6), 16, 8),  # both by the lowest bit
        (Ways("resilient", seed=7, buckets=128), Ways("resilient", seed=7, buckets=128), 16, 8),
        (Ways("resilient", seed=7, buckets=3), Ways("resilient", seed=7, buckets=4), 0, 0),
    ],
)
def test_which_hashes_can_come_is_computed_from_the_tables(edge: Ways, agg: Ways, ways: int, carrying: int) -> None:
    topo = FatTree(4)
    for switch in topo.switches():
        if not switch.startswith("core"):
            topo.nodeInfo(switch)["ways"] = edge if switch.startswith("edge") else agg
    found = found_in(topo)
    assert (ways, carrying) == (0, 0) if found is None else (found.ways, found.carrying) == (ways, carrying)


def three_tiers(first: int, second: int, third: int) -> dict[str, Switch]:
    """Return three switches in a row, with so many cables each to the next one, and one station at the end."""
    settings = Ways(seed=3)
    cables = {"a": ("b", first), "b": ("c", second), "c": ("h", third)}
    return {
        name: Switch(settings, 3, {"h": tuple(Way(f"{name}{number}", far) for number in range(many))})
        for name, (far, many) in cables.items()
    }


@pytest.mark.parametrize(
    ("sizes", "found"),
    [((2, 2, 2), None), ((2, 3, 4), None)],
)
def test_parallel_cables_bring_all_hashes_to_the_next_switch(sizes: Any, found: None) -> None:
    assert polarisation(three_tiers(*sizes), ["a"]) is found


def test_what_another_switch_sends_makes_up_for_it() -> None:
    settings = Ways(seed=3)
    fork = (Way("a0", "b"), Way("a1", "c"))
    switches = {
        "a": Switch(settings, 3, {"h": fork}),
        "b": Switch(settings, 3, {"h": (Way("b0", "d"), Way("b1", "d"))}),
        "c": Switch(settings, 3, {"h": (Way("c0", "d"), Way("c1", "d"))}),
        "d": Switch(settings, 3, {"h": (Way("d0", "h"),)}),
    }
    found = polarisation(switches, ["a"])
    assert found is not None and (found.switches, found.ways, found.carrying) == (("b", "c"), 4, 2)
    assert polarisation(switches, ["a", "b", "c"]) is None, "stations at b and c send frames with any hash"
    switches["e"] = Switch(None, 0, {"h": (Way("e0", "b"),)})
    found = polarisation(switches, ["a", "e"])
    assert found is not None and (found.switches, found.ways, found.carrying) == (("c",), 2, 1)
    assert "c hashes the same fields with the same seed as a switch before, a, so that 1 of its 2 ways" in str(found)


def test_a_circle_of_ways_is_no_problem() -> None:
    settings = Ways(seed=3)
    switches = {
        name: Switch(settings, 3, {"h": (Way(f"{name}0", other), Way(f"{name}1", other))})
        for name, other in (("a", "b"), ("b", "a"))
    }
    assert polarisation(switches, ["a"]) is None


@pytest.mark.parametrize("topo", [FatTree(4), Clos(3, 2, 4, 2), Dragonfly(3, 4, 1), LeafSpine(3, 5, 2)], ids=_name)
def test_the_way_of_a_flow_is_that_of_the_groups(topo: LosslessTopo) -> None:
    graph = Graph.of_topo(topo)
    far = {port: other for ports in graph.neighbours.values() for port, other in ports}
    last = topo.hosts()[-1]
    for port in range(40_000, 40_006):
        found, _ = in_topology(topo, "h1", last, FlowNames("udp", port), 5)
        at = far[found.ports[0]]
        for hop in found.hops:
            assert at == hop.switch
            ways = graph.equal_ways(at).get(last, (graph.next_hops(at)[last],))
            seed = 0 if hop.hashed is None else hop.hashed.seed
            member = Group(Ways(), seed, [1] * len(ways), 1, 1).choose(found.fields.words())
            assert member is not None and hop.chosen is not None
            assert hop.chosen.port == ways[member if len(ways) > 1 else 0]
            at = far[hop.chosen.port]
        assert at == last and found.is_known and found.nodes[-1] == last


def test_the_explanation_has_fields_hash_ways_and_choice() -> None:
    found, _ = in_topology(FatTree(4), "h1", "h9", FlowNames("udp", 40_000, 4791), 1)
    text = str(found)
    assert text.startswith("h1 -> h9: h1 -> edge1 -> agg")
    assert "source 10.0.0.1, destination 10.0.0.9, protocol 17, source port 40000, destination port 4791" in text
    assert text.count("fields:") == 1, "the same fields are shown once"
    hop = found.hops[0]
    assert hop.hashed is not None and hop.chosen is not None
    assert f"hash {hop.hashed.value:#010x} with seed {hop.hashed.seed:#010x}; modulo 2 it is" in text
    assert f"  * {hop.chosen.port} to {hop.chosen.neighbour}\n" in text


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("spray", "has 2 ways, and by the rule 'spray' each frame takes the next one"),
        ("random", "drawn by chance"),
        ("least loaded", "each frame takes the least loaded one"),
        ("flowlet", "a flow takes one that is drawn by chance, again after each silence of 20us"),
        ("adaptive flowlet", "a flow takes the least loaded one, again after each silence of 20us"),
    ],
)
def test_a_rule_by_which_a_flow_has_no_way_is_said_instead(rule: str, said: str) -> None:
    found, _ = in_topology(LeafSpine(ways=rule), "h1", "h3", UDP)
    assert said in str(found) and "h1 -> leaf1 -> ?" in str(found)
    assert not found.is_known and found.ports == ["h1-eth0"]


def test_the_number_of_a_host_and_the_topologys_own_choice_are_reasons() -> None:
    found, _ = in_topology(LeafSpine(ways="host number"), "h1", "h4", UDP)
    assert "leaf1-eth4 to spine2: h4 is station number 3, and modulo 2 ways that is 1" in str(found)
    found, _ = in_topology(FatTree(4, ways="host number"), "h1", "h16", UDP)
    assert "the topology sends frames to h16 by agg2" in str(found)
    assert "it is the only shortest way" in str(in_topology(Chain(3), "h1", "h3", UDP)[0])


def test_lost_ways_and_weights_are_shown() -> None:
    ways = (Way("s-eth1", "a", 2), Way("s-eth2", "b", 1, is_there=False))
    switches = {"s": Switch(Ways(), 1, {"h2": ways})}
    text = str(path(switches, "h1", "h2", ("h1-eth0", "s"), Fields()))
    assert "* s-eth1 to a, weight 2" in text and "s-eth2 to b, lost: no carrier" in text
    none = {"s": Switch(Ways(), 1, {"h2": (Way("x", "a", is_there=False), Way("y", "b", is_there=False))})}
    found = path(none, "h1", "h2", ("h1-eth0", "s"), Fields())
    assert "has lost all of its 2 ways" in str(found) and not found.is_known
    assert "has no way to h9" in str(path(none, "h1", "h9", ("h1-eth0", "s"), Fields()))


def test_a_roce_flow_has_the_ports_of_its_queue_pair() -> None:
    fields = in_topology(LeafSpine(), "h1", "h3", FlowNames())[0].fields
    assert (fields.source_port, fields.destination_port, fields.queue_pair) == (0xC100, 4791, 0x100)
    assert fields.source_mac == bytes((0, 0, 0, 0, 0, 1))
    fields = in_topology(LeafSpine(), "h1", "h3", FlowNames(queue_pair=0x4005))[0].fields
    assert (fields.source_port, fields.queue_pair) == (0xC005, 0x4005)


def test_each_flow_of_udp_has_a_destination_port_of_its_own() -> None:
    for number in (0, 1, 7):
        fields = in_topology(LeafSpine(), "h1", "h3", FlowNames("udp", 40_000, number=number))[0].fields
        assert (fields.source_port, fields.destination_port) == (40_000, 20_000 + number)


@pytest.mark.parametrize("rule", ["spray", "random", "least loaded", "hash", "flowlet", "host number"])
def test_the_switches_that_give_each_frame_a_way_are_found_on_all_ways(rule: str) -> None:
    graph, ways = Graph.of_topo(topo := FatTree(4)), Ways(rule)
    switches = graph.switches(lambda name: ways, 1)
    found = by_frame(switches, graph.neighbours["h1"][0][1], topo.hosts()[-1])
    is_by_frame = rule in ("spray", "random", "least loaded")
    assert found == dict.fromkeys(["edge1", "agg1", "agg2"] if is_by_frame else [], By(rule))
    assert not by_frame(switches, "edge1", "h2")  # both are at edge1, which has one way


@pytest.mark.parametrize(
    ("what", "message"),
    [
        (lambda: in_topology(LeafSpine(), "h1", "h9", UDP), "there is no host h9 in this network; .*h1"),
        (lambda: in_topology(LeafSpine(), "leaf1", "h2", UDP), "there is no host leaf1"),
        (lambda: in_topology(LeafSpine(), "h1", "h1", UDP), "from h1 to itself takes no way"),
        (lambda: in_topology(Star(3), "h1", "h2", UDP), "Star has no lossless switches"),
        (lambda: FlowNames("udp"), "source port of udp flows; give one, such as 50000"),
        (lambda: FlowNames("upd"), "there is no transport upd; did you mean udp"),
        (lambda: FlowNames(source_port=70_000), "source_port is 70000; a whole number below 65536"),
        (lambda: FlowNames("udp", 1, queue_pair=3), "queue_pair is 3, but udp has none"),
        (lambda: FlowNames("roce", number=3), "number is 3, but all RoCE flows have one port"),
        (lambda: FlowNames("udp", 1, 20_003, number=3), "number is 3, but destination_port has the port"),
    ],
)
def test_what_cannot_be_asked_gets_one_line(what: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        what()


def test_a_way_on_which_leaves_choose_is_refused_and_a_single_one_is_not() -> None:
    with pytest.raises(UsageError, match="leaf1 chooses among equal ways to h3 as its controller says"):
        in_topology(LeafSpine(controller="unix:/run/controller"), "h1", "h3", UDP)
    found, _ = in_topology(LeafSpine(spines=1, controller="unix:/run/controller"), "h1", "h3", UDP)
    assert found.nodes == ["h1", "leaf1", "spine1", "leaf2", "h3"]


def test_a_controller_is_named_by_its_address() -> None:
    with pytest.raises(UsageError, match="controller is 'c0'; write 'unix:/run/controller'"):
        LeafSpine(controller="c0")
