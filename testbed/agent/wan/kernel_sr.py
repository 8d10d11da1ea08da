"""What the controller has installed on a router, in its kernel: VPNs as VRFs, policies as the routes of VPNs.

A route of a VPN goes by the policy of the VPN's colour to the router that the prefix is behind. Where there is no such
policy, or it has no path now, the route says so to whoever uses it (decision 0153): nothing goes without back-pressure.

Behind a policy's binding SID is End.B6.Encaps with the policy's list. While it has no path the SID is kept, and drops
(RFC 9256, section 8.2): there is a route for it that leads nowhere.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from ipaddress import IPv6Address, IPv6Network

from testbed.errors import UsageError
from testbed.linux import links, seg6
from testbed.linux.netlink import Message, NetlinkError
from testbed.srv6.session.intents import Site
from testbed.srv6.session.items import Item, ItemKey, PolicyItem, VpnItem
from testbed.srv6.session.policy import Key

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
        ways: Sequence[int],
        send: Callable[[Iterable[Message]], None],
        tables: Mapping[str, int] = {},
    ) -> None:
        """`interfaces` by their names; `ways`, those to other routers; `tables` by VPN, as a predecessor had them."""
        self._node, self._interfaces, self._ways, self._send = node, interfaces, ways, send
        self.tables = dict(tables)

    def install(self, item: PolicyItem | VpnItem, installed: Mapping[ItemKey, Item]) -> None:
        """In place of what has the same key. UsageError or NetlinkError: it cannot be, and all is as it was."""
        after = {**installed, item.identity: item}
        old = installed.get(item.identity)
        if isinstance(item, PolicyItem):
            forms = [item, old] if isinstance(old, PolicyItem) else [item]
            self._change(self._policy(forms, after), self._policy(forms, installed))
            return
        if isinstance(old, VpnItem):
            self._change(self._vpn(item, old, after), self._vpn(old, item, installed))
            return
        requests = self._vpn(item, None, after)
        try:
            self._change(requests, self._nothing_of(item, installed))
        except NetlinkError:
            with suppress(NetlinkError):
                self._send([links.delete(_index(self.tables.pop(item.intent.name)))])
            raise

    def remove(self, item: PolicyItem | VpnItem, installed: Mapping[ItemKey, Item]) -> None:
        """NetlinkError: it cannot be, and all is as it was."""
        there = installed.get(item.identity)
        after = {key: one for key, one in installed.items() if key != item.identity}
        if isinstance(there, PolicyItem):
            self._change(self._policy([there], after), self._policy([there], installed))
        elif isinstance(there, VpnItem):
            as_it_was = self._vpn(there, None, installed)
            self._change(self._nothing_of(there, after), as_it_was)
            self._change([links.delete(_index(self.tables[there.intent.name]))], as_it_was)
            del self.tables[there.intent.name]

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
        site, table = item.intent.site(self._node), self.tables[item.intent.name]
        assert site is not None and site.sid is not None
        requests = [*self._behind(site.sid, others), *self._leave(item, site.interfaces, others)]
        requests += [gone for prefix, _ in item.intent.routes(self._node) for gone in self._no_route(prefix, table)]
        return requests + seg6.remove_last_resort(table)

    def _leave(self, item: VpnItem, names: Iterable[str], others: Mapping[ItemKey, Item]) -> list[Message]:
        """Interfaces leave a VPN, for no other, or for one that has been given them meanwhile."""
        owner: dict[str, int] = {}
        for other in others.values():
            if isinstance(other, VpnItem) and other.intent.name != item.intent.name and (site := self._site(other)):
                owner |= dict.fromkeys(site.interfaces, self.tables[other.intent.name])
        return [
            seg6.join(self._interfaces[name], _index(owner[name]) if name in owner else 0)
            for name in names
            if name in self._interfaces
        ]

    def _behind(self, sid: IPv6Address, items: Mapping[ItemKey, Item]) -> list[Message]:
        """What is behind a SID with these items here. A controller may install the next one that has it before it
        removes the last one: the newest counts.
        """
        network = IPv6Network(sid)
        owners = [item for item in items.values() if self._sid(item) == sid]
        if not owners:
            return self._no_route(network)
        owner = owners[-1]
        if isinstance(owner, VpnItem):
            table = self.tables[owner.intent.name]
            unpacks = seg6.decapsulates(sid, str(owner.intent.behaviour), table, _index(table))
            return [unpacks, *self._no_route(network)[1:]]
        segments = owner.segments if isinstance(owner, PolicyItem) else ()
        return [
            seg6.binds(sid, segments, way, metric) if segments else seg6.unreachable(network, metric=metric)
            for metric, way in self._metrics(network)
        ]

    def _metrics(self, prefix: seg6.Prefix) -> list[tuple[int, int]]:
        """The routes to a prefix: by each interface to another router, since the kernel passes over those of IPv6 whose
        interface has no carrier. Their metrics and interfaces.
        """
        ways = self._ways if prefix.version == 6 else self._ways[:1]
        return list(enumerate(ways, seg6.ORDINARY))

    def _no_route(self, prefix: seg6.Prefix, table: int = seg6.MAIN) -> list[Message]:
        return [seg6.remove_route(prefix, table, metric) for metric, _ in self._metrics(prefix)]

    def _sid(self, item: Item) -> IPv6Address | None:
        """The SID that an item has here, if it has one."""
        if isinstance(item, PolicyItem):
            return item.intent.binding_sid
        site = self._site(item)
        return site.sid if site else None

    def _site(self, item: Item) -> Site | None:
        """Of a VPN that is in the kernel."""
        return item.intent.site(self._node) if isinstance(item, VpnItem) and item.intent.name in self.tables else None

    def _policy(self, forms: Sequence[PolicyItem], after: Mapping[ItemKey, Item]) -> list[Message]:
        """Of a policy that has one form or another: its binding SIDs, and the routes of all VPNs that go by it."""
        sids = dict.fromkeys(form.intent.binding_sid for form in forms)
        requests = [request for sid in sids if sid is not None for request in self._behind(sid, after)]
        return requests + self._routes(forms[0].intent.key, after)

    def _vpn(self, item: VpnItem, old: VpnItem | None, after: Mapping[ItemKey, Item]) -> list[Message]:
        """A VPN in place of what it was before."""
        site = item.intent.site(self._node)
        assert site is not None
        if site.sid is None:
            raise UsageError(f"VPN {item.intent.name} has no SID at {self._node}")
        if missing := [name for name in site.interfaces if name not in self._interfaces]:
            raise UsageError(f"{self._node} has no interface {missing[0]}; it has {', '.join(self._interfaces)}")
        requests: list[Message] = []
        if item.intent.name not in self.tables:
            requests += self._make(item.intent.name)
        table = self.tables[item.intent.name]
        before = old.intent.site(self._node) if old else None
        if old and before:
            gone = [name for name in before.interfaces if name not in site.interfaces]
            requests += self._leave(old, gone, after)
            if before.sid and before.sid != site.sid:
                requests += self._behind(before.sid, after)
        joined = before.interfaces if before else ()
        requests += [seg6.join(self._interfaces[name], _index(table)) for name in site.interfaces if name not in joined]
        requests += self._behind(site.sid, after)
        routes = dict(item.intent.routes(self._node))
        if old:
            obsolete = [prefix for prefix, _ in old.intent.routes(self._node) if prefix not in routes]
            requests += [gone for prefix in obsolete for gone in self._no_route(prefix, table)]
        else:
            requests += seg6.last_resort(table)
        return requests + [one for prefix, far in routes.items() for one in self._route(item, prefix, far, after)]

    def _routes(self, key: Key, after: Mapping[ItemKey, Item]) -> list[Message]:
        """The routes of all VPNs that go by this policy."""
        return [
            route
            for vpn in after.values()
            if isinstance(vpn, VpnItem) and vpn.intent.colour == key.colour and vpn.intent.name in self.tables
            for prefix, far in vpn.intent.routes(self._node)
            if far == key.endpoint
            for route in self._route(vpn, prefix, far, after)
        ]

    def _route(self, vpn: VpnItem, prefix: seg6.Prefix, far: str, after: Mapping[ItemKey, Item]) -> list[Message]:
        table = self.tables[vpn.intent.name]
        policy = after.get(("policy", Key(self._node, vpn.intent.colour, far)))
        segments: tuple[IPv6Address, ...] = ()
        if isinstance(policy, PolicyItem) and policy.intent.vpn in (None, vpn.intent.name):
            segments = policy.segments
        return [
            seg6.encapsulates(prefix, table, segments, way, metric)
            if segments
            else seg6.unreachable(prefix, table, metric)
            for metric, way in self._metrics(prefix)
        ]

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
