"""What an agent leaves for its successor beside its timers: a few objects, in memory that outlives it.

There are two pages, written by turns with a number and a checksum: an agent that is killed while it writes one leaves
the other as it was.
"""

from __future__ import annotations

import mmap
import pickle
import struct
import zlib
from typing import Any

_PAGE_OCTETS = 1 << 18
_HEADER = struct.Struct("=QII")  # number, octets, checksum


class NotesError(Exception):
    """More than there is room for: an error of ours."""


class Notes:
    """Of one agent."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, 2 * _PAGE_OCTETS)

    def write(self, what: Any) -> None:
        data = pickle.dumps(what, pickle.HIGHEST_PROTOCOL)
        if _HEADER.size + len(data) > _PAGE_OCTETS:
            raise NotesError(f"notes of {len(data)} octets do not fit")
        number = 1 + max((found[0] for found in map(self._page, range(2)) if found), default=0)
        start = number % 2 * _PAGE_OCTETS
        self._memory[start + _HEADER.size : start + _HEADER.size + len(data)] = data
        self._memory[start : start + _HEADER.size] = _HEADER.pack(number, len(data), zlib.crc32(data))

    def read(self) -> Any:
        """What was written last; None: nothing yet."""
        newest = max((found for found in map(self._page, range(2)) if found), default=None)
        return None if newest is None else pickle.loads(newest[1])

    def _page(self, page: int) -> tuple[int, bytes] | None:
        start = page * _PAGE_OCTETS
        number, length, checksum = _HEADER.unpack_from(self._memory, start)
        if not number or length > _PAGE_OCTETS - _HEADER.size:
            return None
        data = self._memory[start + _HEADER.size : start + _HEADER.size + length]
        return (number, data) if zlib.crc32(data) == checksum else None
