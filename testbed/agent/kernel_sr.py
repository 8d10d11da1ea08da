"""What the controller has installed on a router, in its kernel: VPNs as VRFs, policies as the routes of VPNs.

A route of a VPN goes by the policy of the VPN's colour to the router that the prefix is behind. Where there is no such
policy, or it has no path now, the route says so to whoever uses it (decision 0153): nothing goes without back-pressure.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from ipaddress import IPv6Address, IPv6Network

from testbed.errors import UsageError
from testbed.linux import links, seg6
from testbed.linux.netlink import Message, NetlinkError
from testbed.srv6.items import Item, ItemKey, PolicyItem, VpnItem
from testbed.srv6.policy import Key
from testbed.srv6.wishes import Site

_TABLES = range(1000, 1 << 16)
"""Routing tables of VRFs. The kernel's own are below."""
_FIRST_INDEX = 10_000
_LONGEST_NAME = 15


class KernelSr:
    """One router's. What is installed is the caller's to keep; tables are numbered here."""

    def __init__(
        self,
        node: str,
        interfaces: Mapping[str, int],
        out: int,
        send: Callable[[Iterable[Message]], None],
        tables: Mapping[str, int] = {},
    ) -> None:
        """`interfaces` by their names; `out`, one that is in no VPN; `tables` by VPN, as a predecessor had them."""
        self._node, self._interfaces, self._out, self._send = node, interfaces, out, send
        self.tables = dict(tables)

    def install(self, item: PolicyItem | VpnItem, installed: Mapping[ItemKey, Item]) -> None:
        """In place of what has the same key. UsageError or NetlinkError: it cannot be, and all is as it was."""
        after = {**installed, item.identity: item}
        if isinstance(item, PolicyItem):
            self._change(self._routes(item.wish.key, after), self._routes(item.wish.key, installed))
            return
        old = installed.get(item.identity)
        if isinstance(old, VpnItem):
            self._change(self._vpn(item, old, after), self._vpn(old, item, installed))
            return
        requests = self._vpn(item, None, after)
        try:
            self._change(requests, self._nothing_of(item, installed))
        except NetlinkError:
            with suppress(NetlinkError):
                self._send([links.delete(_index(self.tables.pop(item.wish.name)))])
            raise

    def remove(self, item: PolicyItem | VpnItem, installed: Mapping[ItemKey, Item]) -> None:
        """NetlinkError: it cannot be, and all is as it was."""
        there = installed.get(item.identity)
        after = {key: one for key, one in installed.items() if key != item.identity}
        if isinstance(item, PolicyItem):
            self._change(self._routes(item.wish.key, after), self._routes(item.wish.key, installed))
        elif isinstance(there, VpnItem):
            as_it_was = self._vpn(there, None, installed)
            self._change(self._nothing_of(there, after), as_it_was)
            self._change([links.delete(_index(self.tables[there.wish.name]))], as_it_was)
            del self.tables[there.wish.name]

    def _change(self, requests: Iterable[Message], back: Iterable[Message]) -> None:
        """The kernel does what it can of the requests. If that is not all, `back` makes what was there before."""
        try:
            self._send(requests)
        except NetlinkError as refused:
            try:
                self._send(back)
            except NetlinkError as error:
                text = f"{refused}; and what was there before does not come back: {error}"
                raise NetlinkError(text, refused.code) from None
            raise

    def _nothing_of(self, item: VpnItem, others: Mapping[ItemKey, Item]) -> list[Message]:
        """Everything but the VRF itself goes, the routes too: tables are used again."""
        site, table = item.wish.site(self._node), self.tables[item.wish.name]
        assert site is not None and site.sid is not None
        requests = [self._give_up_sid(item, site.sid, others), *self._leave(item, site.interfaces, others)]
        requests += [seg6.remove_route(prefix, table) for prefix, _ in item.wish.routes(self._node)]
        return requests + seg6.remove_last_resort(table)

    def _leave(self, item: VpnItem, names: Iterable[str], others: Mapping[ItemKey, Item]) -> list[Message]:
        """Interfaces leave a VPN, for no other, or for one that has been given them meanwhile."""
        owner = {name: table for site, _, table in self._others(item, others) for name in site.interfaces}
        return [
            seg6.join(self._interfaces[name], _index(owner[name]) if name in owner else 0)
            for name in names
            if name in self._interfaces
        ]

    def _give_up_sid(self, item: VpnItem, sid: IPv6Address, others: Mapping[ItemKey, Item]) -> Message:
        for site, behaviour, table in self._others(item, others):
            if site.sid == sid:
                return seg6.decapsulates(sid, behaviour, table, _index(table))
        return seg6.remove_route(IPv6Network(sid))

    def _others(self, item: VpnItem, items: Mapping[ItemKey, Item]) -> Iterator[tuple[Site, str, int]]:
        """Other VPNs: their site here, behaviour and table."""
        for other in items.values():
            if isinstance(other, VpnItem) and other.wish.name != item.wish.name and other.wish.name in self.tables:
                site = other.wish.site(self._node)
                assert site is not None
                yield site, str(other.wish.behaviour), self.tables[other.wish.name]

    def _vpn(self, item: VpnItem, old: VpnItem | None, after: Mapping[ItemKey, Item]) -> list[Message]:
        """A VPN in place of what it was before."""
        site = item.wish.site(self._node)
        assert site is not None
        if site.sid is None:
            raise UsageError(f"VPN {item.wish.name} has no SID at {self._node}")
        if missing := [name for name in site.interfaces if name not in self._interfaces]:
            raise UsageError(f"{self._node} has no interface {missing[0]}; it has {', '.join(self._interfaces)}")
        requests: list[Message] = []
        if item.wish.name not in self.tables:
            requests += self._make(item.wish.name)
        table = self.tables[item.wish.name]
        before = old.wish.site(self._node) if old else None
        if old and before:
            gone = [name for name in before.interfaces if name not in site.interfaces]
            requests += self._leave(old, gone, after)
            if before.sid and before.sid != site.sid:
                requests.append(self._give_up_sid(old, before.sid, after))
        joined = before.interfaces if before else ()
        requests += [seg6.join(self._interfaces[name], _index(table)) for name in site.interfaces if name not in joined]
        requests.append(seg6.decapsulates(site.sid, str(item.wish.behaviour), table, _index(table)))
        routes = dict(item.wish.routes(self._node))
        if old:
            obsolete = [prefix for prefix, _ in old.wish.routes(self._node) if prefix not in routes]
            requests += [seg6.remove_route(prefix, table) for prefix in obsolete]
        else:
            requests += seg6.last_resort(table)
        return requests + [self._route(item, prefix, far, after) for prefix, far in routes.items()]

    def _routes(self, key: Key, after: Mapping[ItemKey, Item]) -> list[Message]:
        """The routes of all VPNs that go by this policy."""
        return [
            self._route(vpn, prefix, far, after)
            for vpn in after.values()
            if isinstance(vpn, VpnItem) and vpn.wish.colour == key.colour and vpn.wish.name in self.tables
            for prefix, far in vpn.wish.routes(self._node)
            if far == key.endpoint
        ]

    def _route(self, vpn: VpnItem, prefix: seg6.Prefix, far: str, after: Mapping[ItemKey, Item]) -> Message:
        table = self.tables[vpn.wish.name]
        policy = after.get(("policy", Key(self._node, vpn.wish.colour, far)))
        if isinstance(policy, PolicyItem) and policy.segments and policy.wish.vpn in (None, vpn.wish.name):
            return seg6.encapsulates(prefix, table, policy.segments, self._out)
        return seg6.unreachable(prefix, table)

    def _make(self, vpn: str) -> list[Message]:
        """A VRF with a table of its own."""
        if len(vpn) > _LONGEST_NAME:
            raise UsageError(f"VPN {vpn} cannot be a VRF of Linux, whose name has at most {_LONGEST_NAME} characters")
        taken = set(self.tables.values())
        table = next(number for number in _TABLES if number not in taken)
        requests = []
        if there := _interface(vpn):
            if there - _FIRST_INDEX not in _TABLES or there - _FIRST_INDEX in taken:
                raise UsageError(f"VPN {vpn} cannot be a VRF of {self._node}, which has an interface of that name")
            table = there - _FIRST_INDEX  # made by a predecessor, which died before it had noted it
            requests.append(links.delete(there))
        self.tables[vpn] = table
        return [*requests, seg6.vrf(vpn, _index(table), table)]


def _interface(name: str) -> int:
    """Its number; 0: there is none."""
    try:
        return socket.if_nametoindex(name)
    except OSError:
        return 0


def _index(table: int) -> int:
    """The interface of a VRF."""
    return _FIRST_INDEX + table
