"""What the controller has installed on a router, in its kernel: VPNs as VRFs, policies as the routes of VPNs.

A route of a VPN goes by the policy of the VPN's colour to the router that the prefix is behind. Where there is no such
policy, or it has no path now, the route says so to whoever uses it (decision 0153): nothing goes without back-pressure.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable, Mapping
from ipaddress import IPv6Network

from testbed.errors import UsageError
from testbed.linux import links, seg6
from testbed.linux.netlink import Message, NetlinkError
from testbed.srv6.items import Item, ItemKey, PolicyItem, VpnItem
from testbed.srv6.policy import Key

_FIRST_TABLE = 100
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
        """In place of what has the same key. UsageError: it cannot be, and nothing is changed."""
        after = {**installed, item.identity: item}
        if isinstance(item, PolicyItem):
            self._send(self._routes(item.wish.key, after))
            return
        old = installed.get(item.identity)
        before = old if isinstance(old, VpnItem) else None
        try:
            self._send(self._vpn(item, before, after))
        except NetlinkError:  # what was there is put back
            if before:
                self._send(self._vpn(before, item, installed))
            else:
                self._take_away(item)
            raise

    def remove(self, item: PolicyItem | VpnItem, installed: Mapping[ItemKey, Item]) -> None:
        there = installed.get(item.identity)
        if isinstance(item, PolicyItem):
            self._send(self._routes(item.wish.key, {key: one for key, one in installed.items() if one is not there}))
        elif isinstance(there, VpnItem):
            self._take_away(there)

    def _take_away(self, item: VpnItem) -> None:
        site, table = item.wish.site(self._node), self.tables.pop(item.wish.name, None)
        if table is None:
            return
        assert site is not None and site.sid is not None
        requests = [seg6.remove_route(IPv6Network(site.sid))]
        requests += [seg6.join(self._interfaces[name], 0) for name in site.interfaces]
        self._send([*requests, links.delete(_index(table))])

    def _vpn(self, item: VpnItem, old: VpnItem | None, after: Mapping[ItemKey, Item]) -> list[Message]:
        site = item.wish.site(self._node)
        assert site is not None
        if site.sid is None:
            raise UsageError(f"VPN {item.wish.name} has no SID at {self._node}")
        if missing := [name for name in site.interfaces if name not in self._interfaces]:
            raise UsageError(f"{self._node} has no interface {missing[0]}; it has {', '.join(self._interfaces)}")
        requests: list[Message] = []
        table = self.tables.get(item.wish.name)
        if table is None:
            table = self._new_table(item.wish.name)
            requests += seg6.vrf(item.wish.name, _index(table), table)
        before = old.wish.site(self._node) if old else None
        if before:
            requests += [
                seg6.join(self._interfaces[name], 0) for name in before.interfaces if name not in site.interfaces
            ]
            if before.sid and before.sid != site.sid:
                requests.append(seg6.remove_route(IPv6Network(before.sid)))
        joined = before.interfaces if before else ()
        requests += [seg6.join(self._interfaces[name], _index(table)) for name in site.interfaces if name not in joined]
        requests.append(seg6.decapsulates(site.sid, str(item.wish.behaviour), table, _index(table)))
        routes = dict(item.wish.routes(self._node))
        if old:
            gone = [prefix for prefix, _ in old.wish.routes(self._node) if prefix not in routes]
            requests += [seg6.remove_route(prefix, table) for prefix in gone]
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

    def _new_table(self, vpn: str) -> int:
        if len(vpn) > _LONGEST_NAME:
            raise UsageError(f"VPN {vpn} cannot be a VRF of Linux, whose name has at most {_LONGEST_NAME} characters")
        try:
            socket.if_nametoindex(vpn)
        except OSError:
            pass
        else:
            raise UsageError(f"VPN {vpn} cannot be a VRF of {self._node}, which has an interface of that name")
        taken = set(self.tables.values())
        self.tables[vpn] = next(number for number in range(_FIRST_TABLE, 1 << 16) if number not in taken)
        return self.tables[vpn]


def _index(table: int) -> int:
    """The interface of a VRF."""
    return _FIRST_INDEX + table
