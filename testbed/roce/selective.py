"""Selective repeat: what a sender knows of packets behind a missing one, and how a receiver tells it.

It follows IRN (Mittal et al., "Revisiting Network Support for RDMA", SIGCOMM 2018): a NAK names the missing packet and
what has come behind it; a packet is lost if one behind it has arrived; each lost packet is sent again once, until the
timer begins anew (decision 0570). Numbers are `sequence`s.

Runs in C: `testbed/lab/um/linux/xoff_roce_user.c`.
"""

from __future__ import annotations

import struct
from collections.abc import Container

_WORD_BITS = 32
_MOST_WORDS = 16
MOST_BITS = _MOST_WORDS * _WORD_BITS
"""The packets of which one selective acknowledgement tells."""
_OFFSET = struct.Struct("!I")
"""What stands before the bitmap: how many packets behind the first one after the missing one it begins."""


def bitmap(expected: int, kept: Container[int], latest: int, furthest: int) -> bytes:
    """Return the payload of a selective acknowledgement: which packets behind the missing one are there.

    They reach to the furthest that is there, if there is room for so many, or else to the latest that came: of the
    others earlier acknowledgements have told.
    """
    words = (furthest - expected - 1) // _WORD_BITS + 1
    if words > _MOST_WORDS:
        words = max(_MOST_WORDS, (latest - expected - 1) // _WORD_BITS + 1)
    first, bits, last = max(0, words - _MOST_WORDS) * _WORD_BITS, 0, 0
    for place in range(max(0, words * _WORD_BITS - first)):
        if expected + 1 + first + place in kept:
            bits |= 1 << MOST_BITS - 1 - place
            last = place // _WORD_BITS + 1
    return _OFFSET.pack(first) + bits.to_bytes(MOST_BITS // 8, "big")[: last * _WORD_BITS // 8] if last else b""


def numbers(expected: int, octets: bytes) -> list[int]:
    """Return the packets that a selective acknowledgement says are there."""
    if len(octets) <= _OFFSET.size:
        return []
    (first,), octets = _OFFSET.unpack_from(octets), octets[_OFFSET.size :]
    bits, many = int.from_bytes(octets[: MOST_BITS // 8], "big"), min(len(octets) * 8, MOST_BITS)
    return [expected + 1 + first + place for place in range(many) if bits >> many - 1 - place & 1]


class Scoreboard:
    """The packets of a sender that have arrived behind a missing one, and those that are to be sent again."""

    def __init__(self) -> None:
        self.arrived: set[int] = set()
        self._place = self._end = 0
        """Those of [place, end) that have not arrived are sent again, in their order."""

    def lost(self, oldest: int) -> int | None:
        """Return the next packet to be sent again."""
        self._place = max(self._place, oldest)
        while self._place < self._end:
            if self._place not in self.arrived:
                return self._place
            self._place += 1
        return None

    def lost_until(self, number: int, end: int) -> int:
        """Return the end of the row of lost packets that begins with one; it ends before `end`."""
        until = number + 1
        while until < min(end, self._end) and until not in self.arrived:
            until += 1
        return until

    def lose(self, end: int) -> None:
        """All before `end` that have not arrived are lost."""
        self._end = max(self._end, end)

    def lose_again(self, begin: int, end: int) -> None:
        """All from `begin` on, before `end`, that have not arrived are lost, and sent again even if they have been."""
        self._place = min(self._place, begin)
        self.lose(end)

    def sent_again(self, until: int) -> None:
        self._place = until

    def advance(self, oldest: int) -> int:
        """Return the first packet from `oldest` on that has not arrived, and forget those before it."""
        while oldest in self.arrived:
            self.arrived.remove(oldest)
            oldest += 1
        return oldest
