"""ICMPv6: the octets of RFC 4443, the checksum counted out by another way, and no surprise from anything else."""

from __future__ import annotations

from ipaddress import IPv6Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.frames import icmpv6, ipv6
from testbed.frames.icmpv6 import Echo, EchoType, Error, ErrorType
from testbed.frames.ipv6 import Packet, PacketError, PacketReason

A, B = IPv6Address("fd00:b::3"), IPv6Address("fd00:a:2:1::")
INVOKING = Packet(A, B, ipv6.UDP, bytes(8)).encode()

# Pseudo header: fd00+000b+0003 + fd00+000a+0002+0001 + length 000c + 003a; message: 8000+1234+0001+6162+6364.
# The sum is fd00+fd00+000b+0003+000a+0002+0001+000c+003a+8000+1234+0001+6162+6364 = 0x3515c, so 0x515f; its
# complement is 0xaea0.
REQUEST = bytes.fromhex("80 00 aea0 1234 0001 61626364")

messages = st.builds(
    Error, st.sampled_from(ErrorType), st.integers(0, 255), st.integers(0, 0xFFFFFFFF), st.binary(max_size=1232)
) | st.builds(Echo, st.sampled_from(EchoType), st.integers(0, 0xFFFF), st.integers(0, 0xFFFF), st.binary(max_size=80))


def checksum(source: IPv6Address, destination: IPv6Address, message: bytes) -> int:
    """Compute the checksum of RFC 1071, word by word, over a message whose checksum is taken as 0."""
    octets = source.packed + destination.packed + len(message).to_bytes(4) + bytes([0, 0, 0, 58])
    octets += message[:2] + bytes(2) + message[4:] + bytes(len(message) % 2)
    total = 0
    for at in range(0, len(octets), 2):
        total += octets[at] << 8 | octets[at + 1]
        total = (total & 0xFFFF) + (total >> 16)
    return total ^ 0xFFFF


def test_a_known_echo_has_the_octets_of_the_standard() -> None:
    echo = Echo(EchoType.REQUEST, 0x1234, 1, b"abcd")
    assert echo.encode(A, B).hex() == REQUEST.hex()
    assert icmpv6.parse(A, B, REQUEST) == echo
    assert echo.reply() == Echo(EchoType.REPLY, 0x1234, 1, b"abcd")


@pytest.mark.parametrize(
    ("error", "start"),
    [
        (Error(ErrorType.TIME_EXCEEDED, icmpv6.HOP_LIMIT_EXCEEDED, 0, INVOKING), "0300 .... 00000000"),
        (Error(ErrorType.PARAMETER_PROBLEM, icmpv6.ERRONEOUS_FIELD, 43, INVOKING), "0400 .... 0000002b"),
        (Error(ErrorType.PARAMETER_PROBLEM, icmpv6.SR_UPPER_LAYER, 96, INVOKING), "0404 .... 00000060"),
        (Error(ErrorType.DESTINATION_UNREACHABLE, icmpv6.PORT_UNREACHABLE, 0, INVOKING), "0104 .... 00000000"),
    ],
)
def test_errors_have_the_octets_of_the_standard_and_quote_the_packet(error: Error, start: str) -> None:
    message = error.encode(B, A)
    head, value = start.split(" .... ")
    assert (message[:2].hex(), message[4:8].hex(), message[8:]) == (head, value, INVOKING)


@given(st.ip_addresses(v=6), st.ip_addresses(v=6), messages)
def test_a_message_is_read_as_it_was_built_and_its_checksum_is_right(
    source: IPv6Address, destination: IPv6Address, message: Error | Echo
) -> None:
    octets = message.encode(source, destination)
    assert int.from_bytes(octets[2:4]) == checksum(source, destination, octets)
    assert icmpv6.parse(source, destination, octets) == message


