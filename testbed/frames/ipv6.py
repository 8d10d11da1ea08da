"""IPv6 packets: the fixed header, and the way along the headers behind it (RFC 8200).

    octets 0-3   version 6, traffic class, flow label
           4-5   payload length: all that follows octet 39, extension headers too
           6     next header
           7     hop limit
           8-23  source
          24-39  destination

`headers` goes from header to header and reads no further than it is asked to, so what a router does with one header
does not depend on what stands behind it. It decodes the extension headers that a node on the way may have to look at:
hop-by-hop options, destination options and routing. Everything else, fragments and authentication too, ends the walk
as the "upper layer". Octets behind the payload length, as Ethernet adds them to short packets, are cut off.

Not here: what is in the segment routing header (`srh`) and in ICMPv6 (`icmpv6`);
jumbograms, which have payload length 0 and count as empty.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from ipaddress import IPv6Address

from testbed.errors import XoffError
from testbed.frames import FieldError

HOP_BY_HOP = 0
UDP = 17
ROUTING = 43
FRAGMENT = 44
ICMPV6 = 58
NO_NEXT_HEADER = 59
DESTINATION_OPTIONS = 60
ETHERNET = 143
"""An Ethernet frame without FCS, from the destination MAC on (RFC 8986, section 10.1)."""

EXTENSIONS = frozenset({HOP_BY_HOP, ROUTING, DESTINATION_OPTIONS})

HEADER_OCTETS = 40
LONGEST_PAYLOAD = 0xFFFF
MINIMUM_MTU = 1280
HOP_LIMIT = 64
"""The hop limit with which packets of ours start."""

NEXT_HEADER_AT = 6
HOP_LIMIT_AT = 7
DESTINATION_AT = 24
_PAYLOAD_LENGTH_AT = 4

_HEADER = struct.Struct("!IHBB16s16s")
_LENGTH = struct.Struct("!H")


class PacketReason(enum.StrEnum):
    """The reason why octets are not the packet that they should be; the values are names of counters."""

    TOO_SHORT = "too_short"
    NOT_IPV6 = "not_ipv6"
    TRUNCATED = "truncated"  # the payload length promises more than came
    HEADER_TOO_LONG = "header_too_long"  # an extension header would end behind the packet
    HOP_BY_HOP_NOT_FIRST = "hop_by_hop_not_first"
    OPTION_TOO_LONG = "option_too_long"
    OPTION_NOT_KNOWN = "option_not_known"
    BAD_SLICE_OPTION = "bad_slice_option"
    NOT_SRH = "not_srh"
    BAD_LAST_ENTRY = "bad_last_entry"
    BAD_SEGMENTS_LEFT = "bad_segments_left"
    TLV_TOO_LONG = "tlv_too_long"
    BAD_CHECKSUM = "bad_checksum"
    ICMP_TYPE_NOT_KNOWN = "icmp_type_not_known"


@dataclass(frozen=True)
class Problem:
    """The ICMPv6 Parameter Problem that RFC 8200 requires as the answer."""

    code: int
    pointer: int


class PacketError(XoffError):
    """Octets that are not a valid packet."""

    def __init__(self, reason: PacketReason, message: str, problem: Problem | None = None) -> None:
        super().__init__(message)
        self.reason = reason
        self.problem = problem


@dataclass(frozen=True)
class Packet:
    """An IPv6 packet; `payload` is everything behind the fixed header."""

    source: IPv6Address
    destination: IPv6Address
    next_header: int
    payload: bytes
    hop_limit: int = HOP_LIMIT
    traffic_class: int = 0
    flow_label: int = 0

    def __post_init__(self) -> None:
        for name, bits in (("next_header", 8), ("hop_limit", 8), ("traffic_class", 8), ("flow_label", 20)):
            check_bits(name, getattr(self, name), bits)
        if len(self.payload) > LONGEST_PAYLOAD:
            raise FieldError(f"a payload of {len(self.payload)} octets does not fit; IPv6 has room for 65535")

    def encode(self) -> bytes:
        first = 6 << 28 | self.traffic_class << 20 | self.flow_label
        return (
            _HEADER.pack(
                first,
                len(self.payload),
                self.next_header,
                self.hop_limit,
                self.source.packed,
                self.destination.packed,
            )
            + self.payload
        )

    @classmethod
    def parse(cls, data: bytes) -> Packet:
        """Read a packet as it comes from a port, without its Ethernet header."""
        packet = whole(data)
        first, _, next_header, hop_limit, source, destination = _HEADER.unpack_from(packet)
        return cls(
            IPv6Address(source),
            IPv6Address(destination),
            next_header,
            packet[HEADER_OCTETS:],
            hop_limit,
            first >> 20 & 0xFF,
            first & 0xFFFFF,
        )


@dataclass(frozen=True)
class Header:
    """The place of one header of the chain in its packet."""

    protocol: int
    start: int
    end: int  # of an upper-layer header: the end of the packet
    named_at: int  # the octet before it that holds `protocol`: a Next Header field

    @property
    def is_extension(self) -> bool:
        return self.protocol in EXTENSIONS


def whole(data: bytes) -> bytes:
    """Return the packet at the start of `data`, up to the end of its payload; PacketError if it is not all there."""
    if len(data) < HEADER_OCTETS:
        raise PacketError(PacketReason.TOO_SHORT, f"{len(data)} octets are too few for an IPv6 header, which has 40")
    if data[0] >> 4 != 6:
        raise PacketError(PacketReason.NOT_IPV6, f"version {data[0] >> 4} is not IPv6")
    (length,) = _LENGTH.unpack_from(data, _PAYLOAD_LENGTH_AT)
    end = HEADER_OCTETS + length
    if len(data) < end:
        raise PacketError(
            PacketReason.TRUNCATED,
            f"the payload has {length} octets, and only {len(data) - HEADER_OCTETS} of them came",
        )
    return data if len(data) == end else data[:end]


def addresses(packet: bytes) -> tuple[IPv6Address, IPv6Address]:
    """Return source and destination of a packet that is `whole`."""
    return IPv6Address(packet[8:24]), IPv6Address(packet[24:40])


def headers(packet: bytes) -> Iterator[Header]:
    """Yield the headers behind the fixed one, in order: extension headers, and last the upper layer's.

    `packet` has to be `whole`. PacketError is raised when an invalid header is reached, not before.
    """
    named_at, start = NEXT_HEADER_AT, HEADER_OCTETS
    while (protocol := packet[named_at]) in EXTENSIONS:
        if protocol == HOP_BY_HOP and start != HEADER_OCTETS:
            raise PacketError(
                PacketReason.HOP_BY_HOP_NOT_FIRST,
                f"hop-by-hop options stand at octet {start}; they may only follow the IPv6 header",
                Problem(1, named_at),  # RFC 8200, section 4: as an unrecognised Next Header
            )
        end = start + 8 * (packet[start + 1] + 1) if start + 8 <= len(packet) else start + 8
        if end > len(packet):
            raise PacketError(
                PacketReason.HEADER_TOO_LONG,
                f"the extension header of type {protocol} at octet {start} would end at {end}, "
                f"and the packet ends at {len(packet)}",
            )
        yield Header(protocol, start, end, named_at)
        named_at, start = start, end
    yield Header(protocol, start, len(packet), named_at)


def remove(packet: bytearray, header: Header) -> None:
    """Take an extension header out: the one before it names what followed, and the payload gets shorter."""
    packet[header.named_at] = packet[header.start]
    (length,) = _LENGTH.unpack_from(packet, _PAYLOAD_LENGTH_AT)
    _LENGTH.pack_into(packet, _PAYLOAD_LENGTH_AT, length - (header.end - header.start))
    del packet[header.start : header.end]


def check_bits(name: str, value: int, bits: int) -> None:
    """Raise FieldError if a number does not fit into its field."""
    if type(value) is not int or not 0 <= value < 1 << bits:
        raise FieldError(f"{name} is {value!r}; it is a whole number from 0 to {(1 << bits) - 1}")


PAD1 = 0
PADN = 1
SLICE = 0x1E
"""The default type of the slice option."""

_STRICT = 0x80
_NETWORK_WIDE = 0  # the context type
_SLICE = struct.Struct("!BBHI")
SLICE_OCTETS = _SLICE.size


@dataclass(frozen=True)
class Option:
    """An option that is not padding."""

    type: int
    data: bytes
    at: int = 0  # where it starts in its packet

    def encode(self) -> bytes:
        check_bits("option type", self.type, 8)
        if self.type in (PAD1, PADN):
            raise FieldError(f"option type {self.type} is padding, which is added where it is needed")
        if len(self.data) > 255:
            raise FieldError(f"{len(self.data)} octets do not fit into an option, which has room for 255")
        return bytes((self.type, len(self.data))) + self.data


@dataclass(frozen=True)
class SliceOption:
    """The id of the slice (network resource partition) that a packet belongs to."""

    slice_id: int
    strict: bool = False

    def __post_init__(self) -> None:
        check_bits("slice id", self.slice_id, 32)

    def option(self, option_type: int = SLICE) -> Option:
        return Option(option_type, _SLICE.pack(_STRICT * self.strict, _NETWORK_WIDE, 0, self.slice_id))

    @classmethod
    def parse(cls, option: Option) -> SliceOption:
        """Read the option's data. Flags but S, and what is reserved, are ignored."""
        if len(option.data) != _SLICE.size:
            raise PacketError(
                PacketReason.BAD_SLICE_OPTION,
                f"a slice option has {_SLICE.size} octets of data, not {len(option.data)}",
            )
        flags, context, _, slice_id = _SLICE.unpack(option.data)
        if context != _NETWORK_WIDE:
            raise PacketError(
                PacketReason.BAD_SLICE_OPTION,
                f"context type {context} of a slice option is not known; 0 is",
            )
        return cls(slice_id, bool(flags & _STRICT))


