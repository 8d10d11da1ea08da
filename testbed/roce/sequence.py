"""Packet sequence numbers: 24 bits on the wire, and whole numbers that never wrap in here."""

from __future__ import annotations

_BITS = 24
SPAN = 1 << _BITS


def psn(sequence: int) -> int:
    """Return the number in the packet."""
    return sequence & (SPAN - 1)


def sequence(wire: int, near: int) -> int:
    """The number with this PSN that is nearest to `near`; InfiniBand's rule, half of the space on either side."""
    ahead = (wire - near) % SPAN
    return near + (ahead if ahead < SPAN // 2 else ahead - SPAN)
