"""Devices of the kernel of the engine `um` that serve flows: a file is what a host has of one, and closing it ends its
flows.
"""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os
import struct
from pathlib import Path

NOWHERE = 2**32 - 1
"""In place of a place in the counters."""
_ASKED = struct.Struct("=IIQ")


class FlowDevice:
    """A device, from when it is opened until it is closed."""

    def __init__(self, path: Path) -> None:
        self.fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)

    def give(self, command: int, octets: bytes) -> int:
        """Give the kernel a structure, and return its answer."""
        answer: int = fcntl.ioctl(self.fd, command, bytearray(octets))  # of bytes it would return a copy
        return answer

    def ask(self, command: int, number: int, room: bytearray) -> int:
        """Have the kernel write what it knows about a number into `room`, and return its answer."""
        if not room:
            return 0
        return self.give(command, _ASKED.pack(number, len(room), address_of(room)))

    def row(self, command: int, number: int, many: int) -> tuple[int, ...]:
        """Ask for a row of words."""
        words = bytearray(8 * many)
        self.ask(command, number, words)
        return tuple(memoryview(words).cast("Q"))

    def close(self) -> None:
        """End all flows of the device."""
        os.close(self.fd)


def address_of(memory: bytearray | mmap.mmap | memoryview[int]) -> int:
    """Return where memory begins, which must not change its length from now on."""
    return ctypes.addressof(ctypes.c_char.from_buffer(memory))
