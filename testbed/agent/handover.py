"""State that a speaker hands over to its successor: a few objects, in memory that outlives the process.

There are two pages, written alternately with a number and a checksum: an agent that is killed while it writes one
leaves the other as it was. Memory that is never written costs nothing, so a page has room for the most that there can
be.
"""

from __future__ import annotations

import mmap
import pickle
import struct
import zlib
from typing import Any

OF_A_PORT = 1 << 15
"""The octets for a port: eight neighbours with the longest of frames, and settings with a full application table."""
_HEADER = struct.Struct("=QII")  # number, octets, checksum


class HandoverError(Exception):
    """The state does not fit into its page: an internal error."""


class Handover:
    """The memory that one speaker leaves to its successor."""

    def __init__(self, ports: int) -> None:
        self._page_octets = ports * OF_A_PORT
        self._memory = mmap.mmap(-1, 2 * self._page_octets)

    def write(self, what: Any) -> None:
        data = pickle.dumps(what, pickle.HIGHEST_PROTOCOL)
        if _HEADER.size + len(data) > self._page_octets:
            raise HandoverError(f"a handover of {len(data)} octets does not fit into a page of {self._page_octets}")
        number = 1 + max((found[0] for found in map(self._page, range(2)) if found), default=0)
        start = number % 2 * self._page_octets
        self._memory[start + _HEADER.size : start + _HEADER.size + len(data)] = data
        self._memory[start : start + _HEADER.size] = _HEADER.pack(number, len(data), zlib.crc32(data))

    def read(self) -> Any:
        """Return what was written last, or None if there is nothing yet."""
        newest = max((found for found in map(self._page, range(2)) if found), default=None)
        return None if newest is None else pickle.loads(newest[1])

    def _page(self, page: int) -> tuple[int, bytes] | None:
        start = page * self._page_octets
        number, length, checksum = _HEADER.unpack_from(self._memory, start)
        if not number or length > self._page_octets - _HEADER.size:
            return None
        data = self._memory[start + _HEADER.size : start + _HEADER.size + length]
        return (number, data) if zlib.crc32(data) == checksum else None
