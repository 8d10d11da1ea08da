"""End.X.PFC, clause by clause of the draft's section 2, on packets that are written out in `srv6_world`."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.frames import Mac, icmpv6, ipv6, mac_control
from testbed.frames.headroom import MeasurementRequest
from testbed.frames.icmpv6 import Echo, EchoType, Error, ErrorType
from testbed.frames.ipv6 import Packet
from testbed.frames.mac_control import PauseFrame, PfcFrame
from testbed.frames.srh import Srh
from testbed.subjects.srv6.protocol.domain import SrDomain, Srv6Error
from testbed.subjects.srv6.protocol.endx_pfc import (
    Cause,
    Deliver,
    Drop,
    DropReason,
    Forward,
    LocalSid,
    Measure,
    PauseJ,
    SendIcmp,
    process,
)
from testbed.subjects.srv6.protocol.local_sids import EndXPfc
from testbed.subjects.srv6.protocol.sid import Adjacency, Flavours
from tests.unit.subjects.srv6.srv6_world import (
    AT_R1,
    AT_R1_FOR_SLICE_7,
    DATA_AFTER_R1,
    DATA_AT_R1,
    DOMAIN,
    INNER,
    PFC,
    R1,
    R1_END,
    R1_PFC,
    R1_PFC_HEX,
    R2_END,
    R2_END_HEX,
    R3,
    R3_END,
    R3_HEX,
    R3_PFC_HEX,
    REVERSE_SRH,
    SENT_BY_R3,
    SLICE_7,
    TO_R2,
    address,
    changed,
    with_flavours,
)

LOCAL = LocalSid(R1_PFC, DOMAIN)
PSP, USP, BOTH = Flavours.PSP, Flavours.USP, Flavours.PSP | Flavours.USP
HOP_LIMIT, SEGMENTS_LEFT, LAST_ENTRY = 7, 43, 44
"""The offsets of octets in a packet whose first extension header is the segment routing header."""


def local(flavours: Flavours = Flavours.NONE, **settings: object) -> LocalSid:
    return LocalSid(with_flavours(R1_PFC, flavours), DOMAIN, **settings)  # type: ignore[arg-type]


def to_r1(next_header: int, payload: bytes, **fields: int) -> bytes:
    """Return a packet from R3 straight to R1's SID."""
    return Packet(R3, R1_PFC.address, next_header, payload, **fields).encode()


def with_srh(next_header: int, content: bytes, left: int = 0) -> bytes:
    """Return such a packet with the segment routing header of the reverse tunnel."""
    routing = bytearray.fromhex(REVERSE_SRH.format(left=f"{left:02x}"))
    routing[0] = next_header
    return to_r1(ipv6.ROUTING, bytes(routing) + content)


def error_in(result: object, packet: bytes) -> tuple[Cause, ErrorType, int, int]:
    """Return the content of an ICMP error, which must go back to the source, from the SID, and quote the packet as it
    came.
    """
    assert isinstance(result, SendIcmp)
    answer = Packet.parse(result.packet)
    message = icmpv6.parse(answer.source, answer.destination, answer.payload)
    assert isinstance(message, Error)
    assert (answer.source, answer.destination, answer.next_header) == (R1_PFC.address, R3, ipv6.ICMPV6)
    assert message.invoking == packet
    return result.cause, message.type, message.code, message.value


# S01 to S16: on the way


def test_the_next_segment_becomes_the_destination_and_the_packet_leaves_by_j() -> None:
    assert process(DATA_AT_R1, LOCAL) == Forward(DATA_AFTER_R1, TO_R2)


def test_only_hop_limit_segments_left_and_destination_change() -> None:
    result = process(DATA_AT_R1, LOCAL)
    assert isinstance(result, Forward)
    places = [at for at, (before, after) in enumerate(zip(DATA_AT_R1, result.packet, strict=True)) if before != after]
    assert set(places) <= {HOP_LIMIT, SEGMENTS_LEFT, *range(24, 40)}
    assert result.packet[HOP_LIMIT] == DATA_AT_R1[HOP_LIMIT] - 1
    assert result.packet[SEGMENTS_LEFT] == DATA_AT_R1[SEGMENTS_LEFT] - 1


