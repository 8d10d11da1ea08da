"""Routers that only speak: agents without a network, for tests of the controller in memory, here, and in the lab.

A `FakeRouter` does at once what is requested, and notes it. A `Fleet` connects them to a controller by real sockets.
"""

from __future__ import annotations

import json
import secrets
import select
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from ipaddress import IPv4Address, IPv6Address
from typing import Any

from testbed.subjects.srv6.protocol import behaviours
from testbed.subjects.srv6.protocol.behaviours import Behaviour
from testbed.subjects.srv6.protocol.sid import Adjacency, Sid
from testbed.subjects.srv6.session.intents import Key
from testbed.subjects.srv6.session.messages import (
    Command,
    Install,
    Item,
    LinkEnd,
    PolicyItem,
    Report,
    RouterPort,
    SliceInfo,
    TunnelItem,
    VpnItem,
)
from testbed.subjects.srv6.session.router_side import RECONNECT_NS, Router

MS = 10**6
S = 10**9

FIGURE_3 = [("R1", "R2", 5), ("R2", "R3", 5)]
FIGURE_2 = [("R1", "R2", 5), ("R2", "R5", 5), ("R2", "R3", 3), ("R3", "R4", 3), ("R4", "R5", 3)]

Links = Sequence[tuple[str, str, int]]


def sid(
    router: str, function: str, behaviour: Behaviour = behaviours.END, interface: str = "", slice_id: int | None = None
) -> Sid:
    """R7's SIDs are fd00:a:7:FUNCTION::."""
    adjacencies = (Adjacency(interface, IPv6Address("fd00:b::ff")),) if interface else ()
    address = IPv6Address(f"fd00:a:{router[1:]}:{function}::")
    return Sid(router, address, behaviour, adjacencies=adjacencies, slice_id=slice_id)


def report(router: str, links: Links, pfc: Iterable[str], slices: frozenset[int] = frozenset()) -> Report:
    """R1's interface to R2 is "to2"; its SIDs are 1 (End), e02 (End.X to R2), f02 (End.X.PFC to R2)."""
    sids, ends = [sid(router, "1")], []
    for a, b, delay in links:
        if router not in (a, b):
            continue
        other = b if a == router else a
        number = int(other[1:])
        port = f"to{number}"
        able = router in pfc
        sids.append(sid(router, f"e{number:02x}", behaviours.END_X, port))
        sids += [sid(router, f"f{number:02x}", behaviours.END_X_PFC, port)] if able else []
        sids += [
            sid(router, f"{0xA000 + s * 256 + number:x}", behaviours.END_X_PFC, port, s) for s in sorted(slices) if able
        ]
        ends.append(LinkEnd(port, RouterPort(other, f"to{router[1:]}"), delay * MS, pfc=able, slices=slices))
    infos = tuple(SliceInfo(number, f"slice {number}") for number in sorted(slices))
    return Report(router, tuple(sids), tuple(ends), infos, router_id=IPv4Address(f"10.0.0.{router[1:]}"))


class FakeRouter:
    """An agent without a network: it does at once what is requested, and notes it."""

    def __init__(self, known: Report, key: bytes) -> None:
        self.router = Router(known.node, key)
        self.router.know(known, 0)
        self.log: list[str] = []  # what it did, as in "install tunnel R3 to R1 (...)"
        self.refuses: Callable[[Item], str | None] = lambda item: None
        self.is_slow = False  # it answers only when `answer` is called
        self.waiting: list[Command] = []

    @property
    def name(self) -> str:
        return self.router.name

    def obey(self, commands: list[Command], now_ns: int) -> None:
        self.waiting += commands
        if not self.is_slow:
            self.answer(now_ns)

    def answer(self, now_ns: int) -> None:
        while self.waiting:
            self._do(self.waiting.pop(0), now_ns)

    def _do(self, command: Command, now_ns: int) -> None:
        what = "install" if isinstance(command, Install) else "remove"
        why = self.refuses(command.item)
        self.log.append(f"{'refuse to ' if why else ''}{what} {command.item}")
        if why:
            self.router.refuse(command, why, now_ns)
            return
        self.router.done(command, now_ns)
        if isinstance(command.item, VpnItem):  # its SID is there now, or gone
            site = command.item.intent.site(self.name)
            assert site is not None and site.sid is not None
            sids = [known for known in self.router.known.sids if known.address != site.sid]
            if isinstance(command, Install):
                sids.append(Sid(self.name, site.sid, command.item.intent.behaviour))
            self.router.know(replace(self.router.known, sids=tuple(sids)), now_ns)

    def set_link(self, interface: str, now_ns: int, **changes: object) -> None:
        links = [
            replace(link, **changes) if link.interface == interface else link  # type: ignore[arg-type]
            for link in self.router.known.links
        ]
        self.router.know(replace(self.router.known, links=tuple(links)), now_ns)

    def items(self, kind: type[Item]) -> list[Item]:
        return [item for item in self.router.installed.values() if isinstance(item, kind)]

    def segments(self, key: Key) -> list[str] | None:
        item = self.router.installed.get(("policy", key))
        return list(map(str, item.segments)) if isinstance(item, PolicyItem) else None

    def tunnels(self) -> list[str]:
        """Reverse tunnels as in "R3 to R1 by fd00:a:3:1::, fd00:a:2:1::, fd00:a:1:f02::"."""
        return [
            f"{item.tunnel.router} to {item.tunnel.pauses} by {', '.join(map(str, item.tunnel.segments))}"
            for item in self.items(TunnelItem)
            if isinstance(item, TunnelItem)
        ]


