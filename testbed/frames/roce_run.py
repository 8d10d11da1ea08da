"""Full packets in the middle of one RoCE message, many at a time, which differ only in PSN, AckReq and payload.

CRC-32 is linear, so the ICRC of such a packet is the XOR of three parts: the CRC of its payload, one that follows from
PSN and AckReq, and one that all packets of the run have in common. The second one is in tables. With c(data, from) for
`zlib.crc32`, and z(x) for what zeros, as many as the payload has octets, make of a CRC x, less what they make of 0:

    ICRC = c(payload, c(word, head)) = c(payload, 0) ^ z(c(word, 0)) ^ z(what 4 zeros make of head)

Where the CRCs of payloads are known, ICRCs take a few operations for all packets together. Strings of four octets for
each packet are XORed as one large number.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple
from zlib import crc32

from testbed.frames.roce import ACK_REQUEST, BTH_OCTETS, ICRC_OCTETS, Path

HEAD_OCTETS = 8
"""The octets of a BTH before AckReq and PSN."""
_PSN_MASK = 0xFFFFFF
_LAST_OCTETS = struct.pack("!256I", *range(256))
_ASKS = ACK_REQUEST >> 24


@dataclass(frozen=True)
class Heads:
    """The BTHs of packets that differ in PSN and AckReq alone."""

    head: bytes
    """The octets with which they begin."""
    first: int
    """The first PSN."""
    many: int
    asking: Sequence[int]
    """The places of those that ask for an acknowledgement."""

    def at_asking(self, word: bytes) -> bytes:
        """Return this word for each packet that asks for an acknowledgement, and zeros for the others."""
        found = bytearray(4 * self.many)
        for place in self.asking:
            found[place * 4 : place * 4 + 4] = word
        return bytes(found)


@dataclass(frozen=True)
class PacketRun:
    """Packets as they are on the wire, in three strings: all BTHs, all payloads, all ICRCs."""

    size: int
    """The octets of payload in each packet."""
    heads: bytes
    payload: bytes
    icrcs: bytes

    def __len__(self) -> int:
        return len(self.icrcs) // ICRC_OCTETS

    def datagrams(self, first: int = 0) -> list[bytes]:
        """Return the content of the UDP datagrams, one by one, from this place on."""
        return [
            self.heads[place * BTH_OCTETS : (place + 1) * BTH_OCTETS]
            + self.payload[place * self.size : (place + 1) * self.size]
            + self.icrcs[place * ICRC_OCTETS : (place + 1) * ICRC_OCTETS]
            for place in range(first, len(self))
        ]

    def head(self) -> bytes:
        """Return the first octets of the first BTH."""
        return self.heads[:HEAD_OCTETS]

    def in_order(self, first: int, most: int) -> tuple[int, list[int]]:
        """Return how many packets, at most `most`, begin like the first one and have PSNs from `first` on, and the
        places of those that ask for an acknowledgement.
        """
        many = min(len(self), most)
        words, head = memoryview(self.heads).cast("I"), self.head()
        if any(words[place : many * 3 : 3].tobytes() != head[place * 4 : place * 4 + 4] * many for place in (0, 1)):
            starts = range(0, many * BTH_OCTETS, BTH_OCTETS)
            many = next(number for number, start in enumerate(starts) if not self.heads.startswith(head, start))
        apart = _xor(words[2 : many * 3 : 3].tobytes(), _words(first, many))
        asks = apart[::4]
        if apart.count(0) + asks.count(_ASKS) != len(apart):
            many = next(
                at for at in range(many) if apart[at * 4] not in (0, _ASKS) or any(apart[at * 4 + 1 : at * 4 + 4])
            )
        return many, [place for place, octet in enumerate(asks[:many]) if octet]


def seal(path: Path, heads: Heads, payload: bytes, crcs: bytes) -> PacketRun:
    """Return the packets that have these heads. `crcs` are the CRCs of their parts of the payload, four octets each,
    the last octet first, as it is in an ICRC.
    """
    many, size = heads.many, len(payload) // heads.many
    words = _xor(_words(heads.first, many), heads.at_asking(ACK_REQUEST.to_bytes(4, "big")))
    octets = bytearray((heads.head + bytes(4)) * many)
    memoryview(octets).cast("I")[2::3] = memoryview(words).cast("I")
    return PacketRun(size, bytes(octets), payload, icrcs(path, heads, size, crcs))


def icrcs(path: Path, heads: Heads, size: int, crcs: bytes) -> bytes:
    """Return the ICRCs of such packets, of which each has `size` octets of payload."""
    same, tables = path.crc_of_zeros(heads.head, BTH_OCTETS + size), _tables(size)
    added = b"".join(
        _xor(tables.last[low * 4 : (low + many) * 4],
             (same ^ tables.middle[above & 0xFF] ^ tables.first[above >> 8]).to_bytes(4, "little") * many)
        for above, low, many in _pieces(heads.first, heads.many)
    )  # fmt: skip
    return _xor(_xor(crcs, added), heads.at_asking(tables.ack_request))


def prepare(size: int) -> None:
    """Make the tables for payloads of this size now, and not with the first packet."""
    _tables(size)


def _words(first: int, many: int) -> bytes:
    """Return the last four octets of BTHs whose PSNs begin with `first`."""
    return b"".join(
        _xor(_LAST_OCTETS[low * 4 : (low + count) * 4], (above << 8).to_bytes(4, "big") * count)
        for above, low, count in _pieces(first, many)
    )


def _pieces(first: int, many: int) -> Iterator[tuple[int, int, int]]:
    """Yield PSNs in pieces that differ in the last octet alone: the octets above it, the first last octet, and the
    count.
    """
    while many > 0:
        number = first & _PSN_MASK
        count = min(many, 256 - (number & 0xFF))
        yield number >> 8, number & 0xFF, count
        first += count
        many -= count


def _xor(one: bytes, other: bytes) -> bytes:
    return (int.from_bytes(one, "little") ^ int.from_bytes(other, "little")).to_bytes(len(one), "little")


class _Tables(NamedTuple):
    """Tables of what the octets of a PSN, and AckReq, add to the CRC of a payload of one length."""

    first: list[int]
    middle: list[int]
    last: bytes
    ack_request: bytes


@lru_cache(maxsize=16)
def _tables(size: int) -> _Tables:
    zeros = bytes(size)
    nothing = crc32(zeros)

    def added(word: int) -> int:
        return crc32(zeros, crc32(word.to_bytes(4, "big"))) ^ nothing

    empty = added(0)
    tables = []
    for shift in (16, 8, 0):
        table = [0]
        for bit in range(8):
            one = added(1 << bit + shift) ^ empty
            table += [one ^ other for other in table]
        tables.append(table)
    first, middle, last = tables
    octets = struct.pack("<256I", *[empty ^ one for one in last])
    return _Tables(first, middle, octets, (added(ACK_REQUEST) ^ empty).to_bytes(4, "little"))