@pytest.mark.parametrize("left", [1, 2, 3])
def test_the_segment_is_the_one_at_the_index_after_counting_down(left: int) -> None:
    result = process(changed(DATA_AT_R1, SEGMENTS_LEFT, left), LOCAL)
    assert isinstance(result, Forward)
    assert result.packet[24:40] == DATA_AT_R1[48 + 16 * (left - 1) :][:16]


def test_forwarding_uses_the_first_member_of_j_only() -> None:
    other = Adjacency("wan1", address("fd00:b:13::3"))
    sid = replace(R1_PFC, adjacencies=(other, TO_R2))
    assert process(DATA_AT_R1, LocalSid(sid, DOMAIN)) == Forward(DATA_AFTER_R1, other)


@pytest.mark.parametrize("hop_limit", [0, 1])
def test_hop_limit_1_or_less_is_answered_with_time_exceeded(hop_limit: int) -> None:
    packet = changed(with_srh(ipv6.UDP, bytes(8), left=1), HOP_LIMIT, hop_limit)
    assert error_in(process(packet, LOCAL), packet) == (Cause.HOP_LIMIT, ErrorType.TIME_EXCEEDED, 0, 0)


def test_hop_limit_2_is_enough() -> None:
    result = process(changed(DATA_AT_R1, HOP_LIMIT, 2), LOCAL)
    assert isinstance(result, Forward)
    assert result.packet[HOP_LIMIT] == 1


def test_the_last_segment_is_served_whatever_the_hop_limit_is() -> None:
    """Check that step S02 comes before S05."""
    for hop_limit in (0, 1, 64):
        assert isinstance(process(changed(AT_R1, HOP_LIMIT, hop_limit), LOCAL), PauseJ)


@pytest.mark.parametrize(
    ("left", "last_entry", "allowed"),
    [
        (1, 2, True),
        (3, 2, True),  # one more than the last entry: the reduced encapsulation
        (4, 2, False),
        (255, 2, False),
        (1, 3, False),  # there is room for three segments
        (1, 255, False),
        (2, 1, True),
        (3, 1, False),
    ],
)
def test_an_index_beyond_the_list_is_answered_at_segments_left(left: int, last_entry: int, allowed: bool) -> None:
    packet = changed(with_srh(ipv6.UDP, bytes(8), left), LAST_ENTRY, last_entry)
    result = process(packet, LOCAL)
    if allowed:
        assert isinstance(result, Forward)
    else:
        assert error_in(result, packet) == (Cause.SEGMENTS_LEFT, ErrorType.PARAMETER_PROBLEM, 0, SEGMENTS_LEFT)


def test_the_pointer_follows_the_routing_header_behind_others() -> None:
    packet = to_r1(ipv6.HOP_BY_HOP, bytes.fromhex(SLICE_7 + REVERSE_SRH.format(left="09")))
    assert error_in(process(packet, LOCAL), packet) == (
        Cause.SEGMENTS_LEFT,
        ErrorType.PARAMETER_PROBLEM,
        0,
        SEGMENTS_LEFT + 16,
    )


@pytest.mark.parametrize("extra_length", [0, 1])
def test_a_header_without_room_for_a_segment_is_answered_and_not_read_beyond(extra_length: int) -> None:
    packet = to_r1(ipv6.ROUTING, bytes([59, extra_length, 4, 1, 0, 0, 0, 0]) + bytes(8 * extra_length))
    assert error_in(process(packet, LOCAL), packet)[0] is Cause.SEGMENTS_LEFT


def test_hop_limit_is_judged_before_the_list() -> None:
    packet = changed(changed(with_srh(ipv6.UDP, b"", left=9), HOP_LIMIT, 1), LAST_ENTRY, 200)
    assert error_in(process(packet, LOCAL), packet)[0] is Cause.HOP_LIMIT