class Fleet:
    """Fake routers and their connections to a controller; they move while `run` runs."""

    def __init__(self, routers: Iterable[FakeRouter], address: tuple[str, int] | str) -> None:
        self.routers = {fake.name: fake for fake in routers}
        self.address = address  # host and port, or the path of a Unix socket
        self._sockets: dict[str, socket.socket] = {}
        self._retry_ns: dict[str, int] = {}

    def run(self, until: Callable[[], bool], seconds: float = 10) -> bool:
        """Carry octets until something is so, or for as long; whether it is so."""
        deadline_ns = time.monotonic_ns() + int(seconds * S)
        while time.monotonic_ns() < deadline_ns:
            self._round()
            if until():
                return True
        return False

    def close(self) -> None:
        for connection in self._sockets.values():
            connection.close()
        self._sockets.clear()

    def log(self) -> list[str]:
        """Return the log of all routers since the last call."""
        done = [f"{fake.name}: {line}" for fake in self.routers.values() for line in fake.log]
        for fake in self.routers.values():
            fake.log.clear()
        return done

    def _round(self) -> None:
        now_ns = time.monotonic_ns()
        for name, fake in self.routers.items():
            if name not in self._sockets and now_ns >= self._retry_ns.get(name, 0):
                self._connect(fake, now_ns)
            fake.router.poll(now_ns)
            self._write(fake)
        names = {connection: name for name, connection in self._sockets.items()}
        for ready in select.select(list(names), [], [], 0.02)[0]:
            self._read(self.routers[names[ready]])

    def _connect(self, fake: FakeRouter, now_ns: int) -> None:
        family = socket.AF_UNIX if isinstance(self.address, str) else socket.AF_INET
        connection = socket.socket(family, socket.SOCK_STREAM)
        connection.settimeout(5)
        try:
            connection.connect(self.address)
        except OSError:
            connection.close()
            self._retry_ns[fake.name] = now_ns + RECONNECT_NS
            return
        self._sockets[fake.name] = connection
        fake.router.connect(secrets.token_bytes(32), now_ns)

    def _read(self, fake: FakeRouter) -> None:
        now_ns = time.monotonic_ns()
        try:
            data = self._sockets[fake.name].recv(1 << 16)
        except OSError:
            data = b""
        if data:
            fake.obey(fake.router.receive(data, now_ns), now_ns)
            self._write(fake)
        if not data or fake.router.ended is not None:
            self._drop(fake, now_ns)

    def _write(self, fake: FakeRouter) -> None:
        if fake.name in self._sockets and (data := fake.router.data_to_send()):
            try:
                self._sockets[fake.name].sendall(data)
            except OSError:
                self._drop(fake, time.monotonic_ns())

    def _drop(self, fake: FakeRouter, now_ns: int) -> None:
        if (connection := self._sockets.pop(fake.name, None)) is not None:
            connection.close()
            fake.router.disconnected(now_ns)
            self._retry_ns[fake.name] = now_ns + RECONNECT_NS


def ask(url: str, token: str, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    """Status and JSON of an answer of the controller's REST; 0 if there is no answer."""
    data = None if body is None else json.dumps(body).encode()
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    request = urllib.request.Request(url + path, data, headers, method=method)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=10) as answer:
            content = answer.read()
            return answer.status, json.loads(content) if content else None
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())
    except OSError:
        return 0, None


VPN = {
    "name": "red",
    "colour": 100,
    "sites": [
        {"router": "R1", "interfaces": ["r1-eth0"], "prefixes": ["10.1.0.0/16"]},
        {"router": "R3", "interfaces": ["r3-eth0"], "prefixes": ["10.3.0.0/16"]},
    ],
}
POLICY = {"headend": "R1", "colour": 100, "endpoint": "R3", "vpn": "red"}
