"""Whether interfaces are there and have a carrier, from the kernel's own messages (rtnetlink): nothing is polled."""

from __future__ import annotations

import errno
import socket
import struct
import sys
from dataclasses import dataclass

from testbed.frames import Mac
from testbed.linux import netlink

_NEW_LINK, _DELETE_LINK, _GET_LINK = 16, 17, 18
_LINK_GROUP = 1  # RTMGRP_LINK
_HEADER = struct.Struct("=IHHII")
_BODY = struct.Struct("=BxHiII")
_ADDRESS, _NAME, _CARRIER_DOWNS = 1, 3, 48
_IFF_UP, _IFF_LOOPBACK, _IFF_LOWER_UP = 0x1, 0x8, 0x10000
_ETHERNET = 1  # ARPHRD_ETHER
_LOOPBACK = 1  # its index in every network namespace
_AT_ONCE = 64


@dataclass(frozen=True)
class Link:
    """One interface, at some moment."""

    index: int
    name: str
    mac: Mac | None
    is_up: bool  # by its administrator
    has_carrier: bool
    is_loopback: bool
    is_ethernet: bool
    exists: bool = True  # False: it is gone, and only index and name count
    downs: int | None = None
    """How often it has lost its carrier. The kernel reports a short loss by this alone; None: it does not count."""

    @property
    def can_talk(self) -> bool:
        return self.exists and self.is_up and self.has_carrier


class LinkWatch:
    """All interfaces of the network namespace that the process is in when this is made."""

    def __init__(self) -> None:
        flags = socket.SOCK_RAW | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK
        self._socket = socket.socket(socket.AF_NETLINK, flags, 0)
        self._socket.bind((0, _LINK_GROUP))  # before anything is listed, so that no change is missed
        self._asking = netlink.Socket()

    @property
    def fd(self) -> int:
        return self._socket.fileno()

    def all(self) -> list[Link]:
        """Those that are there now."""
        found = self._asking.dump(_GET_LINK, _BODY.pack(0, 0, 0, 0, 0))
        return [link for kind, body in found if (link := _link(kind, body)) is not None]

    def read(self) -> list[Link] | None:
        """What changed since the last time, in order; None: too much, look at `all` and take the rest as gone.

        A process that is changing it gets the time to finish: the kernel lets one process at a time change a network,
        and an agent that is to stop a queue would wait for one that we keep from its end.
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
    found = netlink.attributes(body, _BODY.size)
    mac = found.get(_ADDRESS, b"")
    downs = found.get(_CARRIER_DOWNS, b"")
    return Link(
        index,
        found.get(_NAME, b"").rstrip(b"\0").decode(errors="replace"),
        Mac(mac) if len(mac) == 6 else None,
        bool(flags & _IFF_UP),
        bool(flags & _IFF_LOWER_UP),
        bool(flags & _IFF_LOOPBACK),
        hardware == _ETHERNET,
        kind == _NEW_LINK,
        int.from_bytes(downs, sys.byteorder) if downs else None,
    )
