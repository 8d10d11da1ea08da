"""The rules for switches: queues, learned forwarding, their links."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controllers.leaf import FLOOD, FORWARD, QUEUES, TO_CONTROLLER, Leaves, RemoveHost, Rule, Send
from testbed.frames import Mac
from testbed.frames.lldp import ChassisId, Lldpdu, LldpError, LldpFrame, PortId, parse

PORTS = {n: (f"s-eth{n}", True, f"02:00:00:00:0f:0{n}") for n in (1, 2, 3)}
A, B, ALL = "02:00:00:00:00:0a", "02:00:00:00:00:0b", "ff:ff:ff:ff:ff:ff"
GROUP = "01:80:c2:00:00:03"


def frame(source: str, destination: str, kind: int = 0x0800) -> bytes:
    return Mac.parse(destination).octets + Mac.parse(source).octets + kind.to_bytes(2) + bytes(46)


@pytest.fixture
def leaves() -> Leaves:
    made = Leaves()
    made.connected(1, PORTS, "s1")
    made.connected(2, PORTS, "s2")
    return made


def matching(rules: list[Rule], table: int, **fields: Any) -> Rule:
    """Return the rule of highest priority whose match is in the fields."""
    fitting = [rule for rule in rules if rule.table == table and set(rule.match) <= set(fields.items())]
    return max(fitting, key=lambda rule: rule.priority)


def test_every_dscp_gets_the_queue_of_its_class_and_what_is_not_ip_that_of_its_tag() -> None:
    rules = Leaves().base_rules()
    for dscp in range(64):
        for kind in (0x0800, 0x86DD):
            tagged = {"vlan_vid": (0x1000, 0x1000), "vlan_pcp": 7}
            rule = matching(rules, QUEUES, eth_type=kind, ip_dscp=dscp, **tagged if dscp >= 8 else {})
            assert (rule.queue or 0) == dscp // 8 and rule.goto == FORWARD
    for pcp in range(8):
        rule = matching(rules, QUEUES, vlan_vid=(0x1000, 0x1000), vlan_pcp=pcp)
        assert (rule.queue or 0) == pcp and rule.goto == FORWARD
    assert matching(rules, FORWARD).outputs == (TO_CONTROLLER, FLOOD)
    assert matching(rules, FORWARD, eth_type=0x88CC, eth_dst="01:80:c2:00:00:03").outputs == (TO_CONTROLLER,)
    assert matching(rules, FORWARD, eth_dst=("01:80:c2:00:00:00", "ff:ff:ff:ff:ff:f0")).outputs == ()


def test_other_mappings_are_a_setting() -> None:
    rules = Leaves({26: 3}).base_rules()
    assert matching(rules, QUEUES, eth_type=0x0800, ip_dscp=26).queue == 3
    assert matching(rules, QUEUES, eth_type=0x0800, ip_dscp=48).queue is None


def test_stations_are_learned_and_then_the_switch_forwards_by_itself(leaves: Leaves) -> None:
    assert leaves.frame(1, 1, frame(A, ALL)) == [RemoveHost(A)]
    match = (("in_port", 2), ("eth_src", B), ("eth_dst", A))
    assert leaves.frame(1, 2, frame(B, A)) == [RemoveHost(B), Rule(FORWARD, 10, match, outputs=(1,), idle_s=300)]
    facts = leaves.facts(1)
    assert facts is not None and facts.hosts == ((A, 1), (B, 2))
    assert leaves.facts(2) is not None and leaves.facts(3) is None


def test_a_station_that_has_moved_is_found_again_and_the_rules_to_it_are_forgotten(leaves: Leaves) -> None:
    leaves.frame(1, 1, frame(A, ALL))
    assert leaves.frame(1, 3, frame(A, ALL)) == [RemoveHost(A)]
    assert leaves.counters["moved"] == 1
    assert leaves.port(1, 3, None) == [RemoveHost(A)]
    facts = leaves.facts(1)
    assert facts is not None and facts.hosts == () and len(facts.ports) == 2


@pytest.mark.parametrize(
    ("number", "data", "counter"),
    [
        (1, b"short", "dropped too_short"),
        (9, frame(A, B), "dropped no_switch"),
        (1, frame("03:00:00:00:00:01", A), "dropped group_source"),
        (1, frame(A, GROUP, 0x88CC), "lldp_of_others"),
    ],
)
def test_what_cannot_be_forwarded_is_dropped_and_counted(
    leaves: Leaves, number: int, data: bytes, counter: str
) -> None:
    assert leaves.frame(number, 1, data) == []
    assert leaves.counters == {counter: 1}


def test_a_frame_to_the_port_it_came_from_is_not_sent_back(leaves: Leaves) -> None:
    leaves.frame(1, 1, frame(A, ALL))
    assert leaves.frame(1, 1, frame(B, A)) == [RemoveHost(B)]
    assert leaves.counters["dropped same_port"] == 1


def test_two_switches_that_are_connected_find_each_other_by_the_frames_that_each_sends() -> None:
    leaves = Leaves()
    leaves.connected(1, PORTS, "s1")
    hello = [order for order in leaves.connected(2, PORTS, "s2") if isinstance(order, Send) and order.output == 3]
    assert hello[0].frame[:6] == Mac.parse(GROUP).octets
    with pytest.raises(LldpError, match="is refused: DCBX uses 01:80:c2:00:00:0e alone"):
        parse(hello[0].frame)
    leaves.frame(1, 2, frame(A, ALL))  # a station behind that link, received before the link was known
    assert leaves.frame(1, 2, hello[0].frame) == []
    one, two = leaves.facts(1), leaves.facts(2)
    assert one is not None and two is not None
    assert (one.links, two.links) == (((2, "s2", 3),), ((3, "s1", 2),))
    assert one.hosts == ()
    leaves.port(1, 2, ("s-eth2", False, PORTS[2][2]))
    one = leaves.facts(1)
    assert one is not None and one.links == ()
    again = leaves.port(1, 2, PORTS[2])
    assert len(again) == 1 and isinstance(again[0], Send)
    leaves.disconnected(2)
    assert leaves.numbers == [1] and leaves.port(2, 1, PORTS[1]) == []


@pytest.mark.parametrize(
    ("chassis", "port"), [("xoff:1", "2"), ("xoff:zz", "2"), ("xoff:2", "77"), ("xoff:2", "x"), ("a switch", "1")]
)
def test_lldp_of_others_and_of_itself_makes_no_link(leaves: Leaves, chassis: str, port: str) -> None:
    pdu = Lldpdu(ChassisId.local(chassis), PortId.interface(port), 120)
    leaves.frame(1, 1, Mac.parse(GROUP).octets + LldpFrame(Mac.parse(A), pdu).encode()[6:])
    one = leaves.facts(1)
    assert one is not None and one.links == ()
    assert leaves.counters == {"lldp_of_others": 1}


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(1, 3), st.binary(max_size=80)), max_size=20))
def test_any_frames_are_forwarded_or_counted(frames: list[tuple[int, int, bytes]]) -> None:
    leaves = Leaves()
    leaves.connected(1, PORTS)
    leaves.connected(2, PORTS)
    for number, port, data in frames:
        for order in leaves.frame(number, port, data):
            assert not isinstance(order, Rule) or port not in order.outputs
    assert leaves.facts(1) is not None


def test_the_table_of_stations_is_bounded(leaves: Leaves, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("controllers.leaf.MOST_HOSTS", 2)
    for n in range(4):
        leaves.frame(1, 1, frame(f"02:00:00:00:01:0{n}", ALL))
    one = leaves.facts(1)
    assert one is not None and len(one.hosts) == 2
    assert leaves.counters["not_learned table_full"] == 2
