"""The routes in the kernel of a network namespace: listed, and read from its notifications.

A process that notes each change of the routes of a network's routers, with the moment of the lab's clock.

The run's folder gets them as `routes.jsonl`. The experiment's process asks when the last change was, and waits for the
next one.
"""

from __future__ import annotations

import errno
import json
import socket
import struct
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any

from testbed.experiment.output import ROUTE_LOG
from testbed.experiment.run import Run
from testbed.linux.netlink.link_state import Link, LinkWatch
from testbed.linux.netlink.messages import Socket, attributes
from testbed.linux.process import kernel
from testbed.linux.process.forked_helper import READY, STOP, Ending, ForkedHelper, PacketPipe
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
        ports_of: Routes = {}
        for family in _FAMILIES:
            for kind, body in self._socket.dump(_GET_ROUTE, _BODY.pack(family, *[0] * 8)):
                change = _route(kind, body)
                if change is not None and change.ports:
                    ports = frozenset(names.get(port, str(port)) for port in change.ports)
                    ports_of[change.destination] = ports_of.get(change.destination, frozenset()) | ports
        return ports_of

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
    fields = attributes(body, _BODY.size)
    table = struct.unpack("=I", fields[_TABLE])[0] if _TABLE in fields else table
    if family not in _FAMILIES or route != _UNICAST or table != _MAIN or protocol == _BY_KERNEL:
        return None
    empty = bytes(4 if family == socket.AF_INET else 16)
    destination = f"{ip_address(fields.get(_DESTINATION, empty))}/{length}"
    ports: list[int] = []
    if kind == _NEW_ROUTE:
        if _WAYS in fields:
            ports = list(_ways(fields[_WAYS]))
        elif _PORT in fields and not flags & (_DEAD | _LINK_DOWN):
            ports = [struct.unpack("=i", fields[_PORT])[0]]
    return RouteChange(destination, tuple(sorted(ports)), _PROTOCOLS.get(protocol, str(protocol)))


def _ways(data: bytes) -> Iterator[int]:
    at = 0
    while at + _WAY.size <= len(data):
        length, flags, _, port = _WAY.unpack_from(data, at)
        if not flags & (_DEAD | _LINK_DOWN):
            yield port
        at += max(-(-length // 4) * 4, _WAY.size)


_MOST_NAMES = 100
"""The most routers that an answer names; more are all."""


@dataclass(frozen=True)
class Changes:
    """What has happened so far: the number of changes, the last one's moment, and the routers that changed lately."""

    count: int
    last_ns: int
    routers: tuple[str, ...] | None
    """None: any of them."""


@dataclass(frozen=True)
class RouteEvent:
    """A change of a route, as the run's log has it."""

    lab_ns: int
    """The moment by the lab's clock."""
    router: str
    route: str
    ports: tuple[str, ...]
    """The ports of its equal ways; none: it was removed."""
    by: str


def events(run: Run) -> list[RouteEvent]:
    """Return the changes of routes in a run so far."""
    log, begin_ns = run.directory / ROUTE_LOG, run.start_ns
    lines = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    return [
        RouteEvent(one["lab_ns"] + begin_ns, one["router"], one["route"], tuple(one["ports"]), one["by"])
        for one in lines
    ]


def taken_from(run: Run, line: int) -> list[dict[str, Any]]:
    """Remove the lines of a run's log from a line on, and return them with moments by the lab's clock."""
    log, begin_ns = run.directory / ROUTE_LOG, run.start_ns
    lines = log.read_text().splitlines(keepends=True) if log.exists() else []
    if lines[line:]:
        log.write_text("".join(lines[:line]))
    return [found | {"t_ns": found["lab_ns"] + begin_ns} for found in map(json.loads, lines[line:])]


class RouteWatch:
    """The watch over routers, which are given as a process in the namespace of each."""

    def __init__(self, routers: Mapping[str, int], run: Run | None) -> None:
        self._helper: ForkedHelper[PacketPipe] = ForkedHelper(
            "watching the routes failed", lambda pipe: _Watcher(routers, run).watch(pipe), PacketPipe.pair(),
            Ending.RETURNS, name="xoff-routes",
        )  # fmt: skip
        self._helper.receive()  # from now on no change is missed

    def after(self, count: int, until_ns: int) -> Changes:
        """Return what has happened as soon as it is more than `count` changes, or at a moment at the latest."""
        self._helper.send((count, until_ns))
        found: Changes = self._helper.receive()
        return found

    def stop(self) -> None:
        self._helper.stop()


class _Watcher:
    """The watch, in its own process."""

    def __init__(self, routers: Mapping[str, int], run: Run | None) -> None:
        self._run = run
        self._notices, self._names = {}, {}
        for name, pid in routers.items():
            notices = RouteNotices(pid)
            self._notices[notices.fileno()] = name, notices
            table = RouteTable(pid)
            self._names[name] = {link.index: link.name for link in table.links()}
            table.close()
        self._count, self._last_ns, self._changed = 0, time.monotonic_ns(), set[str]()

    def watch(self, pipe: PacketPipe) -> None:
        pipe.send(READY)
        asked: tuple[int, int] | None = None
        while True:
            timeout_s = None
            if asked is not None:
                if self._count > asked[0] or time.monotonic_ns() >= asked[1]:
                    names = tuple(sorted(self._changed)) if len(self._changed) <= _MOST_NAMES else None
                    pipe.send(Changes(self._count, self._last_ns, names))
                    self._changed.clear()
                    asked = None
                else:
                    timeout_s = (asked[1] - time.monotonic_ns()) / 1e9
            for descriptor in kernel.wait_readable([pipe, *self._notices], timeout_s):
                if descriptor != pipe.fileno():
                    self._read(*self._notices[descriptor])
                    continue
                message = pipe.recv()
                if message == STOP:
                    return
                asked = message

    def _read(self, name: str, notices: RouteNotices) -> None:
        now_ns, lines = time.monotonic_ns(), []
        for change in notices.read():
            self._count, self._last_ns = self._count + 1, now_ns
            self._changed.add(name)
            if change.destination:
                ports = [self._names[name].get(port, str(port)) for port in change.ports]
                lines.append(
                    {"t_ns": now_ns, "router": name, "route": change.destination, "ports": ports, "by": change.by}
                )
        if self._run is not None:
            self._run.lines(ROUTE_LOG, lines)
