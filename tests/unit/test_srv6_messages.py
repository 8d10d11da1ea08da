"""What agents and controller say: there and back, and everything that is not quite it."""

from __future__ import annotations

import copy
import json
from ipaddress import IPv4Address, IPv6Address, ip_network
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from srv6_control import FIGURE_3, report, sid

from testbed.srv6.protocol.reverse_tunnel import ReverseTunnel
from testbed.srv6.protocol.sid import CodePoints, Kind
from testbed.srv6.session.intents import PolicyIntent, Site, VpnIntent
from testbed.srv6.session.items import Item, PolicyItem, TunnelItem, VpnItem
from testbed.srv6.session.messages import (
    Ack,
    Counters,
    Directory,
    FromAgent,
    FromController,
    Install,
    Nack,
    OwnTunnel,
    Pause,
    Remove,
    Report,
    SliceInfo,
    as_json,
    from_agent,
    from_controller,
)
from testbed.srv6.session.policy import Dynamic, Explicit, Key
from testbed.typed_json.validation import InvalidError, brief, check, read


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
    Kind.END_DT46,
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
def test_what_an_agent_says_is_what_is_heard(message: FromAgent) -> None:
    assert from_agent(again(as_json(message))) == message


@pytest.mark.parametrize("message", CONTROLLER, ids=lambda message: type(message).__name__)
def test_what_a_controller_says_is_what_is_heard(message: FromController) -> None:
    assert from_controller(again(as_json(message))) == message


def test_other_code_points_of_end_x_pfc_are_understood_by_who_has_the_same() -> None:
    code_points = CodePoints((40000, 40001, 40002, 40003))
    data = again(as_json(WHOLE, code_points))
    assert from_agent(data, code_points) == WHOLE
    with pytest.raises(InvalidError, match=r"endpoint_behavior\.code_point is 40000, which is no behaviour"):
        from_agent(data)


REPORT = as_json(WHOLE)


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (["type"], "hallo", "type is 'hallo'; there are report, counters, pause, tunnel, ack, nack"),
        (["node"], "R 1", "node is 'R 1'; it has to look like"),
        (["more"], 1, "more is 1; leave it out; there are type, node, sids, links, slices, installed"),
        (["sids", 0, "nlri", "type"], 7, "sids[0] is {"),
        (["sids", 0, "nlri", "local_node", "name"], "R2", "sids[0] is 'R2'; R1 can report its own SIDs only"),
        (["links", 0, "delay_ns"], -1, "links[0].delay_ns is -1; it has to be 0 to 1000000000000"),
        (["links", 0, "delay_ns"], True, "links[0].delay_ns is True; it has to be a whole number"),
        (["links", 0, "up"], 1, "links[0].up is 1; it has to be true or false"),
        (["links", 0, "neighbour", "router"], "", "links[0].neighbour.router is ''; it has to look like"),
        (["links", 0, "interface"], "x" * 16, "links[0].interface is 'xxxxxxxxxxxxxxxx'; it has to look like"),
        (["slices", 0, "priorities"], [8], "slices[0].priorities[0] is 8; it has to be 0 to 7"),
        (["slices", 1, "id"], 7, "slices[1] is {'id': 7, 'name': 'silver'"),
        (["counters", "a"], 2**64, "counters.a is 18446744073709551616; it has to be 0 to 18446744073709551615"),
        (["counters", "\n"], 1, "a name in counters is '\\n'; it has to look like"),
        (["installed", 0, "kind"], "bridge", "installed[0].kind is 'bridge'; there are policy, tunnel, vpn"),
        (["installed", 2, "router"], "R2", "R1 can report what is on itself only"),
        (["installed", 2, "segments"], ["fd00::1", "fd00::%1"], "segments[1] is 'fd00::%1'; it has to be an IPv6"),
        (["installed", 2, "segments"], ["fd00::1"], "segments is ['fd00::1']; it has 1 members and has to have 2"),
        (["installed", 0, "intent", "candidates", 0, "type"], "magic", "type is 'magic'; there are dynamic, explicit"),
        (["installed", 0, "intent", "endpoint"], "R1", "policy R1 to R1, colour 100 ends where it starts"),
        (["installed", 4, "intent", "sites", 0, "prefixes", 0], "10.1.2.3/16", "it has to be an IPv4 or IPv6 prefix"),
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
        assert from_agent(again(as_json(found))) == found  # type: ignore[arg-type]