def test_tlvs_are_passed_on_as_they_are_even_if_broken() -> None:
    routing = bytes.fromhex(f"3b 05 04 01 01 00 0000 {R3_PFC_HEX} {R1_PFC_HEX} 05ff010203040506")
    result = process(to_r1(ipv6.ROUTING, routing), LOCAL)
    assert isinstance(result, Forward)
    assert result.packet[40:] == changed(routing, 3, 0)


def test_what_stands_behind_the_routing_header_does_not_matter_on_the_way() -> None:
    assert isinstance(process(with_srh(ipv6.DESTINATION_OPTIONS, b"\x2b\xff", left=1), LOCAL), Forward)
    assert isinstance(process(with_srh(ipv6.HOP_BY_HOP, b"", left=1), LOCAL), Forward)
    assert isinstance(process(with_srh(ipv6.FRAGMENT, bytes(8), left=1), LOCAL), Forward)


def test_ethernet_padding_is_not_passed_on() -> None:
    assert process(DATA_AT_R1 + bytes(18), LOCAL) == Forward(DATA_AFTER_R1, TO_R2)


def test_another_routing_type_is_answered_with_segments_left_and_passed_over_without() -> None:
    packet = to_r1(ipv6.ROUTING, bytes.fromhex("3a 00 02 01 00000000"))
    assert error_in(process(packet, LOCAL), packet) == (Cause.ROUTING_TYPE, ErrorType.PARAMETER_PROBLEM, 0, 42)
    assert isinstance(process(to_r1(ipv6.ROUTING, bytes.fromhex("8f 00 02 00 00000000") + PFC), LOCAL), PauseJ)


# Flavours


def test_psp_takes_the_routing_header_off_at_the_last_but_one_segment() -> None:
    packet = to_r1(ipv6.HOP_BY_HOP, bytes.fromhex(SLICE_7 + REVERSE_SRH.format(left="01")) + PFC, hop_limit=9)
    without = bytes.fromhex(SLICE_7.replace("2b", "8f", 1)) + PFC
    expected = Packet(R3, R1_PFC.address, ipv6.HOP_BY_HOP, without, hop_limit=8).encode()
    for flavours in (PSP, BOTH):
        assert process(packet, local(flavours)) == Forward(expected, TO_R2)


@pytest.mark.parametrize(("flavours", "left"), [(Flavours.NONE, 1), (USP, 1), (PSP, 2), (BOTH, 2)])
def test_the_routing_header_stays_without_psp_and_where_segments_are_left(flavours: Flavours, left: int) -> None:
    packet = changed(DATA_AT_R1, SEGMENTS_LEFT, left)
    result = process(packet, local(flavours))
    assert isinstance(result, Forward)
    assert len(result.packet) == len(packet)
    assert result.packet[SEGMENTS_LEFT] == left - 1


@pytest.mark.parametrize("flavours", [Flavours.NONE, PSP, USP, BOTH])
def test_usp_takes_finished_routing_headers_off_before_the_upper_layer(flavours: Flavours) -> None:
    second = bytes.fromhex(f"84 02 04 00 00 00 0000 {R1_PFC_HEX}")
    packet = with_srh(ipv6.ROUTING, second + b"content")
    result = process(packet, local(flavours, allowed=frozenset({132})))
    if USP in flavours:
        assert result == Deliver(to_r1(132, b"content"), 132, 40)
    else:
        assert result == Deliver(packet, 132, 40 + 56 + 24)


@pytest.mark.parametrize("flavours", [Flavours.NONE, PSP, USP, BOTH])
def test_every_flavour_pauses_at_the_last_segment_with_and_without_routing_header(flavours: Flavours) -> None:
    frame = mac_control.parse(PFC)
    assert isinstance(frame, PfcFrame)
    for packet in (AT_R1, to_r1(ipv6.ETHERNET, PFC)):
        assert process(packet, local(flavours)) == PauseJ(frame, (TO_R2,), None)


def test_an_ip_packet_inside_is_not_decapsulated_by_any_flavour() -> None:
    """Check that there is no USD (0142)."""
    for flavours, inner in product((Flavours.NONE, PSP, USP, BOTH), (4, 41)):
        packet = with_srh(inner, INNER)
        assert error_in(process(packet, local(flavours)), packet)[1:3] == (ErrorType.PARAMETER_PROBLEM, 4)


