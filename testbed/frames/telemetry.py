"""In-band telemetry (INT) of RoCEv2 packets: what ports on the way write into a packet. The form is the lab's own.

A bit of the BTH, the one behind AckReq, says that an area of fixed length follows the BTH, before all other headers:

    octet  0    version 1 (4 bits), kind (4 bits): 1 collects stamps, 2 brings them back
    octet  1    room: how many stamps the area has place for
    octet  2    count: how many it has
    octet  3    flags: 1 if a port found no room
    then        `room` stamps of 16 octets each, those behind `count` are 0:
                  time of the stamp in ns, modulo 2^32
                  octets that wait in the packet's queue, before it
                  octets that the port has sent until then, of all queues, modulo 2^32; frames without FCS
                  rate of the line in kb/s

A port stamps a packet of kind 1 when the packet comes to its queue, and changes octets 2 and 3 and the next free stamp.
In the ICRC, which is to be right whatever ports write, all octets of such an area from octet 2 on count as ones, as
FECN and TTL do. An area of kind 2 is changed by nobody and is covered as it is. The UDP checksum is 0, so there is
none to mend; a port stamps no packet that has one.

See decision 0575 for the choice.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

VERSION = 1
COLLECTS, RETURNED = 1, 2
ROOM = 5
"""The stamps for which a sender leaves room: those of a way through three layers of switches."""
HEAD_OCTETS, STAMP_OCTETS = 4, 16
VARIANT_FROM = 2
"""The place from which on ports change an area that collects."""
MOST_ROOM = 15
STAMP = struct.Struct("!4I")
_NO_ROOM = 1
_WRAP = 1 << 32


class Stamp(NamedTuple):
    """The state of one port at the moment at which a packet came to its queue."""

    time_ns: int
    queue_octets: int
    sent_octets: int
    kbps: int

    def since(self, earlier: Stamp) -> tuple[int, int]:
        """Return the time and the octets sent since an earlier stamp of the same port, which both wrap."""
        return (self.time_ns - earlier.time_ns) % _WRAP, (self.sent_octets - earlier.sent_octets) % _WRAP


class Telemetry(NamedTuple):
    """The area of one packet."""

    stamps: tuple[Stamp, ...] = ()
    is_returned: bool = False
    room: int = ROOM
    overflowed: bool = False
    """True if a port found no room for its stamp."""

    @property
    def octets(self) -> int:
        return octets_of(self.room)

    def returned(self) -> Telemetry:
        """Return the area with which the receiver of a packet answers."""
        return self._replace(is_returned=True)


class TelemetryError(ValueError):
    """Octets that are not an area of telemetry."""


def octets_of(room: int) -> int:
    """Return the length of an area with room for so many stamps."""
    return HEAD_OCTETS + room * STAMP_OCTETS


def encode(area: Telemetry) -> bytes:
    """Return the octets of an area."""
    if not len(area.stamps) <= area.room <= MOST_ROOM:
        raise TelemetryError(f"{len(area.stamps)} stamps in an area for {area.room}; the most are {MOST_ROOM}")
    kind = RETURNED if area.is_returned else COLLECTS
    head = bytes([VERSION << 4 | kind, area.room, len(area.stamps), _NO_ROOM if area.overflowed else 0])
    stamps = b"".join(STAMP.pack(*(value % _WRAP for value in stamp)) for stamp in area.stamps)
    return head + stamps.ljust(area.room * STAMP_OCTETS, b"\0")


def parse(data: bytes, start: int = 0) -> Telemetry:
    """Read the area that begins at `start`."""
    if len(data) < start + HEAD_OCTETS:
        raise TelemetryError(f"{len(data) - start} octets are too few for the head of an area of telemetry")
    kind, room, count, flags = data[start : start + HEAD_OCTETS]
    if kind >> 4 != VERSION or kind & 0xF not in (COLLECTS, RETURNED):
        raise TelemetryError(f"telemetry of version {kind >> 4} and kind {kind & 0xF} is not known")
    if room > MOST_ROOM or count > room or len(data) < start + octets_of(room):
        raise TelemetryError(f"an area of telemetry with {count} stamps of {room}, in {len(data) - start} octets")
    stamps = tuple(
        Stamp(*STAMP.unpack_from(data, start + HEAD_OCTETS + number * STAMP_OCTETS)) for number in range(count)
    )
    return Telemetry(stamps, kind & 0xF == RETURNED, room, bool(flags & _NO_ROOM))


def masked(data: bytes, start: int) -> bytes:
    """Return the area that begins at `start` as the ICRC covers it."""
    end = start + octets_of(data[start + 1])
    if data[start] & 0xF == COLLECTS:
        return data[start : start + VARIANT_FROM] + b"\xff" * (end - start - VARIANT_FROM)
    return data[start:end]
