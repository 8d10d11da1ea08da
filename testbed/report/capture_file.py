"""Frames of a capture file, in either of the formats that tcpdump and Wireshark write: pcap and pcapng.

pcap as in draft-ietf-opsawg-pcap, pcapng as in draft-ietf-opsawg-pcapng; both octet orders, times in any resolution. A
file is read block by block, so that its size does not matter. What is damaged ends the reading with an error that names
the octet; what came before has been read.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import BinaryIO

from testbed.errors import UsageError

ETHERNET = 1
"""The link type of Ethernet frames."""
LONGEST_BLOCK = 16 << 20
_PCAPNG = 0x0A0D0D0A
_PCAP = {0xA1B2C3D4: 1000, 0xA1B23C4D: 1}
"""Magic numbers, and nanoseconds of a unit of the fraction."""
_ORDER = 0x1A2B3C4D
_INTERFACE, _SIMPLE, _ENHANCED = 1, 3, 6
_END, _COMMENT, _NAME, _RESOLUTION, _OFFSET = 0, 1, 2, 9, 14


class CaptureError(UsageError):
    """A file that is no capture, or a damaged one."""


@dataclass(frozen=True)
class Captured:
    """One frame; `octets` are fewer than `length` if the capture cut it."""

    t_ns: int | None
    """None: the block has no time."""
    interface: str
    link_type: int
    length: int
    octets: bytes
    comments: tuple[str, ...] = ()


@dataclass
class _Interface:
    name: str
    link_type: int
    snap: int
    units: int = 10**6
    """In a second."""
    offset_s: int = 0


@dataclass
class _Section:
    order: str
    interfaces: list[_Interface] = field(default_factory=list)


def frames(file: BinaryIO) -> Iterator[Captured]:
    """The frames of a capture, in the order of the file."""
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


def _pcapng(file: BinaryIO) -> Iterator[Captured]:
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
            if (frame := _block(section, kind, body)) is not None:
                yield frame
        except (struct.error, IndexError):
            raise CaptureError(f"the block at octet {at}, of type {kind}, is damaged") from None
        at += length
        kind_octets = file.read(4)


def _block(section: _Section, kind: int, body: bytes) -> Captured | None:
    order = section.order
    if kind == _INTERFACE:
        link_type, _, snap = struct.unpack_from(f"{order}HHI", body)
        interface = _Interface(f"interface {len(section.interfaces)}", link_type, snap)
        for code, value in _options(order, body[8:]):
            if code == _NAME:
                interface.name = value.decode(errors="replace")
            elif code == _RESOLUTION:
                interface.units = 2 ** (value[0] & 127) if value[0] & 128 else 10 ** value[0]
            elif code == _OFFSET:
                (interface.offset_s,) = struct.unpack(f"{order}q", value)
        section.interfaces.append(interface)
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
