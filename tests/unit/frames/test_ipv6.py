"""IPv6 headers, extension headers and options: the octets of RFC 8200, and no surprise from any others.

The known packets are written out field by field, so that nothing of the codec is used to check it.
"""

from __future__ import annotations

import re
from ipaddress import IPv6Address
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.frames import FieldError, ipv6
from testbed.frames.ipv6 import Header, Option, Packet, PacketError, PacketReason, Problem, SliceOption

A, B = IPv6Address("fd00:b::3"), IPv6Address("fd00:a:2:1::")
A_HEX, B_HEX = "fd00000b000000000000000000000003", "fd00000a000200010000000000000000"

#                         version, class, label  length next hop
PLAIN = bytes.fromhex(f"6c01 2345 0003 11 40 {A_HEX} {B_HEX} 616263")
#                     next len type data ...     padding
HBH = bytes.fromhex("2b 01 1e 08 00 00 0000 00000007 01 02 00 00")
ROUTING = bytes.fromhex("3c 00 04 00 00 00 0000")  # with no room for a segment: the walk does not mind
DESTINATION = bytes.fromhex("11 00 01 04 00000000")
EXTENDED = bytes.fromhex(f"60000000 0023 00 40 {A_HEX} {B_HEX}") + HBH + ROUTING + DESTINATION + b"abc"

packets = st.builds(
    Packet,
    st.ip_addresses(v=6),
    st.ip_addresses(v=6),
    st.integers(0, 255),
    st.binary(max_size=200),
    st.integers(0, 255),
    st.integers(0, 255),
    st.integers(0, 0xFFFFF),
)


def refusal(call: object, *arguments: object) -> PacketError:
    assert callable(call)
    with pytest.raises(PacketError) as caught:
        call(*arguments)
    return caught.value


def walk(packet: bytes) -> list[Header]:
    return list(ipv6.headers(packet))


# The fixed header


def test_a_known_packet_has_the_octets_of_the_standard() -> None:
    packet = Packet(A, B, ipv6.UDP, b"abc", 64, 0xC0, 0x12345)
    assert packet.encode().hex() == PLAIN.hex()
    assert Packet.parse(PLAIN) == packet
    assert ipv6.addresses(PLAIN) == (A, B)


@given(packets, st.binary(max_size=20))
def test_a_packet_is_read_as_it_was_built_and_ethernet_padding_is_cut_off(packet: Packet, padding: bytes) -> None:
    assert Packet.parse(packet.encode() + padding) == packet


@pytest.mark.parametrize("length", range(len(PLAIN)))
def test_a_cut_packet_is_refused(length: int) -> None:
    error = refusal(ipv6.whole, PLAIN[:length])
    if length < 40:
        assert (error.reason, str(error)) == (
            PacketReason.TOO_SHORT,
            f"{length} octets are too few for an IPv6 header, which has 40",
        )
    else:
        assert (error.reason, str(error)) == (
            PacketReason.TRUNCATED,
            f"the payload has 3 octets, and only {length - 40} of them came",
        )


def test_another_version_is_refused() -> None:
    error = refusal(Packet.parse, b"\x45" + PLAIN[1:])
    assert (error.reason, str(error)) == (PacketReason.NOT_IPV6, "version 4 is not IPv6")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"hop_limit": 256}, "hop_limit is 256; it is a whole number from 0 to 255"),
        ({"flow_label": 1 << 20}, "flow_label is 1048576; it is a whole number from 0 to 1048575"),
        ({"traffic_class": -1}, "traffic_class is -1; it is a whole number from 0 to 255"),
        ({"payload": bytes(65536)}, "a payload of 65536 octets does not fit; IPv6 has room for 65535"),
    ],
)
def test_an_invalid_packet_is_not_built(fields: dict[str, object], message: str) -> None:
    with pytest.raises(FieldError, match=f"^{re.escape(message)}$"):
        Packet(**{"source": A, "destination": B, "next_header": 17, "payload": b""} | fields)  # type: ignore[arg-type]


# The headers behind it


