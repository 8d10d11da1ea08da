"""The segment routing header (RFC 8754, section 2).

    octet  0      next header
           1      header length, in 8 octets beyond the first 8
           2      routing type, 4
           3      segments left: index of the active segment
           4      last entry: index of the last element of the segment list
           5      flags
           6-7    tag
           8-     segment list, 16 octets each, the path's last segment first
           then   TLVs: type, length of the value, value; type 0 is one octet of padding, type 4 is more of it

`Srh` is a header that holds together; it is what is built and what is learned from. A router that has one step to do
must follow its behaviour's own order of checks, so it reads the `Fields`, which are not judged at all.

TLVs are carried as they are and taken apart on request only: nodes may ignore them all (section 2.1), so a broken TLV
does not break a packet. HMAC is not verified; the SR domain is guarded by addresses (section 5.1).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from ipaddress import IPv6Address

from testbed.frames import FieldError
from testbed.frames.ipv6 import PacketError, PacketReason, check_bits

ROUTING_TYPE = 4
ROUTING_TYPE_AT = 2
SEGMENTS_LEFT_AT = 3
"""The offsets of fields from the start of the header, for pointers and for routers."""

MOST_SEGMENTS = 127
"""The most segments, since the header's length has 8 bits."""

PAD1 = 0
PADN = 4
HMAC = 5

_FIXED = struct.Struct("!BBBBBBH")
_SEGMENT = 16


@dataclass(frozen=True)
class Fields:
    """The fixed part of a routing header, unchecked."""

    next_header: int
    extra_length: int  # Hdr Ext Len
    routing_type: int
    segments_left: int
    last_entry: int
    flags: int
    tag: int

    @classmethod
    def read(cls, data: bytes, start: int = 0) -> Fields:
        """Return the first 8 octets of a routing header of any type."""
        if len(data) < start + _FIXED.size:
            raise PacketError(PacketReason.TOO_SHORT, f"{len(data) - start} octets are too few for a routing header")
        return cls(*_FIXED.unpack_from(data, start))

    @property
    def max_last_entry(self) -> int:
        """The highest index that the length has room for; -1 if there is room for no segment at all."""
        return self.extra_length // 2 - 1


@dataclass(frozen=True)
class Tlv:
    """A TLV that is not padding. The first bit of the type means that it may change on the way."""

    type: int
    value: bytes

    def encode(self) -> bytes:
        check_bits("TLV type", self.type, 8)
        if self.type in (PAD1, PADN):
            raise FieldError(f"TLV type {self.type} is padding, which is added where it is needed")
        if len(self.value) > 255:
            raise FieldError(f"{len(self.value)} octets do not fit into a TLV, which has room for 255")
        return bytes((self.type, len(self.value))) + self.value


