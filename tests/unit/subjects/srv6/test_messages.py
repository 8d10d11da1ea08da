"""The messages of agents and controller: there and back, and all kinds of wrong ones."""

from __future__ import annotations

import copy
import json
from ipaddress import IPv4Address, IPv6Address, ip_network
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.subjects.srv6.protocol import behaviours
from testbed.subjects.srv6.protocol.reverse_tunnel import ReverseTunnel
from testbed.subjects.srv6.protocol.sid import CodePoints
from testbed.subjects.srv6.session.intents import Dynamic, Explicit, Key, PolicyIntent, Site, VpnIntent
from testbed.subjects.srv6.session.messages import (
    Ack,
    Counters,
    Directory,
    FromAgent,
    FromController,
    Install,
    Item,
    Nack,
    OwnTunnel,
    Pause,
    PolicyItem,
    Remove,
    Report,
    SliceInfo,
    TunnelItem,
    VpnItem,
    as_json,
    from_agent,
    from_controller,
)
from testbed.typed_json.codec import CODEC
from testbed.typed_json.text import InvalidError, read
from tests.unit.subjects.srv6.srv6_control import FIGURE_3, report, sid


def address(text: str) -> IPv6Address:
    return IPv6Address(text)


TUNNEL = ReverseTunnel("R1", "R3", (address("fd00:a:1:1::"), address("fd00:a:3:f02::")), 7, "to2", 10_000_000)
CANDIDATES = (
    Dynamic(200, 1, "strict", True, True, frozenset({"sea"}), frozenset({"a", "b"}), frozenset({"land"}), 9),
    Explicit((address("fd00:a:2:1::"),), 50, 0, "by hand", True),
)
POLICY = PolicyIntent(Key("R1", 100, "R3"), CANDIDATES, "red", None, 7, address("fd00:a:1:b::"))
VPN = VpnIntent(
    "red",
    100,
    (
        Site("R1", ("r1-eth0",), (ip_network("10.1.0.0/16"), ip_network("fd00:1::/64")), address("fd00:a:1:d000::")),
        Site("R3", (), (ip_network("10.2.0.0/16"),)),
    ),
    behaviours.END_DT46,
    7,
)
ITEMS: list[Item] = [
    PolicyItem(POLICY, (address("fd00:a:2:1::"), address("fd00:a:3:d000::")), 7),
    PolicyItem(PolicyIntent(Key("R1", 1, "R2"), service=address("fd00:a:2:d::")), ()),
    TunnelItem(TUNNEL),
    TunnelItem(ReverseTunnel("R1", "R3", TUNNEL.segments)),
    VpnItem(VPN, "R1"),
]
WHOLE = Report(
    "R1",
    report("R1", FIGURE_3, ["R1"], frozenset({7})).sids,
    report("R1", FIGURE_3, ["R1"], frozenset({7})).links,
    (SliceInfo(7, "gold", frozenset({3, 4}), 10**9), SliceInfo(8, "silver")),
    tuple(ITEMS),
    (("a", 1), ("b", 2**64 - 1)),
    IPv4Address("10.0.0.1"),
)
AGENT: list[FromAgent] = [
    WHOLE,
    Report("R2"),
    Counters((("dropped: no key", 3),)),
    Pause(address("fd00:a:1:f::"), "to2", 3, None, True),
    OwnTunnel(TUNNEL, False, "too old"),
    Ack(1),
    Nack(2, "no room"),
]
CONTROLLER: list[FromController] = [kind(9, item) for kind in (Install, Remove) for item in ITEMS]
CONTROLLER += [Directory(WHOLE.sids, (address("fd00::1"),)), Directory((), is_whole=True)]


def again(data: dict[str, Any]) -> Any:
    return read(json.dumps(data).encode())


@pytest.mark.parametrize("message", AGENT, ids=lambda message: type(message).__name__)
def test_messages_of_an_agent_survive_encoding(message: FromAgent) -> None:
    assert from_agent(again(as_json(message))) == message


@pytest.mark.parametrize("message", CONTROLLER, ids=lambda message: type(message).__name__)
def test_messages_of_a_controller_survive_encoding(message: FromController) -> None:
    assert from_controller(again(as_json(message))) == message


def test_other_code_points_of_end_x_pfc_are_understood_by_who_has_the_same() -> None:
    code_points = CodePoints((40000, 40001, 40002, 40003))
    data = again(as_json(WHOLE, code_points))
    assert from_agent(data, code_points) == WHOLE
    with pytest.raises(InvalidError, match=r"endpoint_behavior\.code_point is 40000, which is not a known behaviour"):
        from_agent(data)