def test_the_walk_gives_every_header_and_last_the_upper_layer() -> None:
    assert walk(EXTENDED) == [
        Header(ipv6.HOP_BY_HOP, 40, 56, named_at=6),
        Header(ipv6.ROUTING, 56, 64, named_at=40),
        Header(ipv6.DESTINATION_OPTIONS, 64, 72, named_at=56),
        Header(ipv6.UDP, 72, 75, named_at=64),
    ]
    assert walk(PLAIN) == [Header(ipv6.UDP, 40, 43, named_at=6)]


@pytest.mark.parametrize("protocol", [ipv6.FRAGMENT, ipv6.ICMPV6, ipv6.NO_NEXT_HEADER, ipv6.ETHERNET, 50, 51, 253])
def test_whatever_is_not_an_extension_header_ends_the_walk(protocol: int) -> None:
    packet = Packet(A, B, protocol, bytes([ipv6.ROUTING]) * 16).encode()
    assert [header.protocol for header in walk(packet)] == [protocol]


def test_a_header_beyond_the_packet_is_refused_when_it_is_reached_and_not_before() -> None:
    packet = bytearray(EXTENDED)
    packet[57] = 9
    reached = ipv6.headers(bytes(packet))
    assert next(reached).protocol == ipv6.HOP_BY_HOP
    error = refusal(next, reached)
    assert (error.reason, str(error)) == (
        PacketReason.HEADER_TOO_LONG,
        "the extension header of type 43 at octet 56 would end at 136, and the packet ends at 75",
    )


@pytest.mark.parametrize("octets", range(8))
def test_an_extension_header_that_is_not_there_is_not_read(octets: int) -> None:
    packet = Packet(A, B, ipv6.ROUTING, bytes(octets)).encode()
    assert refusal(walk, packet).reason is PacketReason.HEADER_TOO_LONG


def test_hop_by_hop_options_in_a_wrong_place_are_answered_at_the_octet_that_names_them() -> None:
    packet = Packet(A, B, ipv6.ROUTING, bytes.fromhex("00 00 04 00 00 00 0000") + HBH + ROUTING).encode()
    error = refusal(walk, packet)
    assert error.reason is PacketReason.HOP_BY_HOP_NOT_FIRST
    assert str(error) == "hop-by-hop options stand at octet 48; they may only follow the IPv6 header"
    assert error.problem == Problem(code=1, pointer=40)


@pytest.mark.parametrize("place", range(3))
def test_a_header_that_is_taken_out_leaves_the_others_as_they_were(place: int) -> None:
    parts = [HBH, ROUTING, DESTINATION]
    packet = bytearray(EXTENDED)
    ipv6.remove(packet, walk(EXTENDED)[place])
    left = walk(ipv6.whole(bytes(packet)))
    assert [header.protocol for header in left] == [
        protocol for at, protocol in enumerate((0, 43, 60, 17)) if at != place
    ]
    # Next Header is the first octet of each part, so compare what stands behind it.
    assert b"".join(bytes(packet)[header.start + 1 : header.end] for header in left[:-1]) == b"".join(
        part[1:] for at, part in enumerate(parts) if at != place
    )
    assert bytes(packet).endswith(b"abc")


@given(st.binary(max_size=120), st.booleans())
def test_any_octets_are_walked_or_refused(data: bytes, with_header: bool) -> None:
    packet = Packet(A, B, data[0] % 64 if data else 0, data).encode() if with_header else data
    try:
        found = walk(ipv6.whole(packet))
    except PacketError as error:
        assert error.reason in PacketReason
    else:
        assert not found[-1].is_extension
        assert all(one.end == other.start for one, other in pairwise(found))


# Options


def test_the_slice_option_has_the_octets_of_the_draft() -> None:
    assert ipv6.encode_header(ipv6.ROUTING, [SliceOption(7).option()]).hex() == HBH.hex()
    (option,) = ipv6.parse_header(EXTENDED, walk(EXTENDED)[0])
    assert option == Option(0x1E, bytes.fromhex("00 00 0000 00000007"), at=42)
    assert ipv6.find_slice([option]) == SliceOption(7)


def test_the_slice_option_can_be_strict_and_have_another_type() -> None:
    option = SliceOption(0xFFFFFFFF, strict=True).option(0x3E)
    assert option.encode().hex() == "3e08" + "80000000" + "ffffffff"
    assert ipv6.find_slice([option], 0x3E) == SliceOption(0xFFFFFFFF, strict=True)
    assert ipv6.find_slice([option]) is None


