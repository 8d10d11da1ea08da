"""All frames that come in by an interface, kept by the kernel until they are fetched.

A packet socket sees a frame before the port program and the network stack do, MAC control included, and stamps it when
it arrives. The kernel keeps them in the socket's buffer, so that while frames come no process has to run: on User-Mode
Linux this takes none of the lab's time.
"""

from __future__ import annotations

import errno
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from testbed.linux import mmsg

_ETH_P_ALL = 3
_SOL_PACKET, _PACKET_STATISTICS, _PACKET_AUXDATA, _PACKET_IGNORE_OUTGOING = 263, 6, 8, 23
_SO_RCVBUFFORCE = 33
_BUFFER = 1 << 30
"""What a socket may hold. The kernel counts twice of it, and has memory for it only when frames come."""
_BATCH = 64
_CONTROL = 96
_AUXDATA_AT = 48
"""Where the second control message has its content; the first is the time stamp."""
_AUXDATA = struct.Struct("=IIIHHHH")  # status, length, octets kept, mac, net, TCI, TPID of the tag
_TCI_VALID, _TPID_VALID = 0x10, 0x40
LONGEST = 1 << 16
"""Octets of the longest frame: segments may be joined on interfaces that are not lossless."""


@dataclass(frozen=True)
class Tapped:
    """One frame; `octets` are fewer than `length` if only the beginning was kept."""

    t_ns: int
    """By the clock for the time of day."""
    length: int
    octets: bytes


class PacketTap:
    """The frames that come in by one interface of the network namespace in which it is made."""

    def __init__(self, interface: str) -> None:
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)  # 0: nothing comes before it is bound
        self._socket.setsockopt(_SOL_PACKET, _PACKET_IGNORE_OUTGOING, 1)
        self._socket.setsockopt(_SOL_PACKET, _PACKET_AUXDATA, 1)
        self._socket.setsockopt(socket.SOL_SOCKET, mmsg.SO_TIMESTAMPNS, 1)
        self._socket.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _BUFFER)
        self._socket.bind((interface, _ETH_P_ALL))

    def fetch(self, most: int = LONGEST) -> Iterator[Tapped]:
        """What came since the last call, the first `most` octets of each."""
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
        """Frames that found no room since the last call."""
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
                if error.errno != errno.ENETDOWN:  # once after the interface was set down; frames from before are there
                    raise
