"""Packets with the kernel's receive stamp, by the monotonic clock that all else goes by."""

from __future__ import annotations

import socket
import struct
import time
from typing import Any

_TIMESTAMPS = 35  # SO_TIMESTAMPNS
_STAMP = struct.Struct("=qq")


def enable(packets: socket.socket) -> None:
    packets.setsockopt(socket.SOL_SOCKET, _TIMESTAMPS, 1)


def receive(packets: socket.socket, longest: int) -> tuple[bytes, int]:
    """A packet, and when it came in, in ns. A clock that was set meanwhile makes no stamp of the future."""
    data, came_ns, _ = receive_from(packets, longest)
    return data, came_ns


def receive_from(packets: socket.socket, longest: int) -> tuple[bytes, int, Any]:
    """The same, and where it came from: of a packet socket, interface's name first."""
    data, ancillary, _, address = packets.recvmsg(longest, socket.CMSG_SPACE(_STAMP.size))
    now_ns, real_ns = time.monotonic_ns(), time.time_ns()
    for level, kind, stamp in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, _TIMESTAMPS) and len(stamp) >= _STAMP.size:
            seconds, ns = map(int, _STAMP.unpack_from(stamp))
            return data, now_ns - max(0, real_ns - (seconds * 10**9 + ns)), address
    return data, now_ns, address