# The upper layer: PFC


def test_a_pfc_frame_reaches_every_member_of_j_as_it_was_sent() -> None:
    members = (TO_R2, Adjacency("wan1", address("fd00:b:13::3")))
    sent = PfcFrame.of(mac_control.DESTINATION, {0: 1, 3: 0xFFFF, 7: 0})
    result = process(with_srh(ipv6.ETHERNET, sent.encode()), LocalSid(replace(R1_PFC, adjacencies=members), DOMAIN))
    assert result == PauseJ(sent, members, None)


def test_an_answer_to_a_measurement_goes_back_by_the_routers_that_it_came_by() -> None:
    """Check the way back: the request's list without its first segment, turned round, and then the source."""
    content = MeasurementRequest(Mac.parse("02:00:00:00:00:03"), 7, 0, 1).encode()
    assert process(with_srh(ipv6.ETHERNET, content), local(measures=True)) == Measure(
        content, (R1_PFC.address, R2_END.address, R3)
    )
    assert process(to_r1(ipv6.ETHERNET, content), local(measures=True)) == Measure(content, (R1_PFC.address, R3))
    longer = Srh.along([R3_END.address, R2_END.address, R1_END.address, R1_PFC.address], ipv6.ETHERNET, done=3)
    found = process(to_r1(ipv6.ROUTING, longer.encode() + content), local(measures=True))
    assert found == Measure(content, (R1_PFC.address, R1_END.address, R2_END.address, R3))


def test_a_frame_needs_no_padding() -> None:
    assert isinstance(process(with_srh(ipv6.ETHERNET, PFC[:34]), LOCAL), PauseJ)


@pytest.mark.parametrize(("own_slice", "packet", "found"), [
    (None, AT_R1, None),
    (5, AT_R1, 5),
    (None, AT_R1_FOR_SLICE_7, 7),
    (5, AT_R1_FOR_SLICE_7, 7),
])  # fmt: skip
def test_the_slice_is_the_packets_else_the_sids_else_none(
    own_slice: int | None, packet: bytes, found: int | None
) -> None:
    result = process(packet, LocalSid(replace(R1_PFC, slice_id=own_slice), DOMAIN))
    assert isinstance(result, PauseJ)
    assert result.slice_id == found


def test_the_type_of_the_slice_option_is_a_setting() -> None:
    packet = changed(AT_R1_FOR_SLICE_7, 42, 0x3E)
    assert process(packet, local(slice_option=0x3E)).slice_id == 7  # type: ignore[union-attr]
    assert process(packet, LOCAL).slice_id is None  # type: ignore[union-attr]


def test_a_packet_without_a_known_slice_pauses_no_queue() -> None:
    assert process(changed(AT_R1_FOR_SLICE_7, 45, 1), LOCAL) == Drop(ipv6.PacketReason.BAD_SLICE_OPTION)


@pytest.mark.parametrize(
    ("inner", "reason"),
    [
        (b"\x02" + PFC[1:], DropReason.INNER_OTHER_MAC),
        (b"\x02" + PFC[1:12] + b"\x08\x00" + bytes(46), DropReason.INNER_OTHER_MAC),
        (PFC[:5] + b"\x02" + PFC[6:], DropReason.INNER_OTHER_MAC),
        (PFC[:12] + b"\x08\x00" + PFC[14:], DropReason.INNER_NOT_MAC_CONTROL),
        (PFC[:12] + b"\x81\x00\x60\x00" + PFC[12:], DropReason.INNER_NOT_MAC_CONTROL),
        (PFC[:14] + b"\x00\x02" + PFC[16:], DropReason.INNER_OTHER_OPCODE),
        (PauseFrame(mac_control.DESTINATION, 100).encode(), DropReason.INNER_PAUSE),
        (PFC[:33], DropReason.INNER_TOO_SHORT),
        (PFC[:13], DropReason.INNER_TOO_SHORT),
        (PFC[:5], DropReason.INNER_TOO_SHORT),
        (b"", DropReason.INNER_TOO_SHORT),
    ],
)
def test_ethernet_inside_that_is_not_pfc_is_dropped_under_its_own_reason(inner: bytes, reason: DropReason) -> None:
    assert process(with_srh(ipv6.ETHERNET, inner), LOCAL) == Drop(reason)
    assert process(to_r1(ipv6.ETHERNET, inner), LOCAL) == Drop(reason)