@given(JSON)
def test_anything_is_read_or_refused(value: Any) -> None:
    for reader in (from_agent, from_controller):
        with pytest.raises(InvalidError):
            reader(value)


@given(st.binary(max_size=60))
def test_octets_are_json_or_refused(octets: bytes) -> None:
    try:
        read(octets)
    except InvalidError as error:
        assert len(str(error)) < 300


@pytest.mark.parametrize(
    ("octets", "message"),
    [
        (b'{"a":1,"a":2}', "'a' comes twice in one object; it may come once"),
        (b"[1.5]", "numbers are whole here, without fraction or exponent"),
        (b"[1e3]", "numbers are whole here"),
        (b"[NaN]", "numbers are whole here"),
        (b"[-Infinity]", "numbers are whole here"),
        (b"1" * 5000, "no number here has so many digits"),
        (b"[" * 100_000, "it is no JSON, and nested too deep besides"),
        (b"[" * 33 + b"]" * 33, "it is nested too deep; 32 levels may be"),
        (b'{"a":[' * 17 + b"1" + b"]}" * 17, "it is nested too deep; 32 levels may be"),
        (b"[" + b"{}," * 600_000 + b"{}]", "it has too many values; 524288 may be"),
        (b'"\\ud800"', "it has to be JSON in UTF-8"),
        (b"\xff", "it has to be JSON in UTF-8"),
        (b"{", "it has to be JSON: Expecting property name enclosed in double quotes at character 1"),
    ],
)
def test_json_that_leaves_a_choice_is_refused(octets: bytes, message: str) -> None:
    with pytest.raises(InvalidError) as caught:
        read(octets)
    assert message in str(caught.value) and len(str(caught.value)) < 300


def test_a_schema_that_nobody_would_check_is_a_defect() -> None:
    with pytest.raises(AssertionError, match="a schema says anyOf, which nobody would check"):
        check(1, {"anyOf": []})


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
            "End.DT6 carries IPv6 only; choose End.DT46",
        ),
    ],
)
def test_a_vpn_that_contradicts_itself_is_refused(data: dict[str, Any], message: str) -> None:
    with pytest.raises(Exception) as caught:
        VpnIntent.from_json({"name": "red", "colour": 1} | data)
    assert message in str(caught.value)


def test_a_site_reaches_what_is_behind_the_others() -> None:
    assert VPN.routes("R3") == ((ip_network("10.1.0.0/16"), "R1"), (ip_network("fd00:1::/64"), "R1"))
    assert sid("R1", "1").node == "R1"


def test_brackets_inside_texts_are_no_levels() -> None:
    text = "[" * 50 + '"' + "{" * 50 + "\\"
    assert read(json.dumps([text, [text]]).encode()) == [text, [text]]
    assert read(b"[" * 32 + b"]" * 32)


def test_any_value_may_stand_where_a_schema_allows_anything() -> None:
    check({"a": 1, "b": [None]}, {"type": "object", "additionalProperties": True})
    with pytest.raises(InvalidError, match="a is 1; leave it out; there are"):
        check({"a": 1}, {"type": "object", "additionalProperties": False})


def test_a_long_or_deep_value_is_shown_by_its_beginning() -> None:
    deep: object = 1
    for _ in range(5000):
        deep = [deep]
    assert brief(deep) == "[[[[...]]]]"
    assert brief({"a": list(range(9)), "b": "x" * 100}) == "{'a': [0, 1, 2, 3, 4, 5, ...], 'b': '" + "x" * 60 + "'}"
