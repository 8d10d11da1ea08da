"""Capture files: pcap and pcapng are read and written.

pcap as in draft-ietf-opsawg-pcap, pcapng as in draft-ietf-opsawg-pcapng; both octet orders, times in any resolution. A
file is read block by block, so that its size does not matter. What is damaged ends the reading with an error that names
the octet; what came before has been read. Written files have one section, interfaces with names and line rates, times
in nanoseconds, and comments on frames; nothing in them depends on the machine that writes.
"""

from __future__ import annotations

import heapq
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import BinaryIO

from testbed.errors import UsageError

ETHERNET = 1
"""The link type of Ethernet frames."""
LONGEST_BLOCK = 16 << 20
_PCAPNG = 0x0A0D0D0A
_PCAP_NS = 0xA1B23C4D
_PCAP = {0xA1B2C3D4: 1000, _PCAP_NS: 1}
"""Magic numbers, each with the nanoseconds in a unit of the fraction."""
_ORDER = 0x1A2B3C4D
_INTERFACE, _SIMPLE, _ENHANCED = 1, 3, 6
_STATISTICS = 5
_END, _COMMENT, _NAME, _DESCRIPTION, _SPEED, _RESOLUTION, _OFFSET = 0, 1, 2, 3, 8, 9, 14
_PROGRAM = 4
_RECEIVED, _MISSED = 4, 5
_LONGEST_OPTION = 0xFFFC
_LONGEST_SNAP = 1 << 18


class CaptureError(UsageError):
    """A file that is not a capture, or is damaged."""


@dataclass(frozen=True)
class Captured:
    """A captured frame; `octets` are fewer than `length` if the capture cut it."""

    t_ns: int | None
    """The time of the frame, or None if the block has no time."""
    interface: str
    link_type: int
    length: int
    octets: bytes
    comments: tuple[str, ...] = ()


def untimed(octets: bytes) -> Captured:
    """Return an Ethernet frame that is in no capture: it has neither a time nor an interface."""
    return Captured(None, "", ETHERNET, len(octets), octets)


@dataclass
class Interface:
    """The description of an interface in a pcapng file."""

    name: str
    link_type: int = ETHERNET
    snap: int = 0
    """The longest part of a frame that was kept; 0 for whole frames."""
    units: int = 10**9
    """The number of units of time in a second."""
    offset_s: int = 0
    description: str = ""
    speed_bps: int = 0


@dataclass
class _Section:
    order: str
    interfaces: list[Interface] = field(default_factory=list)


def frames(file: BinaryIO) -> Iterator[Captured]:
    """Yield the frames of a capture, in the order of the file."""
    return (item for item in items(file) if isinstance(item, Captured))


def items(file: BinaryIO) -> Iterator[Captured | Interface]:
    """Yield the frames of a capture, and each interface of a pcapng file before its frames."""
    start = file.read(4)
    if len(start) < 4:
        raise CaptureError(f"a file of {len(start)} octets is no capture")
    (number,) = struct.unpack("<I", start)
    (swapped,) = struct.unpack(">I", start)
    if number == _PCAPNG:
        yield from _pcapng(file)
    elif number in _PCAP:
        yield from _pcap(file, "<", _PCAP[number])
    elif swapped in _PCAP:
        yield from _pcap(file, ">", _PCAP[swapped])
    else:
        raise CaptureError(f"it begins with {start.hex()}, and no pcap or pcapng file does")


def _pcap(file: BinaryIO, order: str, unit_ns: int) -> Iterator[Captured]:
    *_, link_type = struct.unpack(f"{order}HHiIII", _read(file, 20))
    at, record = 24, struct.Struct(f"{order}IIII")
    while head := file.read(record.size):
        if len(head) < record.size:
            raise CaptureError(f"it ends within the record at octet {at}")
        seconds, fraction, captured, length = record.unpack(head)
        if captured > LONGEST_BLOCK:
            raise CaptureError(f"the record at octet {at} would have {captured} octets")
        octets = _read(file, captured)
        # The upper bits of the link type say how long the FCS is.
        yield Captured(seconds * 10**9 + fraction * unit_ns, "", link_type & 0xFFFF, length, octets)
        at += record.size + captured


