"""The state of interfaces: existence and carrier by the kernel's notifications (rtnetlink), and counters."""

from __future__ import annotations

import errno
import socket
import struct
import sys
from dataclasses import dataclass
from typing import NamedTuple

from testbed.frames import Mac
from testbed.linux.netlink.messages import Socket, attributes

_NEW_LINK, _DELETE_LINK, _GET_LINK = 16, 17, 18
_LINK_GROUP = 1  # RTMGRP_LINK
_HEADER = struct.Struct("=IHHII")
_BODY = struct.Struct("=BxHiII")
_ADDRESS, _NAME, _CARRIER_DOWNS = 1, 3, 48
_IFF_UP, _IFF_LOOPBACK, _IFF_LOWER_UP = 0x1, 0x8, 0x10000
_ETHERNET = 1  # ARPHRD_ETHER
_LOOPBACK = 1  # its index in every network namespace
_AT_ONCE = 64
_GET_STATISTICS, _LINK_64 = 94, 1
_REQUEST = struct.Struct("=BxxxII")
_COUNTERS = struct.Struct("=4Q")


@dataclass(frozen=True)
class Link:
    """The state of one interface at some moment."""

    index: int
    name: str
    mac: Mac | None
    is_up: bool  # the administrative state
    has_carrier: bool
    is_loopback: bool
    is_ethernet: bool
    exists: bool = True  # False: it was removed, and only index and name mean anything
    downs: int | None = None
    """The number of times it lost its carrier, or None if the kernel has no count. A short loss shows in this alone."""

    @property
    def can_talk(self) -> bool:
        """True if frames can be sent and received."""
        return self.exists and self.is_up and self.has_carrier


class LinkWatch:
    """A watch on all interfaces of the network namespace in which it is constructed."""

    def __init__(self) -> None:
        flags = socket.SOCK_RAW | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK
        self._socket = socket.socket(socket.AF_NETLINK, flags, 0)
        self._socket.bind((0, _LINK_GROUP))  # before anything is listed, so that no change is missed
        self._asking = Socket()

    @property
    def fd(self) -> int:
        return self._socket.fileno()

    def all(self) -> list[Link]:
        """Return the interfaces that exist now."""
        found = self._asking.dump(_GET_LINK, _BODY.pack(0, 0, 0, 0, 0))
        return [link for kind, body in found if (link := _link(kind, body)) is not None]

    def read(self) -> list[Link] | None:
        """Return the changes since the last call, in order, or None if the kernel had to drop some.

        After None the caller compares with `all`: an interface that is not listed is gone. Before it reads, this asks
        the kernel for something, which waits until a process that is changing the network has finished. The kernel
        lets one process at a time change a network, and an agent that has to stop a queue would wait for a process
        that this one keeps from the CPU.
        """
        self._asking.ask(_GET_LINK, _BODY.pack(0, 0, _LOOPBACK, 0, 0), "asking for the loopback interface")
        changed = []
        for _ in range(_AT_ONCE):
            try:
                data = self._socket.recv(1 << 16)
            except BlockingIOError:
                break
            except OSError as error:
                if error.errno == errno.ENOBUFS:
                    return None
                raise
            position = 0
            while position + _HEADER.size <= len(data):
                length, kind, _, _, _ = _HEADER.unpack_from(data, position)
                if link := _link(kind, data[position + _HEADER.size : position + length]):
                    changed.append(link)
                position += max(-(-length // 4) * 4, _HEADER.size)
        return changed

    def close(self) -> None:
        self._socket.close()
        self._asking.close()


def _link(kind: int, body: bytes) -> Link | None:
    if kind not in (_NEW_LINK, _DELETE_LINK) or len(body) < _BODY.size:
        return None
    family, hardware, index, flags, _ = _BODY.unpack_from(body)
    if family:  # a bridge's message about its port
        return None
    fields = attributes(body, _BODY.size)
    mac = fields.get(_ADDRESS, b"")
    downs = fields.get(_CARRIER_DOWNS, b"")
    return Link(
        index,
        fields.get(_NAME, b"").rstrip(b"\0").decode(errors="replace"),
        Mac(mac) if len(mac) == 6 else None,
        bool(flags & _IFF_UP),
        bool(flags & _IFF_LOWER_UP),
        bool(flags & _IFF_LOOPBACK),
        hardware == _ETHERNET,
        kind == _NEW_LINK,
        int.from_bytes(downs, sys.byteorder) if downs else None,
    )


class Sent(NamedTuple):
    """Frames and octets that left an interface, without preamble, FCS and gap."""

    frames: int
    octets: int


def sent(netlink: Socket) -> dict[int, Sent]:
    """Return the counters of each interface of a namespace, by its index; one request lists all."""
    found = {}
    for _, body in netlink.dump(_GET_STATISTICS, _REQUEST.pack(0, 0, 1 << (_LINK_64 - 1))):
        _, interface, _ = _REQUEST.unpack_from(body)
        counters = attributes(body, _REQUEST.size).get(_LINK_64, b"")
        if len(counters) >= _COUNTERS.size:
            _, frames, _, octets = _COUNTERS.unpack_from(counters)
            found[interface] = Sent(frames, octets)
    return found
