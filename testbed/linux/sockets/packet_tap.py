"""A tap on an interface: the kernel keeps all frames that arrive until they are fetched.

A packet socket sees a frame before the port program and the network stack do, MAC control included, and stamps it when
it arrives. The frames stay in the socket's buffer, so no process has to run while frames arrive: on User-Mode Linux
this takes none of the lab's time.
"""

from __future__ import annotations

import errno
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from testbed.linux.sockets import mmsg, packet_filter

_ETH_P_ALL = 3
_SOL_PACKET, _PACKET_STATISTICS, _PACKET_AUXDATA, _PACKET_IGNORE_OUTGOING = 263, 6, 8, 23
_SO_RCVBUFFORCE = 33
_BUFFER = 1 << 30
"""The socket's receive buffer in octets. The kernel doubles it, and allocates the memory only as frames arrive."""
_BATCH = 64
_CONTROL = 96
_AUXDATA_AT = 48
"""The position of the second control message's content; the first is the time stamp."""
_AUXDATA = struct.Struct("=IIIHHHH")  # status, length, octets kept, mac, net, TCI, TPID of the tag
_TCI_VALID, _TPID_VALID = 0x10, 0x40
LONGEST = 1 << 16
"""The octets of the longest frame: interfaces that are not lossless may carry joined segments (GRO)."""


@dataclass(frozen=True)
class Tapped:
    """One frame; there are fewer `octets` than `length` if the capture truncated it."""

    t_ns: int
    """The arrival time by the clock for the time of day."""
    length: int
    octets: bytes


class PacketTap:
    """A tap on one interface of the network namespace in which it is constructed."""

    def __init__(self, interface: str, takes: bytes | None = None, *, outgoing: bool = False) -> None:
        """`takes` is a filter of `packet_filter`; with `outgoing` also the frames that are sent there, each when its
        transmission begins."""
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)  # 0: nothing comes before it is bound
        if takes is not None:
            packet_filter.attach(self._socket, takes)
        self._socket.setsockopt(_SOL_PACKET, _PACKET_IGNORE_OUTGOING, int(not outgoing))
        self._socket.setsockopt(_SOL_PACKET, _PACKET_AUXDATA, 1)
        self._socket.setsockopt(socket.SOL_SOCKET, mmsg.SO_TIMESTAMPNS, 1)
        self._socket.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _BUFFER)
        self._socket.bind((interface, _ETH_P_ALL))

    def fetch(self, most: int = LONGEST) -> Iterator[Tapped]:
        """Yield the frames that arrived since the last call, with at most `most` octets of each."""
        receiver = mmsg.Receiver(self._socket, _BATCH, most, control=_CONTROL)
        while count := self._receive(receiver):
            arrivals, datagrams = receiver.arrivals(count), receiver.datagrams(count)
            for place, (t_ns, octets) in enumerate(zip(arrivals, datagrams, strict=True)):
                status, length, _, _, _, tci, tpid = _AUXDATA.unpack_from(receiver.control(place), _AUXDATA_AT)
                if status & _TCI_VALID:  # the kernel has taken the outermost tag out of the frame
                    tag = struct.pack("!HH", tpid if status & _TPID_VALID else 0x8100, tci)
                    yield Tapped(t_ns, length + len(tag), octets[:12] + tag + octets[12:])
                else:
                    yield Tapped(t_ns, length, octets)

    def missed(self) -> int:
        """Return how many frames found no room in the buffer since the last call."""
        _, missed = struct.unpack("=II", self._socket.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, 8))
        return int(missed)

    def close(self) -> None:
        self._socket.close()

    @staticmethod
    def _receive(receiver: mmsg.Receiver) -> int:
        while True:
            try:
                return receiver.receive()
            except OSError as error:
                if error.errno != errno.ENETDOWN:  # reported once after the interface went down; earlier frames remain
                    raise