def _pcapng(file: BinaryIO) -> Iterator[Captured | Interface]:
    section = _Section("<")
    kind_octets = struct.pack("<I", _PCAPNG)
    at = 0
    while kind_octets:
        if len(kind_octets) < 4:
            raise CaptureError(f"it ends within the block at octet {at}")
        length_octets = _read(file, 4)
        beginning = b""
        if struct.unpack("<I", kind_octets)[0] == _PCAPNG:  # the same in both orders
            beginning = _read(file, 4)
            section = _Section("<" if struct.unpack("<I", beginning)[0] == _ORDER else ">")
            if struct.unpack(f"{section.order}I", beginning)[0] != _ORDER:
                raise CaptureError(f"the section at octet {at} has no octet order")
        (kind,) = struct.unpack(f"{section.order}I", kind_octets)
        (length,) = struct.unpack(f"{section.order}I", length_octets)
        if not 12 + len(beginning) <= length <= LONGEST_BLOCK or length % 4:
            raise CaptureError(f"the block at octet {at} would have {length} octets")
        body = _read(file, length - 12 - len(beginning))
        if _read(file, 4) != length_octets:
            raise CaptureError(f"the block at octet {at} has another length at its end")
        try:
            if (item := _block(section, kind, body)) is not None:
                yield item
        except (struct.error, IndexError):
            raise CaptureError(f"the block at octet {at}, of type {kind}, is damaged") from None
        at += length
        kind_octets = file.read(4)


def _block(section: _Section, kind: int, body: bytes) -> Captured | Interface | None:
    order = section.order
    if kind == _INTERFACE:
        link_type, _, snap = struct.unpack_from(f"{order}HHI", body)
        interface = Interface(f"interface {len(section.interfaces)}", link_type, snap, units=10**6)
        for code, value in _options(order, body[8:]):
            if code == _NAME:
                interface.name = value.decode(errors="replace")
            elif code == _DESCRIPTION:
                interface.description = value.decode(errors="replace")
            elif code == _SPEED:
                (interface.speed_bps,) = struct.unpack(f"{order}Q", value)
            elif code == _RESOLUTION:
                interface.units = 2 ** (value[0] & 127) if value[0] & 128 else 10 ** value[0]
            elif code == _OFFSET:
                (interface.offset_s,) = struct.unpack(f"{order}q", value)
        section.interfaces.append(interface)
        return interface
    elif kind == _ENHANCED:
        number, high, low, captured, length = struct.unpack_from(f"{order}IIIII", body)
        interface = section.interfaces[number]
        octets = body[20 : 20 + captured]
        if len(octets) < captured:
            raise IndexError
        t_ns = (high << 32 | low) * 10**9 // interface.units + interface.offset_s * 10**9
        rest = _options(order, body[20 + (captured + 3 & ~3) :])
        comments = tuple(value.decode(errors="replace") for code, value in rest if code == _COMMENT)
        return Captured(t_ns, interface.name, interface.link_type, length, octets, comments)
    elif kind == _SIMPLE:
        (length,) = struct.unpack_from(f"{order}I", body)
        interface = section.interfaces[0]
        captured = min(length, interface.snap or length)
        return Captured(None, interface.name, interface.link_type, length, body[4 : 4 + captured])
    return None