def encode_header(next_header: int, options: Iterable[Option]) -> bytes:
    """Return a header of hop-by-hop or destination options. The first is at offset 2, as the slice option requires."""
    check_bits("next_header", next_header, 8)
    body = b"".join(option.encode() for option in options)
    missing = -(2 + len(body)) % 8
    if missing == 1:
        body += bytes([PAD1])
    elif missing:
        body += bytes([PADN, missing - 2]) + bytes(missing - 2)
    check_bits("header length in 8 octets", (2 + len(body)) // 8 - 1, 8)
    return bytes([next_header, (2 + len(body)) // 8 - 1]) + body


def parse_header(packet: bytes, header: Header) -> Iterator[Option]:
    """Yield the options of a header that `ipv6.headers` found, without padding."""
    at = header.start + 2
    while at < header.end:
        if packet[at] == PAD1:
            at += 1
            continue
        end = at + 2 + packet[at + 1] if at + 2 <= header.end else header.end + 1
        if end > header.end:
            raise PacketError(
                PacketReason.OPTION_TOO_LONG,
                f"the option of type {packet[at]:#04x} at octet {at} goes beyond its header's end at {header.end}",
            )
        if packet[at] != PADN:
            yield Option(packet[at], packet[at + 2 : end], at)
        at = end


def check_known(options: Iterable[Option], known: Collection[int]) -> None:
    """Raise PacketError for an unknown option whose first two bits require that it is known."""
    for option in options:
        action = option.type >> 6
        if action and option.type not in known:
            # 01: discard; 10 and 11: discard and answer (11 not for multicast, which no SID is).
            problem = None if action == 1 else Problem(2, option.at)
            raise PacketError(
                PacketReason.OPTION_NOT_KNOWN,
                f"the option of type {option.type:#04x} at octet {option.at} is not known, and must not be skipped",
                problem,
            )


def find_slice(options: Iterable[Option], option_type: int = SLICE) -> SliceOption | None:
    """Return the slice that the options name, or None; two slices are an error, even if they are the same."""
    slices = [option for option in options if option.type == option_type]
    if len(slices) > 1:
        raise PacketError(PacketReason.BAD_SLICE_OPTION, f"{len(slices)} slice options in one packet; there may be one")
    return SliceOption.parse(slices[0]) if slices else None