# The upper layer: anything else


@pytest.mark.parametrize("protocol", [4, 6, 41, 50, 51, 59, 132, 253])
def test_another_upper_layer_is_answered_at_its_header(protocol: int) -> None:
    for packet, pointer in ((to_r1(protocol, bytes(20)), 40), (with_srh(protocol, bytes(20)), 96)):
        assert error_in(process(packet, LOCAL), packet) == (
            Cause.UPPER_LAYER,
            ErrorType.PARAMETER_PROBLEM,
            4,
            pointer,
        )


def test_an_upper_layer_that_is_allowed_is_handed_over() -> None:
    packet = with_srh(6, bytes(20))
    assert process(packet, local(allowed=frozenset({6}))) == Deliver(packet, 6, 96)


def test_errors_come_from_another_address_if_one_is_given() -> None:
    result = process(to_r1(6, b""), local(answer_from=R1))
    assert isinstance(result, SendIcmp)
    assert Packet.parse(result.packet).source == R1


def test_a_fragment_is_not_put_together() -> None:
    assert process(with_srh(ipv6.FRAGMENT, bytes(8) + PFC), LOCAL) == Drop(DropReason.FRAGMENT)


def test_where_no_error_may_be_sent_the_packet_is_dropped_with_the_same_reason() -> None:
    icmp_error = Error(ErrorType.TIME_EXCEEDED, 0, 0, b"").encode(R3, R1_PFC.address)
    assert process(to_r1(ipv6.ICMPV6, icmp_error), LOCAL) == Drop(Cause.UPPER_LAYER)
    on_the_way = changed(with_srh(ipv6.ICMPV6, icmp_error, left=1), HOP_LIMIT, 1)
    assert process(on_the_way, LOCAL) == Drop(Cause.HOP_LIMIT)
    everybody = LocalSid(R1_PFC, SrDomain(["fd00:a::/32"], ["::/0"]))
    for source in ("::", "ff02::1"):
        packet = Packet(address(source), R1_PFC.address, 6, b"").encode()
        assert process(packet, everybody) == Drop(Cause.UPPER_LAYER)


@pytest.mark.parametrize(
    ("header", "options", "result"),
    [
        (ipv6.HOP_BY_HOP, "3b 00 05 02 0000 01 00", None),  # 00: skipped
        (ipv6.HOP_BY_HOP, "3b 00 45 02 0000 01 00", Drop(ipv6.PacketReason.OPTION_NOT_KNOWN)),
        (ipv6.HOP_BY_HOP, "3b 00 85 02 0000 01 00", 42),
        (ipv6.DESTINATION_OPTIONS, "3b 00 c5 02 0000 01 00", 42),
        (ipv6.DESTINATION_OPTIONS, "3b 00 05 07 0000 01 00", Drop(ipv6.PacketReason.OPTION_TOO_LONG)),
    ],
)
def test_options_are_processed_as_in_rfc_8200(header: int, options: str, result: Drop | int | None) -> None:
    packet = to_r1(header, bytes.fromhex(options))
    found = process(packet, LOCAL)
    if isinstance(result, int):
        assert error_in(found, packet) == (Cause.HEADER, ErrorType.PARAMETER_PROBLEM, 2, result)
    elif result is None:
        assert error_in(found, packet)[0] is Cause.UPPER_LAYER
    else:
        assert found == result


def test_hop_by_hop_options_in_a_wrong_place_are_answered() -> None:
    packet = with_srh(ipv6.HOP_BY_HOP, bytes.fromhex("3b 00 01 04 00000000"))
    assert error_in(process(packet, LOCAL), packet) == (Cause.HEADER, ErrorType.PARAMETER_PROBLEM, 1, 40)


# OAM