def _options(order: str, octets: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + 4 <= len(octets):
        code, length = struct.unpack_from(f"{order}HH", octets, at)
        if code == _END:
            return
        if at + 4 + length > len(octets):
            raise IndexError
        yield code, octets[at + 4 : at + 4 + length]
        at += 4 + (length + 3 & ~3)


def _read(file: BinaryIO, count: int) -> bytes:
    octets = file.read(count)
    if len(octets) < count:
        raise CaptureError(f"it ends where {count} more octets should be")
    return octets


class Writer:
    """A writer of a pcapng file with one section."""

    def __init__(self, file: BinaryIO, comment: str = "") -> None:
        """Begin the file; `comment` is about the file as a whole."""
        self._file = file
        self._interfaces = 0
        note = [(_COMMENT, comment.encode())] if comment else []
        self._block(_PCAPNG, struct.pack("<IHHq", _ORDER, 1, 0, -1), [*note, (_PROGRAM, b"xoff")])

    def interface(self, interface: Interface) -> int:
        """Declare an interface and return its number. Times are written in nanoseconds, whatever unit the interface had
        before.
        """
        given = [(_NAME, interface.name.encode(errors="replace"))]
        if interface.description:
            given.append((_DESCRIPTION, interface.description.encode(errors="replace")))
        if interface.speed_bps:
            given.append((_SPEED, struct.pack("<Q", interface.speed_bps)))
        given.append((_RESOLUTION, b"\x09"))
        self._block(_INTERFACE, struct.pack("<HHI", interface.link_type, 0, interface.snap), given)
        self._interfaces += 1
        return self._interfaces - 1

    def frame(
        self, interface: int, t_ns: int, octets: bytes, length: int | None = None, comments: Sequence[str] = ()
    ) -> None:
        """Write a frame; `length` is its length on the wire if `octets` are fewer."""
        head = struct.pack(
            "<IIIII", interface, t_ns >> 32, t_ns & 0xFFFF_FFFF, len(octets), len(octets) if length is None else length
        )
        given = [(_COMMENT, comment.encode(errors="replace")) for comment in comments]
        self._block(_ENHANCED, head + octets + bytes(-len(octets) % 4), given)

    def statistics(self, interface: int, t_ns: int, received: int, missed: int) -> None:
        """Write how many frames an interface had, and how many of them are not in the file."""
        head = struct.pack("<III", interface, t_ns >> 32, t_ns & 0xFFFF_FFFF)
        self._block(_STATISTICS, head, [(_RECEIVED, struct.pack("<Q", received)), (_MISSED, struct.pack("<Q", missed))])

    def _block(self, kind: int, body: bytes, given: Sequence[tuple[int, bytes]]) -> None:
        written = b"".join(
            struct.pack("<HH", code, len(value[:_LONGEST_OPTION]))
            + value[:_LONGEST_OPTION]
            + bytes(-len(value[:_LONGEST_OPTION]) % 4)
            for code, value in given
        )
        body += written + bytes(4) if given else b""  # an end of options, where there are any
        length = struct.pack("<I", len(body) + 12)
        self._file.write(struct.pack("<I", kind) + length + body + length)


def write_pcap(file: BinaryIO, found: Iterable[tuple[int, int, bytes]]) -> None:
    """Write a pcap file of Ethernet frames, each given as its time in ns, its length on the wire, and the octets
    kept.
    """
    file.write(struct.pack("<IHHiIII", _PCAP_NS, 2, 4, 0, 0, _LONGEST_SNAP, ETHERNET))
    for t_ns, length, octets in found:
        file.write(struct.pack("<IIII", *divmod(t_ns, 10**9), len(octets), length) + octets)


def merged(files: Sequence[BinaryIO]) -> Iterator[Captured]:
    """Yield the frames of several captures in the order of time."""
    for _, item in _merged(files):
        if isinstance(item, Captured):
            yield item


def merge(files: Sequence[BinaryIO], out: BinaryIO, comment: str = "") -> None:
    """Write the frames of several captures into one, in the order of time."""
    writer = Writer(out, comment)
    numbers: dict[tuple[int, str, int], int] = {}
    for place, item in _merged(files):
        if isinstance(item, Interface):
            key = place, item.name, item.link_type
            numbers[key] = writer.interface(replace(item, units=10**9, offset_s=0))
            continue
        t_ns = item.t_ns or 0
        if not 0 <= t_ns < 1 << 64:
            raise CaptureError(f"a frame at {t_ns} ns is outside of what a pcapng file can have")
        key = place, item.interface, item.link_type
        if key not in numbers:  # a pcap file has no interfaces
            numbers[key] = writer.interface(Interface(item.interface, item.link_type))
        writer.frame(numbers[key], t_ns, item.octets, item.length, item.comments)


def _merged(files: Sequence[BinaryIO]) -> Iterator[tuple[int, Captured | Interface]]:
    """Yield the content of several files, each item with the number of its file: frames by time, an interface before
    its own.
    """

    def timed(place: int, file: BinaryIO) -> Iterator[tuple[int, int, Captured | Interface]]:
        t_ns = -1  # interfaces go before all frames, or where they are in the file
        for item in items(file):
            if isinstance(item, Captured):
                t_ns = item.t_ns or 0
            yield t_ns, place, item

    readers = [timed(place, file) for place, file in enumerate(files)]
    for _, place, item in heapq.merge(*readers, key=lambda entry: entry[:2]):
        yield place, item
