"""The routes in the kernel of a network namespace: listed, and read from its notifications."""

from __future__ import annotations

import errno
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import ip_address

from testbed.linux.netlink.link_state import Link, LinkWatch
from testbed.linux.netlink.messages import Socket, attributes
from testbed.linux.process import kernel
from testbed.subjects.routing.expected import Routes

_NEW_ROUTE, _DELETE_ROUTE, _GET_ROUTE, _NEW_NEXT_HOP, _DELETE_NEXT_HOP = 24, 25, 26, 104, 105
_HEADER, _BODY, _WAY = struct.Struct("=IHHII"), struct.Struct("=BBBBBBBBI"), struct.Struct("=HBBi")
_DESTINATION, _PORT, _WAYS, _TABLE = 1, 4, 9, 15
_UNICAST, _MAIN, _BY_KERNEL = 1, 254, 2
_DEAD, _LINK_DOWN = 0x1, 0x10
_GROUPS = (7, 11, 32)
"""The kernel's multicast groups: routes of IPv4, of IPv6, and next hops."""
_ADD_MEMBERSHIP, _SOL_NETLINK = 1, 270
_FAMILIES = (socket.AF_INET, socket.AF_INET6)
_PROTOCOLS = {186: "bgp", 187: "isis", 188: "ospf", 12: "bird", 11: "zebra", 196: "static", 4: "static", 3: "boot"}
_LARGEST = 4 << 20


@dataclass(frozen=True)
class RouteChange:
    """A route that was set or removed, or (without a destination) a change of a next hop."""

    destination: str
    ports: tuple[int, ...]
    """The indices of the interfaces of its ways; none if it was removed."""
    by: str = ""


class RouteTable:
    """The main table of a node's namespace."""

    def __init__(self, pid: int) -> None:
        with kernel.in_network_of(pid):
            self._socket = Socket()
            self._links = LinkWatch()

    def routes(self) -> Routes:
        """Return the ports of each route that something else than the kernel has set. Ports without a carrier, which
        the kernel does not use, are left out."""
        names = {link.index: link.name for link in self.links()}
        found: Routes = {}
        for family in _FAMILIES:
            for kind, body in self._socket.dump(_GET_ROUTE, _BODY.pack(family, *[0] * 8)):
                change = _route(kind, body)
                if change is not None and change.ports:
                    ports = frozenset(names.get(port, str(port)) for port in change.ports)
                    found[change.destination] = found.get(change.destination, frozenset()) | ports
        return found

    def links(self) -> list[Link]:
        """Return the namespace's interfaces."""
        return self._links.all()

    def close(self) -> None:
        self._socket.close()
        self._links.close()


class RouteNotices:
    """The kernel's notices of a node's routes."""

    def __init__(self, pid: int) -> None:
        with kernel.in_network_of(pid):
            self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC)
        self._socket.setblocking(False)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _LARGEST)
        self._socket.bind((0, 0))
        for group in _GROUPS:
            self._socket.setsockopt(_SOL_NETLINK, _ADD_MEMBERSHIP, group)

    def fileno(self) -> int:
        return self._socket.fileno()

    def read(self) -> Iterator[RouteChange]:
        """Yield the changes since the last call. A notice for which the kernel had no room is a change without name."""
        while True:
            try:
                data = self._socket.recv(1 << 16)
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno != errno.ENOBUFS:
                    raise
                yield RouteChange("", ())
                continue
            at = 0
            while at + _HEADER.size <= len(data):
                length, kind, *_ = _HEADER.unpack_from(data, at)
                if kind in (_NEW_NEXT_HOP, _DELETE_NEXT_HOP):
                    yield RouteChange("", ())
                elif change := _route(kind, data[at + _HEADER.size : at + length]):
                    yield change
                at += max(-(-length // 4) * 4, _HEADER.size)

    def close(self) -> None:
        self._socket.close()


def _route(kind: int, body: bytes) -> RouteChange | None:
    """Return a route of the main table that leads somewhere."""
    if kind not in (_NEW_ROUTE, _DELETE_ROUTE) or len(body) < _BODY.size:
        return None
    family, length, _, _, table, protocol, _, route, flags = _BODY.unpack_from(body)
    found = attributes(body, _BODY.size)
    table = struct.unpack("=I", found[_TABLE])[0] if _TABLE in found else table
    if family not in _FAMILIES or route != _UNICAST or table != _MAIN or protocol == _BY_KERNEL:
        return None
    empty = bytes(4 if family == socket.AF_INET else 16)
    destination = f"{ip_address(found.get(_DESTINATION, empty))}/{length}"
    ports: list[int] = []
    if kind == _NEW_ROUTE:
        if _WAYS in found:
            ports = list(_ways(found[_WAYS]))
        elif _PORT in found and not flags & (_DEAD | _LINK_DOWN):
            ports = [struct.unpack("=i", found[_PORT])[0]]
    return RouteChange(destination, tuple(sorted(ports)), _PROTOCOLS.get(protocol, str(protocol)))


def _ways(data: bytes) -> Iterator[int]:
    at = 0
    while at + _WAY.size <= len(data):
        length, flags, _, port = _WAY.unpack_from(data, at)
        if not flags & (_DEAD | _LINK_DOWN):
            yield port
        at += max(-(-length // 4) * 4, _WAY.size)
