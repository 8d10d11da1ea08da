"""How jobs look at a network from outside: frames as a capture has them, processes, interfaces."""

from __future__ import annotations

import struct
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_NANOSECONDS = 0xA1B23C4D
_RECORD = struct.Struct("=IIII")
WIRE = 24
"""Octets that a frame takes on the wire beyond itself: preamble, FCS, gap."""


@dataclass(frozen=True)
class Seen:
    """A frame in a capture, by the lab's monotonic clock."""

    t_ns: int
    octets: bytes

    @property
    def wire(self) -> int:
        return len(self.octets) + WIRE

    @property
    def priority(self) -> int:
        """By the DSCP of an IPv4 frame, which is 8 times the priority in all flows; -1 for any other frame."""
        return self.octets[15] >> 5 if self.octets[12:14] == b"\x08\x00" else -1


def frames_in(file: Path) -> list[Seen]:
    """All frames of a capture of tcpdump's."""
    offset_ns = time.time_ns() - time.monotonic_ns()
    data = file.read_bytes()
    assert struct.unpack_from("=I", data)[0] == _NANOSECONDS
    found, at = [], 24
    while at + 16 <= len(data):
        seconds, nanoseconds, length, _ = _RECORD.unpack_from(data, at)
        found.append(Seen(seconds * 10**9 + nanoseconds - offset_ns, data[at + 16 : at + 16 + length]))
        at += 16 + length
    return found


def received_frames(port: Any) -> int:
    """Frames that came in by a port, as the kernel counts them."""
    lines = Path(f"/proc/{port.node.pid}/net/dev").read_text().splitlines()
    (counts,) = [line.split(":")[1].split() for line in lines if line.split(":")[0].strip() == port.name]
    return int(counts[1])


def wait_for(is_true: Any, seconds: float = 10) -> bool:
    """Look every millisecond until it is true; False if it never was."""
    deadline = time.monotonic() + seconds
    while not (done := bool(is_true())) and time.monotonic() < deadline:
        time.sleep(0.001)
    return done
