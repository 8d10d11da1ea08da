"""/dev/xoff-parts: the other parts of a network that several kernels of the engine `um` have together.

The kernel's side is testbed/lab/um/linux/xoff_cable_kern.c, and xoff_cable_device.h has the structures. All times are
nanoseconds of the lab's clock.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from testbed.linux.flow_device import FlowDevice, address_of

_DEVICE = Path("/dev/xoff-parts")
_WHO, _JOIN, _LEAVE, _CHANGE, _COUNT, _WINDOWS = (ord("c") << 8 | n for n in range(1, 7))
_JOINED, _CUT = struct.Struct("=IIQ"), struct.Struct("=IIQ")
_CHANGED = struct.Struct("=4IQQ")
_COUNTED = struct.Struct("=7Q")
_ASKED = struct.Struct("=IIQ")
_MOST_WINDOWS = 1 << 18
_BOX = 1 << 18
"""The octets that a part can give at a time."""
MOST_PARTS, MOST_CABLES = 16, 1024


def is_there() -> bool:
    """Return True if this kernel has a part of a network; only that of `um` can."""
    return _DEVICE.exists()


@dataclass(frozen=True)
class Crossed:
    """The frames of a cable between two parts, as one part counts them."""

    sent: int
    sent_octets: int
    lost: int
    """Those of them that the cable lost."""
    received: int
    received_octets: int
    dropped: int
    """Frames that came when the cable had been pulled, or found no port."""
    digest: int
    """Of the arrivals and contents of those that were received."""


class PartsDevice(FlowDevice):
    """The link of this part to the others. Whoever has it open takes part; closing it leaves the network."""

    def __init__(self) -> None:
        super().__init__(_DEVICE)
        who: int = fcntl.ioctl(self.fd, _WHO)
        self.number, self.many = who & 0xFFFF, who >> 16

    @classmethod
    def own_number(cls) -> int:
        """Return the number of this kernel's part."""
        device = cls()
        device.close()
        return device.number

    def join(self, cables: Sequence[tuple[int, int, int]]) -> None:
        """Begin a network with these cables between parts: the parts of both ends, and the delay in ns.

        The lab's time stands still until all parts have joined. OSError EBADMSG: with other cables.
        """
        table = bytearray(b"".join(_CUT.pack(*cable) for cable in cables))
        self.give(_JOIN, _JOINED.pack(len(cables), 0, address_of(table)))

    def leave(self) -> None:
        """End the network here. No other part waits for this one from now on."""
        fcntl.ioctl(self.fd, _LEAVE)

    def change(self, cable: int, *, carrier: bool, pulled: bool, loss: int, seed: int, delay_ns: int) -> None:
        """Set what this end of a cable does from now on. OSError ERANGE: it would be shorter than it was laid."""
        self.give(_CHANGE, _CHANGED.pack(cable, carrier, pulled, loss, seed, delay_ns))

    def count(self, cable: int) -> Crossed:
        """Return the counters of a cable."""
        found = bytearray(_COUNTED.size)
        self.ask(_COUNT, cable, found)
        return Crossed(*_COUNTED.unpack(found))

    def windows(self) -> tuple[int, ...]:
        """Return what this kernel has worked in each window since the last call, in ns of CPU time, which depends on
        the host; nothing at the first call, with which it begins to count.
        """
        worked = bytearray(4 * _MOST_WINDOWS)
        asked = bytearray(_ASKED.pack(_MOST_WINDOWS, 0, address_of(worked)))
        fcntl.ioctl(self.fd, _WINDOWS, asked)
        return tuple(memoryview(worked).cast("I")[: min(_MOST_WINDOWS, _ASKED.unpack(asked)[1])])

    def exchange(self, content: bytes) -> list[bytes]:
        """Give octets to all parts, and return those of each part when all have given, at one moment of the lab.

        OSError EPIPE: a part has left in place of giving any.
        """
        given: list[list[bytes]] = [[] for _ in range(self.many)]
        at, is_over = 0, False
        while not is_over:
            piece = content[at : at + _BOX - 1]
            at += len(piece)
            os.write(self.fd, bytes([at < len(content)]) + piece)
            is_over = True
            for place, (more, one) in enumerate(self._take()):
                given[place].append(one)
                is_over = is_over and not more
        return [b"".join(pieces) for pieces in given]

    def _take(self) -> list[tuple[bool, bytes]]:
        octets = os.read(self.fd, self.many * (4 + _BOX))
        found, at = [], 0
        for _ in range(self.many):
            (length,) = struct.unpack_from("=I", octets, at)
            piece = octets[at + 4 : at + 4 + length]
            if not piece:
                raise OSError(errno.EBADMSG, "a part has given nothing")
            found.append((bool(piece[0]), piece[1:]))
            at += 4 + length
        return found
