"""A router's kernel as SRv6 requests would make it, for tests: read octet by octet, without the code that wrote them.

A request for something that is not there, or is there already, is refused as Linux does (6.12). Like there, the routes
of a VRF's table stay when the VRF goes, but for those that lead into the VRF itself.
"""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any

from testbed.linux.netlink.messages import Message, NetlinkError
from testbed.subjects.srv6.session.intents import Key
from testbed.subjects.srv6.session.messages import Item, ItemKey, PolicyItem, VpnItem

NEW_LINK, DELETE_LINK, NEW_ROUTE, DELETE_ROUTE = 16, 17, 24, 25
MAIN, UNICAST, UNREACHABLE = 254, 1, 7
LAST_RESORT = 4278198272
SEG6, SEG6_LOCAL = 5, 7
ACTIONS = {7: "End.DT6", 8: "End.DT4", 16: "End.DT46"}
B6_ENCAPS = 10

_ROUTE = struct.Struct("=BBBBBBBBI")

Prefix = IPv4Network | IPv6Network


def attributes(octets: bytes) -> dict[int, bytes]:
    """Return the attributes, each kind once, with nothing left over. The flag of nested ones is taken off."""
    found: dict[int, bytes] = {}
    while octets:
        length, kind = struct.unpack_from("=HH", octets)
        assert 4 <= length <= len(octets) and kind & 0x3FFF not in found
        found[kind & 0x3FFF] = octets[4:length]
        octets = octets[(length + 3) // 4 * 4 :]
    return found


def number(octets: bytes) -> int:
    assert len(octets) == 4
    return int.from_bytes(octets, "little")


@dataclass(frozen=True)
class Encap:
    """Encapsulation into IPv6 with a segment routing header."""

    segments: tuple[IPv6Address, ...]
    """In order of travel."""
    out: int


@dataclass(frozen=True)
class Local:
    """The behaviour of a SID."""

    action: str
    table: int
    out: int


@dataclass(frozen=True)
class Bound:
    """The behaviour End.B6.Encaps of a SID."""

    segments: tuple[IPv6Address, ...]
    """In order of travel."""
    out: int


@dataclass(frozen=True)
class Route:
    prefix: Prefix
    table: int
    metric: int
    what: Encap | Local | Bound | None
    """The action of the route, or None if the prefix is unreachable."""


def route(message: Message) -> Route:
    """Return the route of a request. One that removes a route does not contain its action."""
    family, length, source, service, table, protocol, scope, kind, flags = struct.unpack_from(
        "=BBBBBBBBI", message.body
    )
    parts = attributes(message.body[12:])
    assert (source, service, table, flags) == (0, 0, 0, 0), "the table is an attribute, which has room for all numbers"
    assert len(parts[1]) == {2: 4, 10: 16}[family]
    prefix = ip_network((ip_address(parts[1]), length))
    metric = number(parts[6]) if 6 in parts else 0
    what = None
    if message.kind == NEW_ROUTE:
        assert protocol == 4, "static"
        what = _what(parts) if kind == UNICAST else None
        assert kind in (UNICAST, UNREACHABLE) and (kind == UNICAST) == (4 in parts)
        assert scope == (253 if family == 2 and kind == UNICAST else 0), "a route by an interface alone has scope link"
    return Route(prefix, number(parts[15]), metric, what)


def _what(parts: Mapping[int, bytes]) -> Encap | Local | Bound:
    way = attributes(parts[22])
    kind = int.from_bytes(parts[21], "little")
    out = number(parts[4])
    if kind == SEG6_LOCAL and number(way[1]) == B6_ENCAPS:
        assert list(way) == [1, 2]
        return Bound(_segments(way[2]), out)
    if kind == SEG6_LOCAL:
        return Local(ACTIONS[number(way[1])], number(way[9]), out)
    assert kind == SEG6 and list(way) == [1]
    assert number(way[1][:4]) == 1, "encapsulation"
    return Encap(_segments(way[1][4:]), out)


def _segments(header: bytes) -> tuple[IPv6Address, ...]:
    """Return the segments of a segment routing header."""
    after, length, routing, left, last = header[:5]
    assert (after, routing) == (0, 4), "the kernel fills in what comes after"
    flags_and_tag, listed = header[5:8], header[8:]
    assert flags_and_tag == bytes(3) and len(listed) == 8 * length == 16 * (last + 1) and left == last
    addresses = [IPv6Address(listed[at : at + 16]) for at in range(0, len(listed), 16)]
    return tuple(addresses[::-1])


def link(message: Message) -> tuple[int, dict[int, bytes]]:
    """Return the interface's number and its attributes."""
    _, _, index, flags, change = struct.unpack_from("=BxHiII", message.body)
    parts = attributes(message.body[16:])
    assert (flags, change) == ((1, 1) if 18 in parts else (0, 0)), "a new one is up"
    return index, parts


@dataclass
class Kernel:
    """The kernel of one router with these interfaces."""

    interfaces: Mapping[str, int]
    refuses: Callable[[Message], bool] = lambda message: False
    said: list[Message] = field(default_factory=list)
    """The requests so far."""
    vrfs: dict[int, tuple[str, int]] = field(default_factory=dict)
    """The names and tables of VRFs."""
    masters: dict[int, int] = field(default_factory=dict)
    routes: dict[tuple[Prefix, int, int], Encap | Local | Bound | None] = field(default_factory=dict)

    def send(self, messages: Iterable[Message]) -> None:
        """Carry out requests as `netlink.Socket` does: all are tried, and the first refusal is raised."""
        first: NetlinkError | None = None
        for message in messages:
            self.said.append(message)
            code = errno.EPERM if self.refuses(message) else self._do(message)
            if code and not (message.may_be_gone and code in (errno.ENODEV, errno.ESRCH)):
                first = first or NetlinkError(f"{message.what}: {os.strerror(code)}", code)
        if first:
            raise first

    def state(self) -> dict[str, Any]:
        """Return the routes by names, independent of the numbers of tables."""
        names = {table: name for name, table in self.vrfs.values()}
        found: dict[str, Any] = {name: {"members": set(), "routes": {}, "last": set()} for name in names.values()}
        for index, master in self.masters.items():
            found[self.vrfs[master][0]]["members"].add(index)
        for (prefix, table, metric), what in self.routes.items():
            if isinstance(what, Local):
                assert table == MAIN and what.out == next(i for i, vrf in self.vrfs.items() if vrf[1] == what.table)
                found[str(prefix.network_address)] = (what.action, names[what.table])
            elif table == MAIN:
                assert prefix.prefixlen == 128 and (what is None or isinstance(what, Bound))
                ways = found.setdefault(str(prefix.network_address), {})
                assert isinstance(ways, dict), "something else is behind this SID too"
                ways[metric] = what
            elif metric == LAST_RESORT:
                assert what is None
                found[names[table]]["last"].add(str(prefix))
            else:
                more = "" if metric == 1024 else f" metric {metric}"
                found[names[table]]["routes"][f"{prefix}{more}"] = what
        return found

    def _do(self, message: Message) -> int:
        if message.kind in (NEW_ROUTE, DELETE_ROUTE):
            return self._route(message)
        index, parts = link(message)
        if message.kind == DELETE_LINK:
            if index not in self.vrfs:
                return errno.ENODEV
            del self.vrfs[index]
            self.masters = {slave: master for slave, master in self.masters.items() if master != index}
            self.routes = {
                key: what for key, what in self.routes.items() if not isinstance(what, Local) or what.out != index
            }
            return 0
        assert message.kind == NEW_LINK
        return self._make(index, parts) if 18 in parts else self._join(index, number(parts[10]))

    def _make(self, index: int, parts: Mapping[int, bytes]) -> int:
        info = attributes(parts[18])
        assert info[1] == b"vrf\0"
        name, table = parts[3].rstrip(b"\0").decode(), number(attributes(info[2])[1])
        if index in self.vrfs or name in [vrf[0] for vrf in self.vrfs.values()]:
            return errno.EEXIST
        assert table not in (0, 253, 254, 255) and table not in [vrf[1] for vrf in self.vrfs.values()]
        assert len(name) <= 15 and index not in self.interfaces.values()
        self.vrfs[index] = (name, table)
        return 0

    def _join(self, index: int, master: int) -> int:
        assert index in self.interfaces.values()
        if master and master not in self.vrfs:
            return errno.ENODEV
        self.masters.pop(index, None)
        if master:
            self.masters[index] = master
        return 0

    def _route(self, message: Message) -> int:
        one = route(message)
        if message.kind == NEW_ROUTE:
            assert message.create and message.replace
            if isinstance(one.what, Local) and one.what.out not in self.vrfs:
                return errno.ENODEV
            self.routes[one.prefix, one.table, one.metric] = one.what
            return 0
        there = [key for key in self.routes if key[:2] == (one.prefix, one.table) and one.metric in (0, key[2])]
        if not there:
            return errno.ESRCH
        del self.routes[min(there, key=lambda key: key[2])]
        return 0


def wanted(
    node: str, interfaces: Mapping[str, int], ways: Sequence[int], installed: Mapping[ItemKey, Item]
) -> dict[str, Any]:
    """Return the right `state` of a kernel with these items, thought out anew."""
    found: dict[str, Any] = {}
    for item in installed.values():
        if isinstance(item, PolicyItem) and item.intent.binding_sid is not None:
            bound = {1024 + place: Bound(item.segments, way) for place, way in enumerate(ways)}
            found[str(item.intent.binding_sid)] = bound if item.segments else dict.fromkeys(bound)
        if not isinstance(item, VpnItem):
            continue
        vpn = item
        own = vpn.intent.site(node)
        assert own is not None
        routes: dict[str, Encap | None] = {}
        for site in vpn.intent.sites:
            policy = installed.get(("policy", Key(node, vpn.intent.colour, site.router)))
            usable = isinstance(policy, PolicyItem) and policy.intent.vpn in (None, vpn.intent.name) and policy.segments
            for prefix in site.prefixes if site.router != node else ():
                routes[str(prefix)] = Encap(policy.segments, ways[0]) if usable else None  # type: ignore[union-attr]
                for place, way in enumerate(ways[1:] if prefix.version == 6 else (), 1):
                    more = Encap(policy.segments, way) if usable else None  # type: ignore[union-attr]
                    routes[f"{prefix} metric {1024 + place}"] = more
        members = {interfaces[name] for name in own.interfaces}
        found[vpn.intent.name] = {"members": members, "routes": routes, "last": {"0.0.0.0/0", "::/0"}}
        found[str(own.sid)] = (str(vpn.intent.behaviour), vpn.intent.name)
    return found
