"""ICMPv6: the errors that a segment endpoint sends, and echo (RFC 4443).

    octets 0     type
           1     code
           2-3   checksum over a pseudo header, these octets and all that follow
           4-7   errors: pointer, or unused; echo: identifier and sequence number
           8-    errors: as much of the packet as fits into 1280 octets; echo: data

`may_answer` holds the cases of section 2.4(e) in which no error may be sent. Rate limits (2.4(f)) need a clock and are
the caller's. Code 4 of Parameter Problem, "SR Upper-layer Header Error", is from RFC 8986.
"""

from __future__ import annotations

import enum
import struct
from dataclasses import dataclass
from ipaddress import IPv6Address

from testbed.frames.ipv6 import (
    HEADER_OCTETS,
    ICMPV6,
    MINIMUM_MTU,
    Header,
    Packet,
    PacketError,
    PacketReason,
    addresses,
    check_bits,
    headers,
)

ERRONEOUS_FIELD = 0
SR_UPPER_LAYER = 4
"""The last of the codes of Parameter Problem, by RFC 8986."""
HOP_LIMIT_EXCEEDED = 0
"""The code of Time Exceeded."""
PORT_UNREACHABLE = 4
"""The code of Destination Unreachable."""

_HEADER = struct.Struct("!BBHI")
_CHECKSUM_AT = 2
_FIRST_INFORMATIONAL = 128
_REDIRECT = 137


class ErrorType(enum.IntEnum):
    DESTINATION_UNREACHABLE = 1
    PACKET_TOO_BIG = 2
    TIME_EXCEEDED = 3
    PARAMETER_PROBLEM = 4


class EchoType(enum.IntEnum):
    REQUEST = 128
    REPLY = 129


@dataclass(frozen=True)
class Error:
    """An error message. `value` is the pointer of a Parameter Problem, the MTU of Packet Too Big, else 0."""

    type: ErrorType
    code: int
    value: int
    invoking: bytes  # the packet that caused it, or its beginning

    def encode(self, source: IPv6Address, destination: IPv6Address) -> bytes:
        check_bits("ICMPv6 code", self.code, 8)
        check_bits("ICMPv6 pointer", self.value, 32)
        room = MINIMUM_MTU - HEADER_OCTETS - _HEADER.size
        message = _HEADER.pack(self.type, self.code, 0, self.value) + self.invoking[:room]
        return with_checksum(source, destination, message)


@dataclass(frozen=True)
class Echo:
    """An echo request or reply."""

    type: EchoType
    identifier: int
    sequence: int
    data: bytes

    def encode(self, source: IPv6Address, destination: IPv6Address) -> bytes:
        check_bits("echo identifier", self.identifier, 16)
        check_bits("echo sequence number", self.sequence, 16)
        head = _HEADER.pack(self.type, 0, 0, self.identifier << 16 | self.sequence)
        return with_checksum(source, destination, head + self.data)

    def reply(self) -> Echo:
        return Echo(EchoType.REPLY, self.identifier, self.sequence, self.data)


def parse(source: IPv6Address, destination: IPv6Address, message: bytes) -> Error | Echo:
    """Read a message that came between these addresses; the destination is the last one of the packet's path."""
    if len(message) < _HEADER.size:
        raise PacketError(
            PacketReason.TOO_SHORT, f"{len(message)} octets are too few for an ICMPv6 message, which has 8"
        )
    if (found := _sum(source, destination, message)) != 0xFFFF:
        raise PacketError(
            PacketReason.BAD_CHECKSUM, f"the ICMPv6 checksum is wrong: the sum is {found:#06x}, not 0xffff"
        )
    kind, code, _, value = _HEADER.unpack_from(message)
    if kind in (EchoType.REQUEST, EchoType.REPLY) and code == 0:
        return Echo(EchoType(kind), value >> 16, value & 0xFFFF, message[_HEADER.size :])
    if kind in ErrorType.__members__.values():
        return Error(ErrorType(kind), code, value, message[_HEADER.size :])
    raise PacketError(
        PacketReason.ICMP_TYPE_NOT_KNOWN, f"ICMPv6 type {kind}, code {code} is neither an echo nor an error known here"
    )


def answer(source: IPv6Address, error: Error) -> bytes:
    """Return the packet that reports the error to the sender of `error.invoking`."""
    destination, _ = addresses(error.invoking)
    return Packet(source, destination, ICMPV6, error.encode(source, destination)).encode()


def may_answer(packet: bytes) -> bool:
    """Return True if a packet may be answered with an error: it is not an error itself, and goes from one node to one
    node.
    """
    source, destination = addresses(packet)
    if source.is_multicast or source.is_unspecified or destination.is_multicast:
        return False
    try:
        upper = _upper(packet)
    except PacketError:
        return True  # the part behind the broken header causes no error
    if upper.protocol != ICMPV6 or upper.start >= len(packet):
        return True
    kind = packet[upper.start]
    return kind >= _FIRST_INFORMATIONAL and kind != _REDIRECT


def _upper(packet: bytes) -> Header:
    *_, last = headers(packet)
    return last


def with_checksum(source: IPv6Address, destination: IPv6Address, message: bytes) -> bytes:
    """Return the message with its checksum filled in."""
    checksum = ~_sum(source, destination, message) & 0xFFFF
    return message[:_CHECKSUM_AT] + checksum.to_bytes(2) + message[_CHECKSUM_AT + 2 :]


def _sum(source: IPv6Address, destination: IPv6Address, message: bytes) -> int:
    """Return the ones' complement sum of 16 bits (RFC 8200, section 8.1); 0xffff if the checksum in it is right.

    A large number is its 16-bit digits, and 2**16 is 1 modulo 0xffff, so one remainder adds them all up.
    """
    pseudo = source.packed + destination.packed + struct.pack("!II", len(message), ICMPV6)
    total = int.from_bytes(pseudo + message + bytes(len(message) % 2))
    return total % 0xFFFF or 0xFFFF
