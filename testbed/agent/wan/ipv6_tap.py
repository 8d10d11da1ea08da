"""Packet sockets beside the kernel: IPv6 packets that a filter selects, with their receive time and interface."""

from __future__ import annotations

import socket
from collections.abc import Iterator

from testbed.linux.sockets import packet_filter, stamped

IPV6 = 0x86DD
_LONGEST = 2048
_SOL_PACKET, _IGNORE_OUTGOING = 263, 23


def tap(code: bytes) -> socket.socket:
    """Return a socket for IPv6 packets received by any interface that the filter `code` accepts."""
    packets = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(IPV6))
    packets.setblocking(False)
    packet_filter.attach(packets, packet_filter.nothing())
    packets.setsockopt(_SOL_PACKET, _IGNORE_OUTGOING, 1)
    stamped.enable(packets)
    for _ in received(packets):
        pass  # received before the filter was attached
    packet_filter.attach(packets, code)
    return packets


def received(packets: socket.socket) -> Iterator[tuple[bytes, int, str | None]]:
    """Yield all packets that wait, with receive time and interface; None for what is not known."""
    while True:
        try:
            data, came_ns, address = stamped.receive_from(packets, _LONGEST)
        except BlockingIOError:
            return
        yield data, came_ns, address[0] if address else None
