"""The notes of a router about its items: as much as notes and a report have room for, and no more."""

from __future__ import annotations

import json
from ipaddress import IPv6Address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.agent.handover import Handover
from testbed.errors import UsageError
from testbed.subjects.srv6.agent.part import WanPartPlan
from testbed.subjects.srv6.agent.sr_notes import MOST_ITEMS, MOST_OCTETS, Noted, SrNotes
from testbed.subjects.srv6.protocol import behaviours
from testbed.subjects.srv6.protocol.reverse_tunnel import ReverseTunnel
from testbed.subjects.srv6.protocol.sid import CodePoints, Sid
from testbed.subjects.srv6.session.intents import Dynamic, Explicit, Key, PolicyIntent, Site, VpnIntent
from testbed.subjects.srv6.session.messages import (
    Install,
    Item,
    LinkEnd,
    PolicyItem,
    Report,
    RouterPort,
    TunnelItem,
    VpnItem,
    as_json,
    from_agent,
    from_controller,
    item_as_json,
)
from testbed.subjects.srv6.session.session import SessionSettings

SEGMENTS = tuple(IPv6Address(f"fd00:a:{n}:1::") for n in range(1, 6))


def policy(number: int, name: str = "loose", more: int = 0) -> PolicyItem:
    """Return a policy with a binding SID, and so many more segments in a candidate."""
    binding = IPv6Address(f"fd00:a:1:{number:x}::")
    candidates = (Dynamic(name=name), Explicit(SEGMENTS + SEGMENTS[:1] * more, preference=200))
    return PolicyItem(PolicyIntent(Key("R1", number, "R3"), candidates, "red", binding_sid=binding), SEGMENTS)


_items: st.SearchStrategy[Item] = st.one_of(
    st.builds(policy, st.integers(1, 500), st.text("ab", min_size=1, max_size=63)),
    st.integers(1, 40).map(
        lambda n: TunnelItem(ReverseTunnel("R1", "R3", (*SEGMENTS[:2], IPv6Address(n)), None, "wan", n))
    ),
    st.integers(1, 20).map(
        lambda n: VpnItem(VpnIntent(f"v{n}", n, (Site("R1", ("x",), (ip_network("10.1.0.0/16"),), SEGMENTS[0]),)), "R1")
    ),
)


@given(st.lists(st.tuples(_items, st.booleans()), max_size=12))
def test_a_successor_has_the_items_in_the_order_in_which_they_came(steps: list[tuple[Item, bool]]) -> None:
    noted, installed = Noted("R1"), dict[object, Item]()
    for item, is_put in steps:
        if is_put:
            noted.put(item.identity, noted.weigh(item))
            installed[item.identity] = item
        else:
            noted.drop(item.identity)
            installed.pop(item.identity, None)
        assert SrNotes(noted.octets, {}).items == list(installed.values())
        assert noted._total == sum(map(len, noted.octets))


def test_a_router_keeps_the_json_of_an_item_as_the_controller_sent_it() -> None:
    sent = json.loads(json.dumps(as_json(Install(1, policy(7)))))
    sent["item"]["segments"] = [segment.upper() for segment in sent["item"]["segments"]]
    command = from_controller(sent)
    assert isinstance(command, Install) and command.item == policy(7)
    assert json.loads(Noted("R1").weigh(command.item)) == sent["item"] != item_as_json(policy(7))
    (restored,) = SrNotes((Noted("R1").weigh(command.item),), {}).items
    assert (restored, item_as_json(restored)) == (policy(7), sent["item"])


def test_more_items_than_there_may_be_are_refused_and_one_that_is_there_may_still_change() -> None:
    noted = Noted("R1", [policy(number) for number in range(1, MOST_ITEMS + 1)])
    with pytest.raises(UsageError, match="R1 has 2048 items, and there is room for 2048; remove some"):
        noted.weigh(policy(MOST_ITEMS + 1))
    noted.weigh(policy(7, "another"))
    noted.drop(policy(7).identity)
    noted.weigh(policy(MOST_ITEMS + 1))


def test_more_octets_than_there_is_room_for_are_refused_and_fewer_are_not() -> None:
    noted, first = Noted("R1"), 1000
    number = first
    with pytest.raises(UsageError) as refused:
        while True:
            item = policy(number, more=100)
            octets = noted.weigh(item)
            noted.put(item.identity, octets)
            number += 1
    assert MOST_OCTETS - len(octets) - 10 < noted._total <= MOST_OCTETS
    assert str(refused.value) == (
        f"R1 has {number - first} items of {noted._total} octets, and there is room for 2097152; policy R1:{number}:R3 "
        f"has {len(octets)}: make it shorter, or remove others"
    )
    for one in (first, first + 1):
        noted.put(policy(one).identity, noted.weigh(policy(one)))
    noted.weigh(item)


@pytest.mark.slow
def test_the_most_that_may_be_installed_fits_into_the_notes_and_into_a_report() -> None:
    each = MOST_OCTETS // MOST_ITEMS
    more = next(more for more in range(100) if len(Noted("R1", [policy(MOST_ITEMS, more=more)]).octets[0]) > each) - 1
    items = [policy(number, more=more) for number in range(1, MOST_ITEMS + 1)]
    noted = Noted("R1", items)
    assert MOST_OCTETS * 0.95 < noted._total <= MOST_OCTETS
    page = Handover(1 + WanPartPlan.handover_ports)
    left = {"wan": SrNotes(noted.octets, {f"a-name-of-15-{number}": 1000 + number for number in range(MOST_ITEMS)})}
    page.write(left)
    assert page.read() == left
    bound = [Sid("R1", item.intent.binding_sid, behaviours.END_B6_ENCAPS) for item in items if item.intent.binding_sid]
    links = tuple(LinkEnd(f"r1-eth{n}", RouterPort("R2", f"r2-eth{n}"), 10**6) for n in range(64))
    counters = tuple((f"fd00:a:1:{n:x}:: dropped inner_other_mac", 10**9) for n in range(1000))
    report = as_json(Report("R1", tuple(bound), links, installed=tuple(items), counters=counters), CodePoints())
    octets = json.dumps(report, separators=(",", ":"))
    assert len(octets) < SessionSettings().longest_message
    assert len(from_agent(json.loads(octets)).installed) == MOST_ITEMS  # type: ignore[union-attr]