def test_what_is_reserved_in_a_slice_option_is_ignored() -> None:
    assert SliceOption.parse(Option(0x1E, bytes.fromhex("7f 00 ffff 00000009"))) == SliceOption(9)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([Option(0x1E, bytes(7))], "a slice option has 8 octets of data, not 7"),
        ([Option(0x1E, b"\0\1" + bytes(6))], "context type 1 of a slice option is not known; 0 is"),
        ([SliceOption(1).option()] * 2, "2 slice options in one packet; there may be one"),
    ],
)
def test_a_slice_that_cannot_be_determined_is_refused(options: list[Option], message: str) -> None:
    error = refusal(ipv6.find_slice, options)
    assert (error.reason, str(error)) == (PacketReason.BAD_SLICE_OPTION, message)


@pytest.mark.parametrize("octets", range(12))
def test_padding_fills_a_header_up_to_8_octets(octets: int) -> None:
    header = ipv6.encode_header(17, [Option(0x1E, bytes(octets))])
    assert len(header) % 8 == 0
    assert header[1] == len(header) // 8 - 1
    packet = Packet(A, B, ipv6.HOP_BY_HOP, header).encode()
    assert [option.data for option in ipv6.parse_header(packet, walk(packet)[0])] == [bytes(octets)]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("1e 05 0000 0000", "the option of type 0x1e at octet 42 goes beyond its header's end at 48"),
        ("01 03 0000 0000", None),  # what follows fits exactly
        ("00 00 00 00 00 1e", "the option of type 0x1e at octet 47 goes beyond its header's end at 48"),
        ("01 05 0000 0000", "the option of type 0x01 at octet 42 goes beyond its header's end at 48"),
    ],
)
def test_an_option_beyond_its_header_is_refused(body: str, message: str | None) -> None:
    packet = Packet(A, B, ipv6.HOP_BY_HOP, bytes.fromhex("11 00" + body) + b"abc").encode()
    if message is None:
        assert list(ipv6.parse_header(packet, walk(packet)[0])) == []
        return
    error = refusal(list, ipv6.parse_header(packet, walk(packet)[0]))
    assert (error.reason, str(error)) == (PacketReason.OPTION_TOO_LONG, message)


@pytest.mark.parametrize(("kind", "problem"), [(0x40, None), (0x80, Problem(2, 42)), (0xC0, Problem(2, 42))])
def test_an_option_that_must_be_known_ends_the_packet(kind: int, problem: Problem | None) -> None:
    option = Option(kind, b"", at=42)
    error = refusal(ipv6.check_known, [option], [])
    assert (error.reason, error.problem) == (PacketReason.OPTION_NOT_KNOWN, problem)
    ipv6.check_known([option], [kind])
    ipv6.check_known([Option(0x3F, b"")], [])  # first bits 00: to be skipped


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Option(1, b"").encode(), "option type 1 is padding, which is added where it is needed"),
        (lambda: Option(5, bytes(256)).encode(), "256 octets do not fit into an option, which has room for 255"),
        (lambda: SliceOption(1 << 32), "slice id is 4294967296; it is a whole number from 0 to 4294967295"),
        (
            lambda: ipv6.encode_header(17, [Option(5, bytes(255))] * 9),
            "header length in 8 octets is 289; it is a whole number from 0 to 255",
        ),
    ],
)
def test_an_invalid_option_is_not_built(build: object, message: str) -> None:
    assert callable(build)
    with pytest.raises(FieldError, match=f"^{re.escape(message)}$"):
        build()


@given(st.binary(min_size=6, max_size=2054).filter(lambda data: len(data) % 8 == 6))
def test_any_options_are_read_or_refused_and_nothing_behind_them(body: bytes) -> None:
    header = bytes([17, (len(body) + 2) // 8 - 1]) + body
    packet = Packet(A, B, ipv6.HOP_BY_HOP, header + b"\xee" * 8).encode()
    try:
        found = list(ipv6.parse_header(packet, walk(packet)[0]))
    except PacketError as error:
        assert error.reason is PacketReason.OPTION_TOO_LONG
    else:
        assert all(packet[option.at] == option.type for option in found)
        assert all(option.at + 2 + len(option.data) <= 40 + len(header) for option in found)
