"""The records that the kernel of `um` keeps of cables with errors or Link Layer Retry, and of their ends.

/dev/xoff-observe gives it to one that observes (`testbed.linux.process.observing`). What is carried is kept while
somebody watches; events always. What was fetched is forgotten. The kernel's side is
testbed/lab/um/linux/xoff_line_kern.c.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from testbed.linux.flow_device import address_of
from testbed.linux.line_qdisc import HEADERS

_DEVICE = "/dev/xoff-observe"
_WATCH, _READ, _EVENTS = 0x6C01, 0x6C02, 0x6C03
REPLAY, FLUSH = 16, 17
"""As `what`: a sender replays `data` frames from `sequence` on; a sender has given up `data` frames."""
_IS_REPLAY, _IS_PLAIN = 1, 2
_ROOM = 1 << 16


@dataclass(frozen=True)
class LineRecord:
    """A frame or an ordered set that was put on a line, or an event."""

    at_ns: int
    """The moment, by the monotonic clock, when it comes to the other end, or would."""
    interface: int
    """The interface of the cable's middle at the port that it goes to; an event is of the port at the other end."""
    what: int
    """The number of a `testbed.switch.link.jam.LineUnit`, or of an event."""
    fate: int
    """The number of a `testbed.switch.link.jam.LineFate`."""
    sequence: int
    data: int
    is_replay: bool
    is_plain: bool
    """True of a frame that has no sequence number."""
    length: int
    octets: bytes
    """The beginning of the frame, from its destination on."""


class LineTap:
    """An open file of the device."""

    def __init__(self) -> None:
        self._fd = os.open(_DEVICE, os.O_RDWR | os.O_CLOEXEC)
        self.missed = 0
        """Records that the kernel had no room for, of those that were fetched last."""

    def watch(self) -> None:
        """Have what cables carry kept until this is closed."""
        fcntl.ioctl(self._fd, _WATCH)

    def carried(self) -> Iterator[LineRecord]:
        """Yield what cables have carried since the last call."""
        return self._fetch(_READ)

    def events(self) -> Iterator[LineRecord]:
        """Yield what has happened since the last call, of whichever process."""
        return self._fetch(_EVENTS)

    def close(self) -> None:
        os.close(self._fd)

    def _fetch(self, command: int) -> Iterator[LineRecord]:
        room = bytearray(_ROOM)
        head = ctypes.sizeof(HEADERS.xl_record)
        while True:
            asked = HEADERS.xl_fetch(to=address_of(room), room=len(room))
            fcntl.ioctl(self._fd, command, asked)
            self.missed = asked.missed
            if not asked.octets:
                return
            at = 0
            while at < asked.octets:
                found: Any = HEADERS.xl_record.from_buffer_copy(room, at)
                end = at + head + found.kept
                yield LineRecord(
                    found.at_ns, found.interface, found.what, found.fate, found.sequence, found.data,
                    bool(found.flags & _IS_REPLAY), bool(found.flags & _IS_PLAIN), found.length,
                    bytes(room[at + head : end]),
                )  # fmt: skip
                at = end