@pytest.mark.parametrize("send", [to_r1, with_srh])
def test_a_ping_is_answered_by_the_sid(send: Callable[[int, bytes], bytes]) -> None:
    request = Echo(EchoType.REQUEST, 0x1234, 7, b"are you there?").encode(R3, R1_PFC.address)
    result = process(send(ipv6.ICMPV6, request), LOCAL)
    reply = Packet(
        R1_PFC.address,
        R3,
        ipv6.ICMPV6,
        Echo(EchoType.REPLY, 0x1234, 7, b"are you there?").encode(R1_PFC.address, R3),
    )
    assert result == SendIcmp(reply.encode(), Cause.PING)


def test_a_ping_comes_back_in_its_traffic_class() -> None:
    request = Echo(EchoType.REQUEST, 1, 1, b"").encode(R3, R1_PFC.address)
    result = process(to_r1(ipv6.ICMPV6, request, traffic_class=0x60, hop_limit=1), LOCAL)
    assert isinstance(result, SendIcmp)
    reply = Packet.parse(result.packet)
    assert (reply.traffic_class, reply.hop_limit) == (0x60, 64)


def test_a_damaged_ping_is_dropped() -> None:
    request = Echo(EchoType.REQUEST, 1, 1, b"abcd").encode(R3, R1_PFC.address)
    assert process(to_r1(ipv6.ICMPV6, request[:-1] + b"x"), LOCAL) == Drop(ipv6.PacketReason.BAD_CHECKSUM)
    assert process(to_r1(ipv6.ICMPV6, request[:7]), LOCAL) == Drop(ipv6.PacketReason.TOO_SHORT)


def test_a_trace_that_ends_at_the_sid_gets_port_unreachable() -> None:
    for packet in (to_r1(ipv6.UDP, bytes(8)), with_srh(ipv6.UDP, bytes(8))):
        assert error_in(process(packet, LOCAL), packet) == (
            Cause.TRACEROUTE,
            ErrorType.DESTINATION_UNREACHABLE,
            4,
            0,
        )


def test_ping_and_traceroute_can_be_turned_off() -> None:
    off = local(ping=False, traceroute=False)
    request = Echo(EchoType.REQUEST, 1, 1, b"").encode(R3, R1_PFC.address)
    for packet in (to_r1(ipv6.ICMPV6, request), to_r1(ipv6.UDP, bytes(8))):
        assert error_in(process(packet, off), packet)[0] is Cause.UPPER_LAYER


# The SR domain


@pytest.mark.parametrize("packet", [AT_R1, DATA_AT_R1, to_r1(ipv6.UDP, b""), to_r1(6, b"")])
def test_from_outside_nothing_is_served_or_answered(packet: bytes) -> None:
    assert process(packet, LOCAL, from_outside=True) == Drop(DropReason.OUTSIDE_DOMAIN)
    stranger = packet[:8] + address("2001:db8::1").packed + packet[24:]
    assert process(stranger, LOCAL) == Drop(DropReason.OUTSIDE_DOMAIN)


def test_a_domain_needs_prefixes() -> None:
    with pytest.raises(Srv6Error, match=r"^an SR domain needs a prefix for its SIDs and one for its routers"):
        SrDomain(["fd00:a::/32"], [])
    with pytest.raises(Srv6Error, match=r"^'fd00:a::1/32' is not a prefix for the domain's SIDs"):
        SrDomain(["fd00:a::1/32"], ["fd00:b::/32"])


def test_other_destinations_pass_the_domains_filters() -> None:
    stranger, host = address("2001:db8::1"), address("2001:db8::2")
    assert DOMAIN.lets_in(stranger, host, from_outside=True)
    assert not DOMAIN.lets_in(R3, R1_PFC.address, from_outside=True)
    assert not DOMAIN.lets_in(stranger, R1_PFC.address)
    assert DOMAIN.lets_in(R3, R1_PFC.address)


# A router's SIDs and their counters


