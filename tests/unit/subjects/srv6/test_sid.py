"""SIDs, their code points and their announcement: the octets of RFC 9514, and JSON of the same shape."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from ipaddress import IPv4Address, IPv6Address, IPv6Network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.errors import UsageError
from testbed.subjects.srv6.protocol import advertisement, behaviours
from testbed.subjects.srv6.protocol import sid as sid_module
from testbed.subjects.srv6.protocol.advertisement import Announcement, AnnouncementError, NodeId, Refusal
from testbed.subjects.srv6.protocol.behaviours import Behaviour
from testbed.subjects.srv6.protocol.domain import Srv6Error
from testbed.subjects.srv6.protocol.sid import FLAVOURS, Adjacency, CodePoints, Flavours, Sid, Structure
from testbed.typed_json.codec import CODEC
from tests.unit.subjects.srv6.srv6_world import R1_END, R1_PFC, R1_VPN, R2_END, R3_END_X, TO_R2, address

POINTS = CodePoints()
BOTH = Flavours.PSP | Flavours.USP
R1 = NodeId(65001, IPv4Address("10.0.0.1"))

# type 6, length        protocol  identifier        local node: AS 65001, router id 10.0.0.1                the SID
NLRI = bytes.fromhex(
    "0006 0031             05     0000000000000000  0100 0010 0200 0004 0000fde9 0203 0004 0a000001"
    "                                               0206 0010 fd00000a000100010000000000000000"
)
#                          behaviour End             bits of block, node, function, argument
ATTRIBUTE = bytes.fromhex("04e2 0004 0001 00 00      04e4 0004 20 10 10 00")
#                      type length behaviour flags algo weight -
END_X = bytes.fromhex(
    "0452 001e  8000      00    00   05     00  fd00000a0001000f0000000000000000  04e4 0004 20 10 10 00"
)


# Code points


@pytest.mark.parametrize(
    ("behaviour", "flavours", "number"),
    [
        (behaviours.END, Flavours.NONE, 1),
        (behaviours.END, BOTH, 4),
        (behaviours.END_X, Flavours.NONE, 5),
        (behaviours.END_X, Flavours.PSP, 6),
        (behaviours.END_X, Flavours.USP, 7),
        (behaviours.END_DT6, Flavours.NONE, 18),
        (behaviours.END_DT4, Flavours.NONE, 19),
        (behaviours.END_DT46, Flavours.NONE, 20),
        (behaviours.END_X_PFC, Flavours.NONE, 0x8000),
        (behaviours.END_X_PFC, Flavours.PSP, 0x8001),
        (behaviours.END_X_PFC, Flavours.USP, 0x8002),
        (behaviours.END_X_PFC, BOTH, 0x8003),
    ],
)
def test_every_behaviour_and_flavour_has_a_code_point_of_its_own(
    behaviour: Behaviour, flavours: Flavours, number: int
) -> None:
    assert POINTS.number(behaviour, flavours) == number
    assert POINTS.meaning(number) == (behaviour, flavours)


def test_the_code_points_of_end_x_pfc_are_a_setting() -> None:
    points = CodePoints((200, 201, 202, 203))
    assert [points.number(behaviours.END_X_PFC, flavours) for flavours in FLAVOURS] == [200, 201, 202, 203]
    assert points.meaning(0x8000) is None
    assert points.meaning(5) == (behaviours.END_X, Flavours.NONE)


def test_there_is_no_flavour_with_usd() -> None:
    assert [str(flavours) for flavours in FLAVOURS] == ["none", "PSP", "USP", "PSP & USP"]
    assert POINTS.meaning(32) is None  # End.X with USD


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ((1, 2, 3), "code points of End.X.PFC are (1, 2, 3); give four different numbers"),
        ((40, 40, 41, 42), "code points of End.X.PFC are (40, 40, 41, 42); give four different numbers"),
        (
            (5, 41, 42, 43),
            "code point 5 cannot be End.X.PFC's: it is taken, or not a number from 1 to 65534; "
            "the private range is 32768 to 34815",
        ),
        (
            (65535, 41, 42, 43),
            "code point 65535 cannot be End.X.PFC's: it is taken, or not a number from 1 to 65534; "
            "the private range is 32768 to 34815",
        ),
    ],
)
def test_invalid_code_points_are_refused(numbers: tuple[int, ...], message: str) -> None:
    with pytest.raises(Srv6Error, match=f"^{re.escape(message)}$"):
        CodePoints(numbers)  # type: ignore[arg-type]


# SIDs


def test_a_sid_is_locator_function_and_argument() -> None:
    structure = Structure(32, 16, 16, 8)
    made = structure.sid(IPv6Network("fd00:a:1::/48"), 0xF, 0x2A)
    assert made == IPv6Address("fd00:a:1:f:2a00::")
    sid = replace(R1_PFC, address=made, structure=structure)
    assert (sid.locator, sid.function, structure.argument_of(made)) == (IPv6Network("fd00:a:1::/48"), 0xF, 0x2A)


@given(
    st.tuples(*[st.integers(0, 32)] * 4),
    st.integers(0, 2**128 - 1),
    st.integers(0, 2**32 - 1),
    st.integers(0, 2**32 - 1),
)
def test_the_parts_of_a_sid_are_those_it_was_made_of(
    sizes: tuple[int, int, int, int], bits: int, function: int, argument: int
) -> None:
    structure = Structure(*sizes)
    locator = structure.locator(IPv6Address(bits))
    function, argument = function % (1 << sizes[2]), argument % (1 << sizes[3])
    made = structure.sid(locator, function, argument)
    assert structure.locator(made) == locator
    assert (structure.function_of(made), structure.argument_of(made), structure.rest_of(made)) == (
        function,
        argument,
        0,
    )


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (
            lambda: replace(R1_PFC, adjacencies=()),
            "R1's End.X.PFC fd00:a:1:f:: has no adjacency; give it at least one, with interface and next hop",
        ),
        (
            lambda: replace(R1_END, adjacencies=(TO_R2,)),
            "R1's End fd00:a:1:1:: cannot have an adjacency; only End.X and End.X.PFC do",
        ),
        (
            lambda: replace(R1_PFC, adjacencies=(TO_R2, TO_R2)),
            "R1's End.X.PFC fd00:a:1:f:: names an interface twice; a PFC frame acts once on each",
        ),
        (
            lambda: replace(R1_VPN, flavours=Flavours.PSP),
            "R1's End.DT46 fd00:a:1:d:: cannot have PSP; End.DT46 comes without flavours",
        ),
        (
            lambda: replace(R1_END, address=address("fd00:a:1:1::1")),
            "R1's End fd00:a:1:1::1 has bits after its argument; they must be 0 in this structure",
        ),
        (
            lambda: replace(R1_END, slice_id=1 << 32),
            "R1's End fd00:a:1:1:: has slice 4294967296; an id is a number from 0 to 4294967295",
        ),
        (
            lambda: replace(R1_PFC, weight=256),
            "R1's End.X.PFC fd00:a:1:f:: has weight 256; it is a number from 0 to 255",
        ),
        (
            lambda: replace(R1_END, weight=1),
            "R1's End fd00:a:1:1:: cannot have a weight; only End.X and End.X.PFC do",
        ),
        (
            lambda: NodeId(1 << 32, IPv4Address("10.0.0.1")),
            "AS number 4294967296 does not fit into 32 bits",
        ),
        (
            lambda: Adjacency("wan0", address("fe80::1")),
            "next hop fe80::1 by wan0 is not a global address, and the kernel's End.X loses what it sends to another; "
            "give the neighbour's global address",
        ),
        (
            lambda: Structure(64, 40, 20, 10),
            "a SID of 64+40+20+10 bits is too long; the parts have 128 at most",
        ),
        (
            lambda: Structure().sid(IPv6Network("fd00:a::/32"), 1),
            "locator fd00:a::/32 has 32 bits; this structure has 48",
        ),
        (
            lambda: Structure().sid(IPv6Network("fd00:a:1::/48"), 65536),
            "function 65536 does not fit into 16 bits",
        ),
    ],
)
def test_an_invalid_sid_is_refused(build: Callable[[], object], message: str) -> None:
    with pytest.raises(Srv6Error, match=f"^{re.escape(message)}$"):
        build()


# Octets


def test_an_nlri_and_its_attribute_have_the_octets_of_the_standard() -> None:
    assert advertisement.nlri(R1_END, R1).hex() == NLRI.hex()
    assert advertisement.attribute(R1_END, POINTS).hex() == ATTRIBUTE.hex()
    announced = Announcement(R1_END.address, behaviours.END, Flavours.NONE, 0, Structure())
    assert advertisement.parse(NLRI, ATTRIBUTE, POINTS) == (R1, announced)


def test_a_links_tlv_has_the_octets_of_the_standard() -> None:
    sid = replace(R1_PFC, weight=5)
    assert advertisement.end_x_tlv(sid, POINTS).hex() == END_X.hex()
    announced = Announcement(R1_PFC.address, behaviours.END_X_PFC, Flavours.NONE, 0, Structure(), weight=5)
    assert advertisement.parse_end_x(END_X, POINTS) == announced


def test_a_set_of_adjacencies_is_announced_as_a_set() -> None:
    sid = replace(R1_PFC, adjacencies=(TO_R2, Adjacency("wan1", address("fd00:b:13::3"))))
    octets = advertisement.end_x_tlv(sid, POINTS)
    assert octets[6] == 0x40
    assert advertisement.parse_end_x(octets, POINTS).is_set


def test_end_x_pfc_and_end_x_differ_in_who_is_notified_of_them() -> None:
    pfc, plain = (advertisement.end_x_tlv(sid, POINTS) for sid in (R1_PFC, R3_END_X))
    assert advertisement.parse_end_x(pfc, POINTS).behaviour is behaviours.END_X_PFC
    assert advertisement.parse_end_x(plain, POINTS).behaviour is behaviours.END_X


sids = st.builds(
    lambda kind, flavours, parts, more: Sid(
        "R1",
        Structure().sid(IPv6Network("fd00:a:1::/48"), parts[0]),
        kind,
        flavours if kind.has_flavours else Flavours.NONE,
        tuple(Adjacency(f"wan{n}", address(f"fd00:b:{n}::2")) for n in range(parts[1])) if kind.has_adjacencies else (),
        more[0],
        algorithm=parts[2],
        weight=parts[2] if kind.has_adjacencies else 0,
    ),
    st.sampled_from(list(behaviours.BEHAVIOURS.values())),
    st.sampled_from(FLAVOURS),
    st.tuples(st.integers(0, 0xFFFF), st.integers(1, 3), st.integers(0, 255)),
    st.tuples(st.none() | st.integers(0, 0xFFFFFFFF)),
)


@given(sids, st.integers(0, 0xFFFFFFFF), st.ip_addresses(v=4), st.integers(0, 2**64 - 1))
def test_what_is_announced_is_what_is_heard(sid: Sid, number: int, router_id: IPv4Address, identifier: int) -> None:
    node = NodeId(number, router_id)
    told = Announcement(sid.address, sid.behaviour, sid.flavours, sid.algorithm, sid.structure)
    octets = advertisement.nlri(sid, node, identifier), advertisement.attribute(sid, POINTS)
    assert advertisement.parse(*octets, POINTS) == (node, told)
    if sid.behaviour.has_adjacencies:
        heard = advertisement.parse_end_x(advertisement.end_x_tlv(sid, POINTS), POINTS)
        assert heard == replace(told, weight=sid.weight, is_set=len(sid.adjacencies) > 1)


def test_tlvs_that_are_not_known_are_skipped_wherever_they_stand() -> None:
    other = bytes.fromhex("fde8 0003 010203")
    sub = END_X[:2] + (len(END_X) - 4 + len(other)).to_bytes(2) + END_X[4:26] + other + END_X[26:]
    assert advertisement.parse_end_x(other + sub, POINTS) == advertisement.parse_end_x(END_X, POINTS)
    body = NLRI[4:13] + other + NLRI[13:]
    nlri = NLRI[:2] + len(body).to_bytes(2) + body
    assert advertisement.parse(nlri, other + ATTRIBUTE, POINTS) == advertisement.parse(NLRI, ATTRIBUTE, POINTS)


@pytest.mark.parametrize(
    ("nlri", "attribute", "reason", "message"),
    [
        (b"", ATTRIBUTE, Refusal.NOT_SID_NLRI, "one NLRI of type 6, SRv6 SID, was to come, not type 0"),
        (
            b"\0\1" + NLRI[2:],
            ATTRIBUTE,
            Refusal.NOT_SID_NLRI,
            "one NLRI of type 6, SRv6 SID, was to come, not type 1",
        ),
        (NLRI * 2, ATTRIBUTE, Refusal.NOT_SID_NLRI, "one NLRI of type 6, SRv6 SID, was to come, not type 6"),
        (NLRI[:-1], ATTRIBUTE, Refusal.TOO_SHORT, "TLV 6 in the NLRI has 49 octets, and 48 are left"),
        (NLRI[:3], ATTRIBUTE, Refusal.TOO_SHORT, "3 octets are left at the end of the NLRI, too few for a TLV"),
        (
            bytes.fromhex("0006 0004 05000000"),
            ATTRIBUTE,
            Refusal.TOO_SHORT,
            "the NLRI has 4 octets; protocol and identifier alone are 9",
        ),
        (NLRI[:2] + b"\0\x1d" + NLRI[4:33], ATTRIBUTE, Refusal.MISSING, "TLV 518 is missing in the NLRI"),
        (
            NLRI.replace(b"\x02\0\0\4", b"\x02\7\0\4"),
            ATTRIBUTE,
            Refusal.MISSING,
            "TLV 512 is missing in the local node",
        ),
        (
            NLRI[:2] + b"\0\x31" + NLRI[4:35] + b"\0\x0c" + NLRI[37:49] + bytes.fromhex("ffff 0000"),
            ATTRIBUTE,
            Refusal.WRONG_LENGTH,
            "TLV 518 has 12 octets; it has 16",
        ),
        (NLRI, ATTRIBUTE[:8], Refusal.MISSING, "TLV 1252 is missing in the attribute"),
        (
            NLRI,
            ATTRIBUTE + ATTRIBUTE,
            Refusal.REPEATED,
            "TLV 1250 comes twice in the attribute; it may come once",
        ),
        (
            NLRI,
            bytes.fromhex("04e2 0004 002b 00 00") + ATTRIBUTE[8:],
            Refusal.BEHAVIOUR_NOT_KNOWN,
            "behaviour 43 (0x002b) is none that is known here",
        ),
        (
            NLRI,
            ATTRIBUTE[:8] + bytes.fromhex("04e4 0004 60 20 01 00"),
            Refusal.CANNOT_BE,
            "a SID of 96+32+1+0 bits is too long; the parts have 128 at most",
        ),
    ],
)
def test_an_announcement_that_is_none_is_refused(nlri: bytes, attribute: bytes, reason: Refusal, message: str) -> None:
    with pytest.raises(AnnouncementError) as caught:
        advertisement.parse(nlri, attribute, POINTS)
    assert (caught.value.reason, str(caught.value)) == (reason, message)


def test_a_links_tlv_that_is_cut_is_refused() -> None:
    with pytest.raises(AnnouncementError, match=r"^TLV 1106 has 20 octets; it has 22 at least$"):
        advertisement.parse_end_x(bytes.fromhex("0452 0014") + bytes(20), POINTS)
    with pytest.raises(Srv6Error, match=r"^R1's End fd00:a:1:1:: belongs to no link"):
        advertisement.end_x_tlv(R1_END, POINTS)


@given(
    st.binary(max_size=80),
    st.lists(st.tuples(st.integers(0, 60), st.integers(0, 255)), max_size=4),
)
def test_any_octets_are_an_announcement_or_refused(data: bytes, damage: list[tuple[int, int]]) -> None:
    damaged = bytearray(NLRI)
    for place, value in damage:
        damaged[place % len(damaged)] = value
    for parse in (
        lambda: advertisement.parse(bytes(damaged), ATTRIBUTE, POINTS),
        lambda: advertisement.parse(NLRI, data, POINTS),
        lambda: advertisement.parse(data, ATTRIBUTE, POINTS),
        lambda: advertisement.parse_end_x(data, POINTS),
        lambda: advertisement.parse_end_x(END_X[:2] + len(data).to_bytes(2) + data, POINTS),
    ):
        try:
            parse()
        except AnnouncementError as error:
            assert error.reason in Refusal


# JSON

JSON_SIDS = advertisement.codec(POINTS)
JSON = {
    "nlri": {
        "type": 6,
        "protocol_id": 5,
        "local_node": {"name": "R1", "as_number": 65001, "router_id": "10.0.0.1"},
        "sid": "fd00:a:1:f::",
    },
    "endpoint_behavior": {"code_point": 0x8001, "name": "End.X.PFC", "flavours": "PSP", "algorithm": 0},
    "sid_structure": {"block_bits": 32, "node_bits": 16, "function_bits": 16, "argument_bits": 0},
    "end_x": {"weight": 0, "set": False, "adjacencies": [{"interface": "wan0", "next_hop": "fd00:b:12::2"}]},
    "slice_id": 7,
}


def test_json_has_the_same_shape_and_what_octets_have_no_place_for() -> None:
    sid = replace(R1_PFC, flavours=Flavours.PSP, slice_id=7)
    assert CODEC.encode(advertisement.advertised(sid, POINTS, R1)) == JSON
    assert JSON_SIDS.decode(Sid, JSON) == sid


def test_json_of_a_plain_sid_is_short() -> None:
    described = CODEC.encode(advertisement.advertised(R2_END, POINTS))
    assert set(described) == {"nlri", "endpoint_behavior", "sid_structure"}
    assert described["nlri"]["local_node"] == {"name": "R2"}


@given(sids)
def test_a_sid_survives_json(sid: Sid) -> None:
    assert JSON_SIDS.decode(Sid, json.loads(json.dumps(JSON_SIDS.encode(sid)))) == sid


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("", None, "the value is None; must be an object"),
        ("nlri", [], "nlri is []; must be an object"),
        ("nlri.type", 2, "nlri.type is 2; must be 6 to 6"),
        ("nlri.type", True, "nlri.type is True; must be an integer"),
        ("nlri.sid", "fd00::g", "nlri.sid is 'fd00::g'; must be an IPv6 address, for example 'fd00:a:1:f::'"),
        ("nlri.sid", 7, "nlri.sid is 7; must be text, for example 'fd00:a:1:f::'"),
        (
            "nlri.local_node.name",
            "",
            "nlri.local_node.name is ''; must match [A-Za-z][A-Za-z0-9_.-]{0,62}, for example 'R1'",
        ),
        (
            "endpoint_behavior.code_point",
            43,
            "endpoint_behavior.code_point is 43, which is not a known behaviour",
        ),
        (
            "sid_structure.block_bits",
            200,
            "sid_structure is {'block_bits': 200, 'node_bits': 16, 'function_bits': 16,...; "
            "a SID of 200+16+16+0 bits is too long; the parts have 128 at most",
        ),
        ("end_x.adjacencies", {}, "end_x.adjacencies is {}; must be a list"),
        ("end_x.adjacencies", [7], "end_x.adjacencies[0] is 7; must be an object"),
        ("end_x.adjacencies", [{}], "end_x.adjacencies[0].interface is missing; add it, for example 'r1-eth1'"),
        (
            "end_x.adjacencies",
            [],
            "end_x.adjacencies is []; must have 1 to 256 members, not 0",
        ),
        ("slice_id", -1, "slice_id is -1; must be 0 to 4294967295"),
    ],
)
def test_invalid_json_of_a_sid_is_refused_with_its_place(path: str, value: object, message: str) -> None:
    described: object = json.loads(json.dumps(JSON))
    if path:
        *way, last = path.split(".")
        place = described
        for key in way:
            place = place[key]  # type: ignore[index]
        place[last] = value  # type: ignore[index]
    else:
        described = value
    with pytest.raises(UsageError, match=f"^{re.escape(message)}$"):
        JSON_SIDS.decode(Sid, described)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*JSON, "sid", "type"]), inner),
    max_leaves=10,
)


@given(json_values)
def test_any_json_is_a_sid_or_refused(data: object) -> None:
    try:
        JSON_SIDS.decode(Sid, data)
    except UsageError as error:
        assert str(error)


# Adding a behaviour


def test_a_registered_behaviour_has_its_code_points_its_json_and_its_route(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(behaviours, "BEHAVIOURS", dict(behaviours.BEHAVIOURS))
    monkeypatch.setattr(sid_module, "BEHAVIOURS", behaviours.BEHAVIOURS)

    @behaviours.register
    class EndT(behaviours.Behaviour):
        """Specific IPv6 table lookup (RFC 8986, section 4.3)."""

        name, code_points, has_flavours = "End.T", (9, 10, 11, 12), True

        def kernel_action(self, parameters: behaviours.Parameters) -> behaviours.KernelAction:
            return behaviours.KernelAction("End.T", table=parameters.table)

    added = behaviours.BEHAVIOURS["End.T"]
    sid = Sid("R1", address("fd00:a:1:7::"), added, Flavours.USP)
    assert POINTS.number(added, Flavours.USP) == 11 and POINTS.meaning(11) == (added, Flavours.USP)
    described = JSON_SIDS.encode(sid)
    assert described["endpoint_behavior"]["name"] == "End.T" and JSON_SIDS.decode(Sid, described) == sid
    assert added.kernel_action(behaviours.Parameters(table=7)) == behaviours.KernelAction("End.T", table=7)
    with pytest.raises(Srv6Error, match=r"End.T2 with code points .12, 13. collides with End.T"):

        @behaviours.register
        class EndT2(behaviours.Behaviour):
            name, code_points = "End.T2", (12, 13)
