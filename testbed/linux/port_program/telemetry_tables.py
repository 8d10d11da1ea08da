"""Telemetry in the port program's tables: the rate that a port stamps goes in, counters come out."""

from __future__ import annotations

import mmap
import struct
from typing import NamedTuple

_STAMPING = struct.Struct("=II2Q")
_RATE = struct.Struct("=I")


class Stamped(NamedTuple):
    """The packets that one port stamped, and those in which it found no room for its stamp."""

    stamped: int
    no_room: int


class Stampings:
    """The entries of all ports of a network, by slot."""

    def __init__(self, memory: mmap.mmap | bytearray) -> None:
        self._memory = memory

    def set_rate(self, slot: int, kbps: int) -> None:
        """Have a port stamp packets, with this rate of its line; 0: it stamps none."""
        _RATE.pack_into(self._memory, slot * _STAMPING.size, kbps)

    def counters(self, slot: int) -> Stamped:
        """Return the counters of a port."""
        _, _, stamped, no_room = _STAMPING.unpack_from(self._memory, slot * _STAMPING.size)
        return Stamped(stamped, no_room)