def test_every_end_of_a_packet_is_counted_by_sid_and_reason() -> None:
    router = EndXPfc([local(allowed=frozenset({6})), LocalSid(replace(R1_PFC, address=R1_END.address), DOMAIN)])
    for packet in (AT_R1, AT_R1, DATA_AT_R1, to_r1(6, b""), to_r1(ipv6.UDP, b""), to_r1(41, b"")):
        router.receive(packet)
    router.receive(with_srh(ipv6.ETHERNET, b""))
    router.receive(to_r1(ipv6.HOP_BY_HOP, b""))
    router.receive(AT_R1, from_outside=True)
    router.receive(Packet(R3, R3, 6, b"").encode())
    router.receive(b"\x60")
    assert router.counters() == {
        str(R1_PFC.address): {
            "answered traceroute": 1,
            "answered upper_layer": 1,
            "delivered": 1,
            "dropped header_too_long": 1,
            "dropped inner_too_short": 1,
            "dropped outside_domain": 1,
            "forwarded": 1,
            "paused": 2,
        },
        str(R1_END.address): {},
        "other": {"dropped not_this_sid": 1, "dropped too_short": 1},
    }


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: LocalSid(R1_END, DOMAIN), "R1's End fd00:a:1:1:: is not an End.X.PFC SID"),
        (lambda: LocalSid(R1_PFC, SrDomain(["fd00:c::/32"], ["::/0"])), "is in no prefix of the domain's SIDs"),
        (lambda: local(allowed=frozenset({143})), "cannot hand over types 143 (its own) and 44"),
        (lambda: EndXPfc([LOCAL, LOCAL]), "R1's End.X.PFC fd00:a:1:f:: is given twice"),
    ],
)
def test_an_invalid_local_sid_is_refused(build: Callable[[], object], message: str) -> None:
    with pytest.raises(Srv6Error, match=re.escape(message)):
        build()


# Anything at all


KNOWN = [
    AT_R1,
    DATA_AT_R1,
    SENT_BY_R3,
    AT_R1_FOR_SLICE_7,
    to_r1(ipv6.UDP, bytes(8)),
    with_srh(ipv6.ROUTING, AT_R1[40:]),
]
damage = st.lists(st.tuples(st.integers(0, 200), st.integers(0, 255)), max_size=6)


@given(st.sampled_from(KNOWN), damage, st.integers(0, 250), st.sampled_from([Flavours.NONE, PSP, USP, BOTH]))
def test_a_damaged_packet_has_a_result_and_changes_nothing_but_counters(
    packet: bytes, places: list[tuple[int, int]], length: int, flavours: Flavours
) -> None:
    octets = bytearray(packet)
    for place, value in places:
        if place < len(octets) and not 24 <= place < 40:
            octets[place] = value
    data = bytes(octets[: max(length, 40)])
    sid = local(flavours, allowed=frozenset({132}))
    router = EndXPfc([sid])
    result = router.receive(data)
    assert result == process(data, sid) == router.receive(data)
    counted = [count for counters in router.counters().values() for count in counters.values()]
    assert counted == [2]
    if isinstance(result, Forward):
        ipv6.whole(result.packet)
        assert len(result.packet) <= len(data)
    elif isinstance(result, SendIcmp):
        answer = Packet.parse(result.packet)
        icmpv6.parse(answer.source, answer.destination, answer.payload)
        assert len(result.packet) <= max(1280, len(data))


@given(st.binary(max_size=200))
def test_any_octets_are_dropped_with_a_reason(data: bytes) -> None:
    router = EndXPfc([LOCAL])
    assert isinstance(router.receive(data), Drop)


@given(st.integers(0, 255), st.binary(max_size=150))
def test_any_content_to_the_sid_has_a_result(next_header: int, content: bytes) -> None:
    result = process(to_r1(next_header, content), LOCAL)
    assert isinstance(result, Forward | PauseJ | SendIcmp | Deliver | Drop)


def test_the_world_is_consistent() -> None:
    """Check that R2's treatment of R3's packet gives the packet at R1."""
    assert AT_R1[24:40] == bytes.fromhex(R1_PFC_HEX)
    assert SENT_BY_R3[8:24] == bytes.fromhex(R3_HEX)
    assert SENT_BY_R3[24:40] == bytes.fromhex(R2_END_HEX)
    assert Packet.parse(AT_R1).payload[-60:] == PFC
