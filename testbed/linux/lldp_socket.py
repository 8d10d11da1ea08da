"""The socket through which a port receives and sends LLDP (IEEE 802.1AB 7.1 to 7.3).

It taps the interface before a bridge or Open vSwitch can take the frame away, and a filter in the kernel leaves alone
all that is not LLDP to one of its three group addresses. A frame that came with a VLAN tag is not LLDP, though the
kernel has put the tag aside and the rest looks like it; such frames are counted and not returned. What frames mean is
not known here.
"""

from __future__ import annotations

import errno
import socket
import struct

from testbed.frames import Mac
from testbed.frames.lldp import ETHERTYPE, NEAREST_BRIDGE
from testbed.linux import packet_filter

GROUPS = (NEAREST_BRIDGE, Mac.parse("01-80-C2-00-00-03"), Mac.parse("01-80-C2-00-00-00"))
"""802.1AB table 7-1: nearest bridge, nearest non-TPMR bridge, nearest customer bridge."""

_EVERYTHING = 0x0003  # ETH_P_ALL
_PACKET_OUTGOING = 4
_SOL_PACKET, _ADD_MEMBERSHIP, _AUXDATA, _IGNORE_OUTGOING = 263, 1, 8, 23
_MEMBERSHIP = struct.Struct("=iHH8s")  # interface, PACKET_MR_MULTICAST = 0, length, address
_STATUS_AT, _TAG_WAS_THERE = 0, 0x10  # tp_status of struct tpacket_auxdata, TP_STATUS_VLAN_VALID
_AUXDATA_OCTETS = 20
_LONGEST = 2048
"""More than an LLDP frame can have: a longer one is cut and still found too long."""
_AT_ONCE = 32
"""Frames that one call returns at most, so that a flooded port does not starve the agent's other work."""


class LldpSocket:
    """Of one interface in the network namespace that the process is in when it is made; OSError if there is none.

    It stays usable while the interface goes down and up again, and is dead when the interface is removed.
    """

    def __init__(self, interface: str) -> None:
        self.tagged = 0  # frames that were left out because they had a VLAN tag
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
        """Frames that have come, from the destination on and without FCS; none if none has. Call again when `fd` is
        still readable."""
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
        """OSError if the interface is down or has no room."""
        try:
            self._socket.send(frame)
        except OSError as error:
            if error.errno != errno.ENETDOWN:
                raise
            self._socket.send(frame)  # an old error: the interface was down since the last call

    def close(self) -> None:
        self._socket.close()


def _has_tag(level: int, kind: int, data: bytes) -> bool:
    if (level, kind) != (_SOL_PACKET, _AUXDATA):
        return False
    (status,) = struct.unpack_from("=I", data, _STATUS_AT)
    return bool(status & _TAG_WAS_THERE)
