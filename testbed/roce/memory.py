"""What queue pairs read from and write to. A user's own memory is anything with these two methods and a size."""

from __future__ import annotations

import hashlib
import random
from typing import Protocol

from testbed.errors import XoffError

_BLOCK_OCTETS = 65_521
"""A prime, so that no two packets of a usual size have the same octets until a gigabyte has passed."""
UNLIMITED = 1 << 62


class MemoryFault(XoffError):
    """An access that a region does not allow."""


class Region(Protocol):
    """Registered memory; addresses begin at 0."""

    size: int

    def read(self, address: int, length: int) -> bytes:
        """Octets of the region; `address` and `length` have been checked against `size`."""

    def write(self, address: int, octets: bytes) -> None:
        """Put octets into the region; MemoryFault if it cannot take them."""


class Buffer:
    """Memory that is there."""

    def __init__(self, content: bytes | int) -> None:
        self.octets = bytearray(content)
        self.size = len(self.octets)

    def read(self, address: int, length: int) -> bytes:
        return bytes(self.octets[address : address + length])

    def write(self, address: int, octets: bytes) -> None:
        self.octets[address : address + len(octets)] = octets


class Content:
    """Octets that follow from a seed, as many as wanted; nothing is kept of them."""

    def __init__(self, seed: int, size: int = UNLIMITED) -> None:
        self.size = size
        block = random.Random(seed).randbytes(_BLOCK_OCTETS)
        self._twice = block + block

    def read(self, address: int, length: int) -> bytes:
        start = address % _BLOCK_OCTETS
        if length > _BLOCK_OCTETS:
            return b"".join(self.read(place, min(_BLOCK_OCTETS, address + length - place))
                            for place in range(address, address + length, _BLOCK_OCTETS))  # fmt: skip
        return self._twice[start : start + length]

    def write(self, address: int, octets: bytes) -> None:
        raise MemoryFault(f"{len(octets)} octets for address {address} of memory that is only read")

    def digest(self, length: int) -> str:
        """SHA-256 of the first octets."""
        found = hashlib.sha256()
        for address in range(0, length, _BLOCK_OCTETS):
            found.update(self.read(address, min(_BLOCK_OCTETS, length - address)))
        return found.hexdigest()


class Sink:
    """Takes octets in the order of addresses, and has their SHA-256. Anything else is a fault.

    Where the content that is to come is known, each octet is compared with it: a hash over them takes seven times as
    many instructions, which count in the lab's time, and is made in the end.
    """

    def __init__(self, size: int = UNLIMITED, content: Content | None = None) -> None:
        self.size = size
        self.received = 0
        self.is_as_expected = True
        self._content = content
        self._hash = hashlib.sha256()

    def read(self, address: int, length: int) -> bytes:
        raise MemoryFault(f"{length} octets at address {address} of memory that is only written")

    def write(self, address: int, octets: bytes) -> None:
        if address != self.received:
            raise MemoryFault(f"{len(octets)} octets for address {address}; {self.received} is next")
        self.received += len(octets)
        if self._content is None:
            self._hash.update(octets)
        elif octets != self._content.read(address, len(octets)):
            self.is_as_expected = False

    @property
    def digest(self) -> str:
        """Empty if something else came than was expected."""
        if self._content is None:
            return self._hash.hexdigest()
        return self._content.digest(self.received) if self.is_as_expected else ""