REPORT = as_json(WHOLE)


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (["type"], "hallo", "type is 'hallo'; must be one of report, counters, pause, tunnel, ack, nack"),
        (["node"], "R 1", "node is 'R 1'; must match"),
        (["more"], 1, "more is 1; unknown member; known are type, node, sids, links, slices, installed"),
        (["sids", 0, "nlri", "type"], 7, "sids[0].nlri.type is 7; must be 6 to 6"),
        (["sids", 0, "nlri", "local_node", "name"], "R2", "sids[0] is 'R2'; R1 can report its own SIDs only"),
        (["links", 0, "delay_ns"], -1, "links[0].delay_ns is -1; must be 0 to 1000000000000"),
        (["links", 0, "delay_ns"], True, "links[0].delay_ns is True; must be an integer"),
        (["links", 0, "up"], 1, "links[0].up is 1; must be true or false"),
        (["links", 0, "neighbour", "router"], "", "links[0].neighbour.router is ''; must match"),
        (["links", 0, "interface"], "x" * 16, "links[0].interface is 'xxxxxxxxxxxxxxxx'; must match"),
        (["slices", 0, "priorities"], [8], "slices[0].priorities[0] is 8; must be 0 to 7"),
        (["slices", 1, "id"], 7, "slices[1] is '7'; repeated; report it once"),
        (["counters", "a"], 2**64, "counters.a is 18446744073709551616; must be 0 to 18446744073709551615"),
        (["counters", "\n"], 1, "the member name '\\n' must match"),
        (["installed", 0, "kind"], "bridge", "installed[0].kind is 'bridge'; must be one of policy, tunnel, vpn"),
        (["installed", 2, "router"], "R2", "R1 can report its own items only"),
        (["installed", 2, "segments"], ["fd00::1", "fd00::%1"], "segments[1] is 'fd00::%1'; must be an IPv6"),
        (["installed", 2, "segments"], ["fd00::1"], "segments is ['fd00::1']; must have 2 to 127 members, not 1"),
        (["installed", 0, "intent", "candidates", 0, "type"], "magic", "'magic'; must be one of dynamic, explicit"),
        (["installed", 0, "intent", "endpoint"], "R1", "policy R1 to R1, colour 100 ends where it starts"),
        (["installed", 4, "intent", "sites", 0, "prefixes", 0], "10.1.2.3/16", "must be an IPv4 or IPv6 prefix"),
        (["installed", 4, "router"], "R9", "VPN red has no site at R9"),
    ],
)  # fmt: skip
def test_a_report_that_is_wrong_anywhere_is_refused_by_place(place: list[Any], value: object, message: str) -> None:
    data = copy.deepcopy(REPORT)
    target: Any = data
    for step in place[:-1]:
        target = target[step]
    target[place[-1]] = value
    with pytest.raises(InvalidError) as caught:
        from_agent(data)
    assert message in str(caught.value)


def _places(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    if isinstance(value, dict):
        return [at, *(place for name, member in value.items() for place in _places(member, (*at, name)))]
    if isinstance(value, list):
        return [at, *(place for n, member in enumerate(value) for place in _places(member, (*at, n)))]
    return [at]


PLACES = [place for place in _places(REPORT) if place]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(st.sampled_from(PLACES), JSON)
def test_a_report_with_anything_anywhere_is_read_or_refused(place: tuple[Any, ...], value: Any) -> None:
    data = copy.deepcopy(REPORT)
    target: Any = data
    for step in place[:-1]:
        target = target[step]
    target[place[-1]] = value
    try:
        found = from_agent(data)
    except InvalidError as error:
        assert len(str(error)) < 1000
    else:
        assert from_agent(again(as_json(found))) == found


@given(JSON)
def test_anything_is_read_or_refused(value: Any) -> None:
    for reader in (from_agent, from_controller):
        with pytest.raises(InvalidError):
            reader(value)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"sites": [{"router": "R1", "interfaces": [], "prefixes": ["10.0.0.0/8"]}] * 2}, "names a router twice"),
        (
            {
                "sites": [
                    {"router": "R1", "interfaces": [], "prefixes": ["10.0.0.0/8"]},
                    {"router": "R2", "interfaces": [], "prefixes": ["10.0.0.0/8"]},
                ]
            },
            "VPN red has 10.0.0.0/8 at R1 and R2; one is wrong",
        ),
        (
            {"behaviour": "End.DT6", "sites": [{"router": "R1", "interfaces": [], "prefixes": ["10.0.0.0/8"]}]},
            "End.DT6 does not carry IPv4; choose End.DT46",
        ),
    ],
)
def test_a_vpn_that_contradicts_itself_is_refused(data: dict[str, Any], message: str) -> None:
    with pytest.raises(Exception) as caught:
        CODEC.decode(VpnIntent, {"name": "red", "colour": 1} | data)
    assert message in str(caught.value)


def test_a_site_reaches_what_is_behind_the_others() -> None:
    assert VPN.routes("R3") == ((ip_network("10.1.0.0/16"), "R1"), (ip_network("fd00:1::/64"), "R1"))
    assert sid("R1", "1").node == "R1"
