"""The orders for switches: queues, learned forwarding, links, equal ways, and no frame round a loop."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controllers.leaf import SETTLE_NS, Leaves
from controllers.orders import QUEUES, SOURCES, TO_CONTROLLER, Orders, Replace, Rule, Send
from testbed.frames import Mac
from testbed.frames.lldp import ChassisId, Lldpdu, LldpError, LldpFrame, PortId, parse
from tests.unit.controllers.fake_switches import End, FakeSwitches, frame, mac_of

PORTS = {n: (f"s-eth{n}", True, f"02:00:00:00:0f:0{n}") for n in (1, 2, 3)}
A, B, ALL = "02:00:00:00:00:0a", "02:00:00:00:00:0b", "ff:ff:ff:ff:ff:ff"
GROUP = "01:80:c2:00:00:03"


def leaf_spine(leaves: int = 2, spines: int = 2, hosts: int = 2) -> FakeSwitches:
    """Return a fabric: spines are switches 1, 2, ..., and ports of leaves lead to the spines first."""
    ports = {number: leaves for number in range(1, spines + 1)}
    ports |= {spines + number: spines + hosts for number in range(1, leaves + 1)}
    cables = [
        ((spines + leaf, spine), (spine, leaf)) for leaf in range(1, leaves + 1) for spine in range(1, spines + 1)
    ]
    return FakeSwitches(ports, cables)


def started(fabric: FakeSwitches) -> FakeSwitches:
    fabric.connect(*fabric.rules)
    fabric.settle()
    return fabric


def matching(rules: list[Rule], table: int, **fields: Any) -> Rule:
    """Return the rule of highest priority whose match is in the fields."""
    fitting = [rule for rule in rules if rule.table == table and set(rule.match) <= set(fields.items())]
    return max(fitting, key=lambda rule: rule.priority)


def rules_of(orders: Orders) -> list[Rule]:
    return [order for _, order in orders if isinstance(order, Rule)]


def test_every_dscp_gets_the_queue_of_its_class_and_what_is_not_ip_that_of_its_tag() -> None:
    rules = rules_of(Leaves().connected(1, PORTS, 0))
    for dscp in range(64):
        for kind in (0x0800, 0x86DD):
            tagged = {"vlan_vid": (0x1000, 0x1000), "vlan_pcp": 7}
            rule = matching(rules, QUEUES, eth_type=kind, ip_dscp=dscp, **tagged if dscp >= 8 else {})
            assert (rule.queue or 0) == dscp // 8 and rule.goto == SOURCES
    for pcp in range(8):
        rule = matching(rules, QUEUES, vlan_vid=(0x1000, 0x1000), vlan_pcp=pcp)
        assert (rule.queue or 0) == pcp and rule.goto == SOURCES
    assert matching(rules, SOURCES, eth_type=0x88CC, eth_dst=GROUP).outputs == (TO_CONTROLLER,)
    assert matching(rules, SOURCES, eth_dst=("01:80:c2:00:00:00", "ff:ff:ff:ff:ff:f0")).outputs == ()


def test_other_mappings_are_a_setting() -> None:
    rules = rules_of(Leaves({26: 3}).connected(1, PORTS, 0))
    assert matching(rules, QUEUES, eth_type=0x0800, ip_dscp=26).queue == 3
    assert matching(rules, QUEUES, eth_type=0x0800, ip_dscp=48).queue is None


def test_no_port_forwards_until_it_is_known_what_it_leads_to() -> None:
    fabric = leaf_spine()
    fabric.connect(1, 2, 3, 4)
    assert fabric.leaves.facts(1) is not None and fabric.leaves.facts(3) is None
    assert fabric.send((3, 3), ALL) == [] and fabric.send((3, 3), mac_of((4, 3))) == []
    assert fabric.leaves.deadline_ns == SETTLE_NS // 2
    fabric.now_ns = SETTLE_NS // 2
    again = fabric.leaves.poll(fabric.now_ns)
    assert {(number, order.output) for number, order in again if isinstance(order, Send)} == set(fabric.stations)
    assert fabric.send((3, 3), ALL) == [] and fabric.leaves.deadline_ns == SETTLE_NS
    fabric.settle()
    assert fabric.leaves.deadline_ns is None
    assert fabric.send((3, 3), ALL) == [(3, 4), (4, 3), (4, 4)]
    facts = fabric.leaves.facts(3)
    assert facts is not None and facts.links == ((1, "s1", 1), (2, "s2", 1)) and facts.hosts == ((mac_of((3, 3)), 3),)


def test_a_station_is_learned_at_its_edge_for_all_switches_and_then_they_forward_by_themselves() -> None:
    fabric = started(leaf_spine())
    one, other = (3, 3), (4, 4)
    assert fabric.send(one, mac_of(other)) == [(3, 4), (4, 3), (4, 4)]
    assert fabric.send(other, mac_of(one)) == [one]
    assert fabric.send(one, mac_of(other)) == [other]
    assert fabric.leaves.counters == {"lldp_parsed": 4, "learned": 2}
    ways = [fabric.groups[number] for number in (1, 3)]
    to_4 = next(rule.group for rule in fabric.rules[3].values() if rule.match == (("eth_dst", mac_of(other)),))
    assert to_4 is not None and ways[1][to_4].ports == (1, 2) and ways[0][to_4].ports == (2,)
    assert ways[1][to_4].seed != ways[0][to_4].seed


def test_a_station_that_has_moved_is_found_again() -> None:
    fabric = started(leaf_spine())
    fabric.send((3, 3), ALL)
    mac = mac_of((3, 3))
    fabric.obey(fabric.leaves.frame(4, 3, frame(mac, ALL)))
    assert fabric.leaves.counters["moved"] == 1
    assert fabric.send((3, 4), mac) == [(4, 3)]
    learned = [
        rule
        for rules in fabric.rules.values()
        for rule in rules.values()
        if rule.is_learned and rule.match[1][1] == mac
    ]
    assert [rule.match[0] for rule in learned] == [("in_port", 3)]
    fabric.obey(fabric.leaves.port(4, 3, None, fabric.now_ns))
    facts = fabric.leaves.facts(4)
    assert facts is not None and facts.hosts == () and len(facts.ports) == 3
    assert not [rule for rule in fabric.rules[3].values() if rule.match == (("eth_dst", mac),)]


def test_a_link_that_fails_elsewhere_is_one_order_for_each_group_that_went_over_it() -> None:
    fabric = started(leaf_spine(3))
    for station in fabric.stations:
        fabric.send(station, ALL)
    before = {number: dict(groups) for number, groups in fabric.groups.items()}
    far = fabric.leaves.port(1, 2, ("s1-eth2", False, PORTS[1][2]), fabric.now_ns)  # spine 1 has lost leaf 2, switch 4
    replaced = {number: order.group.ports for number, order in far if isinstance(order, Replace)}
    assert replaced == {1: (1, 3), 3: (2,), 4: (2,), 5: (2,)}
    assert not [order for number, order in far if number in (3, 5) and isinstance(order, Rule) and order.group]
    assert fabric.leaves.port(4, 1, ("s4-eth1", False, PORTS[1][2]), fabric.now_ns) == []
    fabric.obey(far)
    fabric.down |= {(1, 2), (4, 1)}
    assert fabric.send((3, 3), mac_of((4, 3))) == [(4, 3)] and (3, 2) in fabric.passed
    fabric.plug((1, 2))
    assert fabric.groups == before


def test_a_switch_that_disconnects_goes_on_and_starts_anew_when_it_is_back() -> None:
    fabric = started(leaf_spine())
    for station in fabric.stations:
        fabric.send(station, ALL)
    assert fabric.leaves.disconnected(4, fabric.now_ns) == [] and fabric.leaves.facts(4) is None
    assert fabric.send((3, 3), mac_of((4, 3))) == [(4, 3)]
    facts = fabric.leaves.facts(1)
    assert facts is not None and facts.links == ((1, "s3", 1),)
    fabric.rules[4], fabric.groups[4] = {}, {}
    fabric.connect(4)
    fabric.settle()
    assert fabric.send((3, 3), mac_of((4, 3))) == [(3, 4), (4, 3), (4, 4)]
    assert fabric.send((4, 3), mac_of((3, 3))) == [(3, 3)]
    assert fabric.send((3, 3), mac_of((4, 3))) == [(4, 3)]


def test_the_next_controller_learns_anew_what_switches_already_know() -> None:
    fabric = started(leaf_spine())
    for station in fabric.stations:
        fabric.send(station, ALL)
    groups = {number: dict(known) for number, known in fabric.groups.items()}
    fabric.leaves = Leaves(seed=1)
    fabric.connect(*fabric.rules)
    assert fabric.send((3, 3), mac_of((4, 3))) == [(4, 3)], "rules stay"
    fabric.settle()
    assert fabric.groups == groups
    assert fabric.send((3, 3), mac_of((4, 3))) == [(4, 3)] and fabric.leaves.counters["learned"] == 1


def test_switches_that_are_away_and_lead_nowhere_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("controllers.leaf.MOST_AWAY", 1)
    fabric = started(leaf_spine())
    alone = Leaves()
    alone.connected(7, PORTS, 0)
    alone.disconnected(7, 0)
    assert alone.numbers == []
    fabric.leaves.disconnected(1, fabric.now_ns)
    fabric.leaves.disconnected(2, fabric.now_ns)
    assert fabric.leaves.numbers == [2, 3, 4]


@settings(max_examples=20)
@given(st.data())
def test_whatever_is_joined_broadcasts_arrive_once_and_frames_go_the_shortest_way(data: st.DataObject) -> None:
    many = data.draw(st.integers(2, 5))
    pairs = [(one, other) for one in range(1, many + 1) for other in range(one + 1, many + 1)]
    chosen = data.draw(st.lists(st.sampled_from(pairs), min_size=many - 1, max_size=9))
    ports = dict.fromkeys(range(1, many + 1), 0)
    cables: list[tuple[End, End]] = []
    for one, other in chosen:
        ports[one] += 1
        ports[other] += 1
        cables.append(((one, ports[one]), (other, ports[other])))
    fabric = FakeSwitches({number: count + 1 for number, count in ports.items()}, cables)
    started(fabric)
    for step in range(3):
        joined = _distances(fabric)
        near = {
            station: sorted(end for end in fabric.stations if end != station and end[0] in joined[station[0]])
            for station in fabric.stations
        }
        for station in fabric.stations:
            assert fabric.send(station, ALL) == near[station]
        for source, target in permutations(fabric.stations, 2):
            is_near = target in near[source]
            assert fabric.send(source, mac_of(target)) == ([target] if is_near else near[source])
            assert not is_near or len(fabric.passed) == joined[source[0]][target[0]] + 1
        change = data.draw(st.sampled_from(sorted(fabric.cables)))
        fabric.plug(change) if change in fabric.down else fabric.pull(change)
        fabric.settle()
        if step == 0:
            number = data.draw(st.integers(1, many))
            fabric.leaves.disconnected(number, fabric.now_ns)
            fabric.connect(number)
            fabric.settle()


def _distances(fabric: FakeSwitches) -> dict[int, dict[int, int]]:
    """Return how many cables lie between switches, for those that are joined."""
    found: dict[int, dict[int, int]] = {}
    for start in fabric.rules:
        reached, border = {start: 0}, [start]
        while border:
            one = border.pop(0)
            for (number, port), (far, _) in fabric.cables.items():
                if number == one and (number, port) not in fabric.down and far not in reached:
                    reached[far] = reached[one] + 1
                    border.append(far)
        found[start] = reached
    return found


@pytest.mark.parametrize(
    ("number", "port", "data", "counter"),
    [
        (1, 1, b"short", "dropped too_short"),
        (9, 1, frame(A, B), "dropped no_switch"),
        (1, 1, frame("03:00:00:00:00:01", A), "dropped group_source"),
        (1, 1, frame(A, B), "dropped no_edge"),
        (1, 9, frame(A, B), "dropped no_edge"),
        (1, 1, frame(A, GROUP, 0x88CC), "lldp_of_others"),
    ],
)
def test_what_cannot_be_learned_from_is_counted(number: int, port: int, data: bytes, counter: str) -> None:
    leaves = Leaves()
    leaves.connected(1, PORTS, 0)
    assert leaves.frame(number, port, data) == []
    assert leaves.counters == {counter: 1}


def hello_of(orders: Orders, output: int) -> bytes:
    return next(order.frame for _, order in orders if isinstance(order, Send) and order.output == output)


def test_the_frames_by_which_switches_find_each_other_have_a_group_of_their_own() -> None:
    hello = hello_of(Leaves().connected(2, PORTS, 0), 3)
    assert hello[:6] == Mac.parse(GROUP).octets
    with pytest.raises(LldpError, match="is refused: DCBX uses 01:80:c2:00:00:0e alone"):
        parse(hello)


@pytest.mark.parametrize(
    ("chassis", "port"), [("xoff:1", "2"), ("xoff:zz", "2"), ("xoff:2", "77"), ("xoff:2", "x"), ("a switch", "1")]
)
def test_lldp_of_others_makes_no_link(chassis: str, port: str) -> None:
    leaves = Leaves()
    leaves.connected(1, PORTS, 0)
    leaves.connected(2, PORTS, 0)
    pdu = Lldpdu(ChassisId.local(chassis), PortId.interface(port), 120)
    assert leaves.frame(1, 1, Mac.parse(GROUP).octets + LldpFrame(Mac.parse(A), pdu).encode()[6:]) == []
    assert leaves.counters == {"lldp_of_others": 1}


def test_a_frame_of_a_switch_makes_no_link_of_itself_or_with_another_port() -> None:
    """A station can neither change the port in a frame that it was sent, nor send it back to its own switch."""
    leaves = Leaves()
    leaves.connected(1, PORTS, 0)
    hello = hello_of(leaves.connected(2, PORTS, 0), 3)
    leaves.frame(2, 1, hello)
    leaves.frame(1, 1, hello.replace(b"\x053", b"\x052"))
    assert leaves.counters == {"lldp_of_others": 2}
    assert Leaves().connected(2, PORTS, 0) != leaves.connected(2, PORTS, 0), "each controller signs by its own secret"


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(1, 3), st.binary(max_size=80)), max_size=20))
def test_any_frames_are_taken_or_counted(frames: list[tuple[int, int, bytes]]) -> None:
    leaves = Leaves()
    leaves.connected(1, PORTS, 0)
    leaves.connected(2, PORTS, 0)
    leaves.poll(SETTLE_NS)
    leaves.poll(SETTLE_NS)
    for number, port, data in frames:
        for _, order in leaves.frame(number, port, data):
            assert not isinstance(order, Rule) or port not in order.outputs or order.match[0][0] == "eth_dst"
    assert leaves.facts(1) is not None


def test_the_table_of_stations_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("controllers.leaf.MOST_HOSTS", 2)
    fabric = started(FakeSwitches({1: 2}, []))
    for n in range(4):
        fabric.obey(fabric.leaves.frame(1, 1, frame(f"02:00:00:00:01:0{n}", ALL)))
    one = fabric.leaves.facts(1)
    assert one is not None and len(one.hosts) == 2
    assert fabric.leaves.counters["not_learned table_full"] == 2


def test_groups_to_switches_whose_numbers_collide_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("controllers.leaf.crc32", lambda octets: 8)
    fabric = started(leaf_spine())
    assert {number: sorted(groups) for number, groups in fabric.groups.items()} == {
        1: [6, 7],
        2: [6, 7],
        3: [7],
        4: [6],
    }