@given(messages, st.integers(0, 2000), st.integers(1, 255))
def test_one_damaged_octet_is_noticed(message: Error | Echo, place: int, damage: int) -> None:
    octets = bytearray(message.encode(A, B))
    octets[place % len(octets)] ^= damage
    with pytest.raises(PacketError) as caught:
        icmpv6.parse(A, B, bytes(octets))
    assert caught.value.reason is PacketReason.BAD_CHECKSUM


def test_a_message_between_others_is_noticed() -> None:
    with pytest.raises(PacketError, match=r"^the ICMPv6 checksum is wrong: the sum is 0x"):
        icmpv6.parse(A, A, REQUEST)


@pytest.mark.parametrize("length", range(8))
def test_a_cut_message_is_refused(length: int) -> None:
    with pytest.raises(PacketError) as caught:
        icmpv6.parse(A, B, REQUEST[:length])
    assert str(caught.value) == f"{length} octets are too few for an ICMPv6 message, which has 8"


@pytest.mark.parametrize(("kind", "code"), [(135, 0), (128, 1), (5, 0)])
def test_another_message_is_refused(kind: int, code: int) -> None:
    message = bytes([kind, code]) + bytes(6)
    message = message[:2] + checksum(A, B, message).to_bytes(2) + message[4:]
    with pytest.raises(PacketError) as caught:
        icmpv6.parse(A, B, message)
    assert caught.value.reason is PacketReason.ICMP_TYPE_NOT_KNOWN
    assert str(caught.value) == f"ICMPv6 type {kind}, code {code} is neither an echo nor an error known here"


@given(st.binary(max_size=60))
def test_any_octets_are_a_message_or_refused(message: bytes) -> None:
    try:
        icmpv6.parse(A, B, message)
    except PacketError as error:
        assert error.reason in {PacketReason.TOO_SHORT, PacketReason.BAD_CHECKSUM, PacketReason.ICMP_TYPE_NOT_KNOWN}


# Answers


def test_an_answer_goes_to_the_source_and_never_beyond_1280_octets() -> None:
    invoking = Packet(A, B, ipv6.UDP, bytes(range(256)) * 8).encode()
    answer = Packet.parse(icmpv6.answer(B, Error(ErrorType.TIME_EXCEEDED, 0, 0, invoking)))
    assert (answer.source, answer.destination, answer.next_header, answer.hop_limit) == (B, A, 58, 64)
    assert len(answer.encode()) == 1280
    error = icmpv6.parse(B, A, answer.payload)
    assert isinstance(error, Error)
    assert error.invoking == invoking[: 1280 - 40 - 8]


def icmp(kind: int) -> bytes:
    return bytes([kind, 0]) + bytes(6)


ROUTING = bytes.fromhex("3a 02 04 01 00 00 0000") + B.packed


@pytest.mark.parametrize(
    ("packet", "allowed"),
    [
        (Packet(A, B, ipv6.UDP, bytes(8)), True),
        (Packet(A, B, ipv6.ICMPV6, icmp(128)), True),
        (Packet(A, B, ipv6.ICMPV6, b""), True),
        (Packet(A, B, ipv6.ICMPV6, icmp(1)), False),
        (Packet(A, B, ipv6.ICMPV6, icmp(127)), False),
        (Packet(A, B, ipv6.ICMPV6, icmp(137)), False),  # redirect
        (Packet(A, B, ipv6.ROUTING, ROUTING + icmp(3)), False),
        (Packet(A, B, ipv6.ROUTING, ROUTING + icmp(128)), True),
        (Packet(A, B, ipv6.ROUTING, b"\x3a\x09"), True),  # cut: it cannot be seen to be an error
        (Packet(IPv6Address("::"), B, ipv6.UDP, b""), False),
        (Packet(IPv6Address("ff02::1"), B, ipv6.UDP, b""), False),
        (Packet(A, IPv6Address("ff02::1"), ipv6.UDP, b""), False),
    ],
)
def test_errors_and_packets_without_a_unicast_source_are_not_answered(packet: Packet, allowed: bool) -> None:
    assert icmpv6.may_answer(packet.encode()) is allowed
