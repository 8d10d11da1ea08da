"""Packets with the kernel's receive time stamp, converted to the monotonic clock."""

from __future__ import annotations

import socket
import struct
import time
from typing import Any

_TIMESTAMPS = 35  # SO_TIMESTAMPNS
_STAMP = struct.Struct("=qq")


def enable(packets: socket.socket) -> None:
    """Have the kernel stamp the packets that this socket receives."""
    packets.setsockopt(socket.SOL_SOCKET, _TIMESTAMPS, 1)


def receive(packets: socket.socket, longest: int) -> tuple[bytes, int]:
    """Receive a packet, and return it with its arrival time in ns.

    The arrival time is never in the future, even if the time of day was changed since.
    """
    data, came_ns, _ = receive_from(packets, longest)
    return data, came_ns


def receive_from(packets: socket.socket, longest: int) -> tuple[bytes, int, Any]:
    """Receive a packet, and return it with its arrival time in ns and its sender's address.

    The address of a packet socket begins with the interface's name.
    """
    data, ancillary, _, address = packets.recvmsg(longest, socket.CMSG_SPACE(_STAMP.size))
    now_ns, real_ns = time.monotonic_ns(), time.time_ns()
    for level, kind, stamp in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, _TIMESTAMPS) and len(stamp) >= _STAMP.size:
            seconds, ns = map(int, _STAMP.unpack_from(stamp))
            return data, now_ns - max(0, real_ns - (seconds * 10**9 + ns)), address
    return data, now_ns, address
