"""The socket through which a port receives and sends LLDP (IEEE 802.1AB 7.1 to 7.3).

It taps the interface before a bridge or Open vSwitch can consume the frame, and a filter in the kernel accepts only
LLDP to one of the three group addresses. A frame that came with a VLAN tag is not LLDP, although the kernel has removed
the tag and the rest looks like it; such frames are counted and not returned. This module does not decode frames.
"""

from __future__ import annotations

import errno
import socket
import struct

from testbed.frames import Mac
from testbed.frames.lldp import ETHERTYPE, NEAREST_BRIDGE
from testbed.linux.sockets import packet_filter

GROUPS = (NEAREST_BRIDGE, Mac.parse("01-80-C2-00-00-03"), Mac.parse("01-80-C2-00-00-00"))
"""The group addresses of 802.1AB table 7-1: nearest bridge, nearest non-TPMR bridge, nearest customer bridge."""

_EVERYTHING = 0x0003  # ETH_P_ALL
_PACKET_OUTGOING = 4
_SOL_PACKET, _ADD_MEMBERSHIP, _AUXDATA, _IGNORE_OUTGOING = 263, 1, 8, 23
_MEMBERSHIP = struct.Struct("=iHH8s")  # interface, PACKET_MR_MULTICAST = 0, length, address
_STATUS_AT, _TAG_WAS_THERE = 0, 0x10  # tp_status of struct tpacket_auxdata, TP_STATUS_VLAN_VALID
_AUXDATA_OCTETS = 20
_LONGEST = 2048
"""More octets than an LLDP frame can have: a longer frame is truncated here and still found too long."""
_AT_ONCE = 32
"""The most frames that one call returns, so that a flooded port does not starve the agent's other work."""


class LldpSocket:
    """The LLDP socket of an interface of the network namespace in which it is constructed; OSError if there is none.

    It stays usable while the interface goes down and up again, but not when the interface is removed.
    """

    def __init__(self, interface: str) -> None:
        self.tagged = 0
        """The number of frames that were ignored because they had a VLAN tag."""
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC, 0)
        try:
            self._prepare(interface)
        except BaseException:
            self._socket.close()
            raise

    def _prepare(self, interface: str) -> None:
        index = socket.if_nametoindex(interface)
        groups = [group.octets for group in GROUPS]
        packet_filter.attach(self._socket, packet_filter.of_type_to(ETHERTYPE, groups))
        self._socket.setsockopt(_SOL_PACKET, _AUXDATA, 1)
        self._socket.setsockopt(_SOL_PACKET, _IGNORE_OUTGOING, 1)
        for group in GROUPS:
            self._socket.setsockopt(_SOL_PACKET, _ADD_MEMBERSHIP, _MEMBERSHIP.pack(index, 0, 6, group.octets))
        self._socket.bind((interface, _EVERYTHING))  # the filter is there first, so that nothing else gets in

    @property
    def fd(self) -> int:
        return self._socket.fileno()

    def receive(self) -> list[bytes]:
        """Return the frames that have arrived, from the destination address on, without FCS.

        It returns a limited number; if `fd` is readable still, call again.
        """
        frames: list[bytes] = []
        for _ in range(_AT_ONCE):
            try:
                frame, auxiliary, _, sender = self._socket.recvmsg(_LONGEST, socket.CMSG_SPACE(_AUXDATA_OCTETS))
            except BlockingIOError:
                break
            except OSError as error:
                if error.errno != errno.ENETDOWN:  # reported once when the interface goes down
                    raise
                continue
            if sender[2] == _PACKET_OUTGOING:
                continue
            if any(_has_tag(level, kind, data) for level, kind, data in auxiliary):
                self.tagged += 1
                continue
            frames.append(frame)
        return frames

    def send(self, frame: bytes) -> None:
        """Send a frame; OSError if the interface is down or its queue is full."""
        try:
            self._socket.send(frame)
        except OSError as error:
            if error.errno != errno.ENETDOWN:
                raise
            self._socket.send(frame)  # the error was an old one: the interface has been down since the last call

    def close(self) -> None:
        self._socket.close()


def _has_tag(level: int, kind: int, data: bytes) -> bool:
    if (level, kind) != (_SOL_PACKET, _AUXDATA):
        return False
    (status,) = struct.unpack_from("=I", data, _STATUS_AT)
    return bool(status & _TAG_WAS_THERE)
