"""Selective repeat: what a sender knows of packets behind a missing one, and how a receiver tells it.

It follows IRN (Mittal et al., "Revisiting Network Support for RDMA", SIGCOMM 2018): a NAK names the missing packet and
what has come behind it; a packet is lost if one behind it has arrived; each lost packet is sent again once, until the
timer begins anew (decision 0570). Numbers are `sequence`s.
"""

from __future__ import annotations

from collections.abc import Iterable

_WORD_BITS = 32
MOST_BITS = 512
"""The packets behind the missing one of which a selective acknowledgement tells."""


def bitmap(expected: int, kept: Iterable[int]) -> bytes:
    """Return the payload of a selective acknowledgement: which packets behind the missing one are there."""
    bits, last = 0, 0
    for number in kept:
        place = number - expected - 1
        if place < MOST_BITS:
            bits |= 1 << MOST_BITS - 1 - place
            last = max(last, place // _WORD_BITS + 1)
    return bits.to_bytes(MOST_BITS // 8, "big")[: last * _WORD_BITS // 8]


def numbers(expected: int, octets: bytes) -> list[int]:
    """Return the packets that a selective acknowledgement says are there."""
    bits, many = int.from_bytes(octets[: MOST_BITS // 8], "big"), min(len(octets) * 8, MOST_BITS)
    return [expected + 1 + place for place in range(many) if bits >> many - 1 - place & 1]


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
