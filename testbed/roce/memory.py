"""The memory that queue pairs read and write. A user's own memory is a subclass of `Region`."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Protocol
from zlib import crc32

from testbed.errors import XoffError

_STEP_OCTETS = 8
_BLOCK_OCTETS = 8193 * _STEP_OCTETS
"""Content repeats after so many octets, but packets of a usual size only after 8193 of them, twice a usual window."""
UNLIMITED = 1 << 62
WORD_OCTETS = 8
"""The octets that an atomic operation changes."""


class MemoryFault(XoffError):
    """An access that a region does not allow."""


class Region(Protocol):
    """Registered memory; addresses begin at 0."""

    size: int

    def read(self, address: int, length: int) -> bytes:
        """Octets of the region; `address` and `length` have been checked against `size`."""

    def write(self, address: int, octets: bytes) -> None:
        """Put octets into the region; MemoryFault if it cannot take them."""

    def change(self, address: int, change: Callable[[int], int]) -> int:
        """Replace the 64 bits at an address by what `change` makes of them, and return them; MemoryFault if the region
        has no such words."""
        raise MemoryFault(f"an atomic operation at address {address} of memory that has none")

    def begin_again(self, address: int) -> None:
        """A message that began at this address begins once more; what it wrote is written again."""
        return None

    def has_come(self, octets: int) -> None:
        """A message of an unreliable service has come to its last octet."""
        return None

    def crcs(self, address: int, octets: bytes, size: int) -> bytes:
        """The CRC-32 of each `size` octets of what was read at an address, or is to be written there; each in four
        octets, the last one first."""
        return _crcs(octets, range(0, len(octets), size), size)


class Buffer(Region):
    """Memory that is there."""

    def __init__(self, content: bytes | int) -> None:
        self.octets = bytearray(content)
        self.size = len(self.octets)

    def read(self, address: int, length: int) -> bytes:
        return bytes(self.octets[address : address + length])

    def write(self, address: int, octets: bytes) -> None:
        self.octets[address : address + len(octets)] = octets

    def change(self, address: int, change: Callable[[int], int]) -> int:
        place = slice(address, address + WORD_OCTETS)
        original = int.from_bytes(self.octets[place], "little")
        self.octets[place] = change(original).to_bytes(WORD_OCTETS, "little")
        return original


class Words(Region):
    """64-bit words for atomic operations, as little-endian memory; sends, writes and reads of others get whole words.

    `received` counts the octets that operations have changed, each time.
    """

    def __init__(self, many: int = 1) -> None:
        self.words = [0] * many
        self.size = WORD_OCTETS * many
        self.received = 0

    def read(self, address: int, length: int) -> bytes:
        octets = b"".join(word.to_bytes(WORD_OCTETS, "little") for word in self.words)
        return octets[address : address + length]

    def write(self, address: int, octets: bytes) -> None:
        if address % WORD_OCTETS or len(octets) != WORD_OCTETS:
            raise MemoryFault(f"{len(octets)} octets for address {address} of memory that is only read")
        self.words[address // WORD_OCTETS] = int.from_bytes(octets, "little")

    def change(self, address: int, change: Callable[[int], int]) -> int:
        place = address // WORD_OCTETS
        original = self.words[place]
        self.words[place] = change(original)
        self.received += WORD_OCTETS * (self.words[place] != original)
        return original


class Content(Region):
    """Octets that follow from a seed, as many as wanted; nothing is kept of them. Seeds begin at different places of
    the same block of random octets.
    """

    def __init__(self, seed: int, size: int = UNLIMITED) -> None:
        self.size = size
        self._start = seed * 997 * _STEP_OCTETS

    @property
    def start(self) -> int:
        """The place of the first octet in `content_block`."""
        return self._start % _BLOCK_OCTETS

    def read(self, address: int, length: int) -> bytes:
        start = (self._start + address) % _BLOCK_OCTETS
        if length > _BLOCK_OCTETS:
            return b"".join(self.read(place, min(_BLOCK_OCTETS, address + length - place))
                            for place in range(address, address + length, _BLOCK_OCTETS))  # fmt: skip
        return _twice_the_block()[start : start + length]

    def crcs(self, address: int, octets: bytes, size: int) -> bytes:
        """They are known, where the parts begin at places that a table has: a CRC takes longer than all else."""
        if address % _STEP_OCTETS or size % _STEP_OCTETS or len(octets) % size:
            return super().crcs(address, octets, size)
        known, found, left, step = known_crcs(size), b"", len(octets) // size, size // _STEP_OCTETS
        place = (self._start + address) // _STEP_OCTETS
        while left:
            place %= len(known)
            taken = known[place : place + left * step : step]
            found += taken.tobytes()
            left -= len(taken)
            place += len(taken) * step
        return found

    def write(self, address: int, octets: bytes) -> None:
        raise MemoryFault(f"{len(octets)} octets for address {address} of memory that is only read")

    def digest(self, length: int) -> str:
        """SHA-256 of the first octets."""
        found = hashlib.sha256()
        for address in range(0, length, _BLOCK_OCTETS):
            found.update(self.read(address, min(_BLOCK_OCTETS, length - address)))
        return found.hexdigest()


def content_block() -> bytes:
    """Return the block of octets that all content repeats."""
    return _twice_the_block()[:_BLOCK_OCTETS]


@lru_cache(maxsize=1)
def _twice_the_block() -> bytes:
    return random.Random(0).randbytes(_BLOCK_OCTETS) * 2


@lru_cache(maxsize=8)
def known_crcs(size: int) -> memoryview:
    """The CRC-32 of `size` octets of content from each place on at which the table has one. Processes that are forked
    after the first call have the table."""
    octets = Content(0).read(0, _BLOCK_OCTETS) + Content(0).read(0, size)
    return memoryview(_crcs(octets, range(0, _BLOCK_OCTETS, _STEP_OCTETS), size)).cast("I")


def _crcs(octets: bytes, starts: Iterable[int], size: int) -> bytes:
    return b"".join([crc32(octets[start : start + size]).to_bytes(4, "little") for start in starts])


class Scattered(Region):
    """Takes octets at any address, of messages of which some may be lost, and compares them with the content there."""

    def __init__(self, content: Content, size: int = UNLIMITED) -> None:
        self.size = size
        self.received = 0
        """The octets of messages that have come to their end."""
        self.is_as_expected = True
        self._content = content

    def read(self, address: int, length: int) -> bytes:
        raise MemoryFault(f"{length} octets at address {address} of memory that is only written")

    def write(self, address: int, octets: bytes) -> None:
        self.is_as_expected &= octets == self._content.read(address, len(octets))

    def has_come(self, octets: int) -> None:
        self.received += octets


class Sink(Region):
    """Takes octets in the order of addresses, and has their SHA-256. Anything else is a fault.

    Where the content that is to come is known, each octet is compared with it: a hash over them takes seven times as
    many instructions, which count in the lab's time, and is made in the end.
    """

    def __init__(self, size: int = UNLIMITED, content: Content | None = None) -> None:
        self.size = size
        self.received = 0
        """The octets from the first one on that have come; a message that begins again takes nothing from them."""
        self._next = 0
        self.is_as_expected = True
        self._content = content
        self._expected = b""
        """The state of the comparison so far, for the next address."""
        self._hash = hashlib.sha256()

    def read(self, address: int, length: int) -> bytes:
        raise MemoryFault(f"{length} octets at address {address} of memory that is only written")

    def write(self, address: int, octets: bytes) -> None:
        if address != self._next:
            raise MemoryFault(f"{len(octets)} octets for address {address}; {self._next} is next")
        self._next += len(octets)
        new, self.received = self._next - self.received, max(self.received, self._next)
        expected, self._expected = self._expected, b""
        if self._content is None:
            self._hash.update(octets[len(octets) - max(0, new) :])
        elif octets is not expected and octets != self._content.read(address, len(octets)):
            self.is_as_expected = False

    def begin_again(self, address: int) -> None:
        self._next = address

    def crcs(self, address: int, octets: bytes, size: int) -> bytes:
        if self._content is not None and address == self._next and octets == self._content.read(address, len(octets)):
            self._expected = octets
            return self._content.crcs(address, octets, size)
        return super().crcs(address, octets, size)

    @property
    def digest(self) -> str:
        """Empty if something else came than was expected."""
        if self._content is None:
            return self._hash.hexdigest()
        return self._content.digest(self.received) if self.is_as_expected else ""