@dataclass(frozen=True)
class Srh:
    """A segment routing header. `segments` is in the order of the wire, against the order of travel."""

    next_header: int
    segments: tuple[IPv6Address, ...]
    segments_left: int
    flags: int = 0
    tag: int = 0
    tlvs: bytes = b""  # all TLVs with their padding, in whole 8 octets

    def __post_init__(self) -> None:
        for name, bits in (("next_header", 8), ("flags", 8), ("tag", 16)):
            check_bits(name, getattr(self, name), bits)
        if not self.segments:
            raise FieldError("a segment routing header has at least one segment; name one")
        if len(self.tlvs) % 8:
            raise FieldError(f"TLVs of {len(self.tlvs)} octets do not end on 8 octets; pad them with encode_tlvs")
        if not 0 <= self.segments_left <= len(self.segments):
            # One more than the last entry is legal: the reduced encapsulation leaves out the first segment.
            raise FieldError(
                f"{self.segments_left} segments left of {len(self.segments)}; there are 0 to {len(self.segments)}"
            )
        octets = self._octets
        if octets > 8 * 256:
            raise FieldError(f"a segment routing header of {octets} octets is too long; it has at most 2048")

    @classmethod
    def along(
        cls, path: Sequence[IPv6Address], next_header: int, done: int = 0, tag: int = 0, tlvs: bytes = b""
    ) -> Srh:
        """Return a header for a path in order of travel, of which the first `done` segments are behind the packet
        already.
        """
        if not 0 <= done < max(len(path), 1):
            raise FieldError(f"{done} of {len(path)} segments are done; one at least has to be left")
        return cls(next_header, tuple(reversed(path)), len(path) - 1 - done, tag=tag, tlvs=tlvs)

    @property
    def path(self) -> tuple[IPv6Address, ...]:
        """The segments in order of travel."""
        return self.segments[::-1]

    @property
    def active(self) -> IPv6Address | None:
        """The segment that the destination address should hold, or None while a reduced list is at its first."""
        return self.segments[self.segments_left] if self.segments_left < len(self.segments) else None

    @property
    def visited(self) -> tuple[IPv6Address, ...]:
        """The segments before the active one, the latest first."""
        return self.segments[self.segments_left + 1 :]

    @property
    def _octets(self) -> int:
        return _FIXED.size + _SEGMENT * len(self.segments) + len(self.tlvs)

    def encode(self) -> bytes:
        fixed = _FIXED.pack(
            self.next_header,
            self._octets // 8 - 1,
            ROUTING_TYPE,
            self.segments_left,
            len(self.segments) - 1,
            self.flags,
            self.tag,
        )
        return fixed + b"".join(segment.packed for segment in self.segments) + self.tlvs

    @classmethod
    def parse(cls, data: bytes, start: int = 0) -> Srh:
        """Read a header that starts at `start`; what follows it is not looked at."""
        fields = Fields.read(data, start)
        if fields.routing_type != ROUTING_TYPE:
            raise PacketError(PacketReason.NOT_SRH, f"routing type {fields.routing_type} is not segment routing, 4")
        end = start + 8 * (fields.extra_length + 1)
        if len(data) < end:
            raise PacketError(
                PacketReason.HEADER_TOO_LONG,
                f"the segment routing header would end at {end}, and the data at {len(data)}",
            )
        if fields.last_entry > fields.max_last_entry:
            raise PacketError(
                PacketReason.BAD_LAST_ENTRY,
                f"last entry is {fields.last_entry}, and the header has room for {fields.max_last_entry + 1} segments",
            )
        if fields.segments_left > fields.last_entry + 1:
            raise PacketError(
                PacketReason.BAD_SEGMENTS_LEFT,
                f"segments left is {fields.segments_left}, and the last entry is {fields.last_entry}",
            )
        count = fields.last_entry + 1
        segments = tuple(IPv6Address(segment_at(data, start, index)) for index in range(count))
        tlvs = data[start + _FIXED.size + _SEGMENT * count : end]
        return cls(fields.next_header, segments, fields.segments_left, fields.flags, fields.tag, tlvs)


def segment_at(data: bytes, start: int, index: int) -> bytes:
    """Return Segment List[index] of the header at `start`; the caller has checked that it is there."""
    at = start + _FIXED.size + _SEGMENT * index
    return data[at : at + _SEGMENT]


def encode_tlvs(tlvs: Iterable[Tlv]) -> bytes:
    """Return TLVs with padding up to 8 octets."""
    octets = b"".join(tlv.encode() for tlv in tlvs)
    missing = -len(octets) % 8
    if missing == 1:
        return octets + bytes([PAD1])
    return octets + bytes([PADN, missing - 2]) + bytes(missing - 2) if missing else octets


def parse_tlvs(octets: bytes) -> Iterator[Tlv]:
    """Yield the TLVs of a header, without padding."""
    at = 0
    while at < len(octets):
        if octets[at] == PAD1:
            at += 1
            continue
        end = at + 2 + octets[at + 1] if at + 2 <= len(octets) else len(octets) + 1
        if end > len(octets):
            raise PacketError(
                PacketReason.TLV_TOO_LONG,
                f"the TLV of type {octets[at]} at octet {at} goes beyond the header, which has {len(octets)} for TLVs",
            )
        if octets[at] != PADN:
            yield Tlv(octets[at], octets[at + 2 : end])
        at = end
