"""The sockets of a host's RoCE: one that takes the datagrams of port 4791, and one for each that sends.

They are not connected, so that datagrams have identification 0, which the ICRC covers, and they have no UDP checksum,
as those of adapters: the ICRC is the stronger one.
"""

from __future__ import annotations

import errno
import socket

from testbed.frames.roce import BTH_OCTETS, ICRC_OCTETS, PORT
from testbed.frames.roce_run import PacketRun
from testbed.linux.sockets import mmsg
from testbed.net.traffic.flow import FlowError
from testbed.roce.endpoint import DatagramKind, Outgoing

_SO_PRIORITY, _SO_SNDBUFFORCE, _SO_RCVBUFFORCE, _SO_REUSEPORT, _SO_NO_CHECK = 12, 32, 33, 15, 11
_IP_MTU_DISCOVER, _IP_PMTUDISC_DO = 10, 2
SEND_BUFFER = 32_000
FAST_SEND_BUFFER = 192_000
"""The send buffer of a queue pair that sends many packets at a time; the kernel counts some 2300 octets for each."""
_RECEIVE_BUFFER = 64 << 20
BATCH = 64
"""The most datagrams of one system call."""


def not_sent(error: OSError, to: str) -> FlowError:
    """Return the error of RoCE that cannot be sent."""
    reason = error.strerror
    if error.errno == errno.EMSGSIZE:
        reason = (
            "its packets are too long for the MTU of the port; Settings(mtu=...) of the flow's Roce has their payload"
        )
    return FlowError(f"RoCE to {to}: {reason}")


class Way:
    """A socket from one UDP port, and the datagrams that wait for room in it."""

    def __init__(self, source_port: int, priority: int, ds: int, buffer: int) -> None:
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.setsockopt(socket.SOL_SOCKET, _SO_REUSEPORT, 1)
        self.socket.setsockopt(socket.SOL_SOCKET, _SO_PRIORITY, priority)
        self.socket.setsockopt(socket.SOL_SOCKET, _SO_NO_CHECK, 1)
        self.socket.setsockopt(socket.SOL_SOCKET, _SO_SNDBUFFORCE, buffer // 2)
        self.socket.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, ds)
        self.socket.setsockopt(socket.IPPROTO_IP, _IP_MTU_DISCOVER, _IP_PMTUDISC_DO)
        self.socket.bind(("", source_port))
        self.socket.setblocking(False)
        self.waiting: list[Outgoing] = []
        self._bursts: dict[tuple[str, int], mmsg.Burst] = {}

    def send_run(self, to: str, run: PacketRun) -> None:
        """Send packets; there are none that wait."""
        burst = self._bursts.get((to, run.size))
        if burst is None:
            sizes = BTH_OCTETS, run.size, ICRC_OCTETS
            burst = self._bursts[to, run.size] = mmsg.Burst(self.socket, to, PORT, sizes, BATCH)
        sent = burst.send(len(run), run.heads, run.payload, run.icrcs)
        self.waiting = [Outgoing(DatagramKind.DATA, to, 0, one) for one in run.datagrams(sent)]

    def send(self, datagrams: list[Outgoing]) -> None:
        """Send them, or as many as there is room for."""
        queue = self.waiting + datagrams
        sent = 0
        try:
            for one in queue:
                self.socket.sendto(one.datagram, (one.to, PORT))
                sent += 1
        except (BlockingIOError, ConnectionRefusedError):
            pass
        except OSError as error:
            raise not_sent(error, queue[sent].to) from None
        self.waiting = queue[sent:]


def open_listener() -> socket.socket:
    """Return the socket of port 4791."""
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _RECEIVE_BUFFER)
    udp.setsockopt(socket.SOL_SOCKET, mmsg.SO_TIMESTAMPNS, 1)
    udp.setsockopt(socket.IPPROTO_IP, socket.IP_RECVTOS, 1)
    udp.bind(("", PORT))
    udp.setblocking(False)
    return udp
