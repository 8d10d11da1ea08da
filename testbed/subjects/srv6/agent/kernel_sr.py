"""The controller's items in a router's kernel: VPNs as VRFs, policies as the routes of VPNs.

A route of a VPN uses the policy of the VPN's colour to the router that the prefix is behind. Where there is no such
policy, or it has no path, the route is unreachable (decision 0153): no packet is sent without back-pressure.

A policy's binding SID has the action End.B6.Encaps with the policy's list. While the policy has no path the SID is kept
and drops (RFC 9256, section 8.2): its route is unreachable.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from ipaddress import IPv6Address, IPv6Network

from testbed.errors import UsageError
from testbed.linux.netlink import links, seg6
from testbed.linux.netlink.messages import Message, NetlinkError
from testbed.subjects.srv6.protocol import behaviours
from testbed.subjects.srv6.protocol.behaviours import KernelAction, Parameters
from testbed.subjects.srv6.session.intents import Key, Site
from testbed.subjects.srv6.session.messages import Item, ItemKey, PolicyItem, VpnItem

_TABLES = range(1000, 1 << 16)
"""The routing tables of VRFs. The kernel's own are below."""
_LONGEST_NAME = 15


def sid_action(sid: IPv6Address, action: KernelAction, out: int, metric: int = seg6.ORDINARY) -> Message:
    """Return the request that gives a SID the kernel's action of its behaviour."""
    return seg6.local(
        sid, action.name, out, metric, next_hop=action.next_hop, table=action.table, segments=action.segments
    )


class KernelSr:
    """The kernel of one router. The caller keeps what is installed; table numbers are allocated here."""

    def __init__(
        self,
        node: str,
        interfaces: Mapping[str, int],
        outs: Sequence[int],
        send: Callable[[Iterable[Message]], None],
        tables: Mapping[str, int] = {},
    ) -> None:
        """`interfaces` are by name; `outs` are those to other routers; `tables` are by VPN, as a predecessor allocated
        them.
        """
        self._node, self._interfaces, self._outs, self._send = node, interfaces, outs, send
        self.tables = dict(tables)

    def install(self, item: PolicyItem | VpnItem, installed: Mapping[ItemKey, Item]) -> None:
        """Install an item, in place of one with its key. After a UsageError or NetlinkError nothing has changed."""
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
            self._change(requests, self._removal_of(item, installed))
        except NetlinkError:
            with suppress(NetlinkError):
                self._send([links.delete(seg6.vrf_index(self.tables.pop(item.intent.name)))])
            raise

    def remove(self, item: PolicyItem | VpnItem, installed: Mapping[ItemKey, Item]) -> None:
        """Remove an item. After a NetlinkError nothing has changed."""
        there = installed.get(item.identity)
        after = {key: one for key, one in installed.items() if key != item.identity}
        if isinstance(there, PolicyItem):
            self._change(self._policy([there], after), self._policy([there], installed))
        elif isinstance(there, VpnItem):
            as_it_was = self._vpn(there, None, installed)
            self._change(self._removal_of(there, after), as_it_was)
            self._change([links.delete(seg6.vrf_index(self.tables[there.intent.name]))], as_it_was)
            del self.tables[there.intent.name]

    def _change(self, requests: Iterable[Message], back: Iterable[Message]) -> None:
        """Send the requests. If one fails, `back` restores the state before."""
        try:
            self._send(requests)
        except NetlinkError as refused:
            try:
                self._send(back)
            except NetlinkError as error:
                text = f"{refused}; restoring the state before failed too: {error}"
                raise NetlinkError(text, refused.code) from None
            raise

    def _removal_of(self, item: VpnItem, others: Mapping[ItemKey, Item]) -> list[Message]:
        """Return requests that remove everything but the VRF itself; the routes too, since tables are reused."""
        site, table = item.intent.site(self._node), self.tables[item.intent.name]
        assert site is not None and site.sid is not None
        requests = [*self._sid_route(site.sid, others), *self._leave(item, site.interfaces, others)]
        requests += [gone for prefix, _ in item.intent.routes(self._node) for gone in self._no_route(prefix, table)]
        return requests + seg6.remove_last_resort(table)

    def _leave(self, item: VpnItem, names: Iterable[str], others: Mapping[ItemKey, Item]) -> list[Message]:
        """Take interfaces out of a VPN, into another one that has them by now, or into none."""
        owner: dict[str, int] = {}
        for other in others.values():
            if isinstance(other, VpnItem) and other.intent.name != item.intent.name and (site := self._site(other)):
                owner |= dict.fromkeys(site.interfaces, self.tables[other.intent.name])
        return [
            seg6.join(self._interfaces[name], seg6.vrf_index(owner[name]) if name in owner else 0)
            for name in names
            if name in self._interfaces
        ]

    def _sid_route(self, sid: IPv6Address, items: Mapping[ItemKey, Item]) -> list[Message]:
        """Return the route of a SID with these items installed. A controller may install the next item with the SID
        before it removes the previous one; the newest has it.
        """
        network = IPv6Network(sid)
        owners = [item for item in items.values() if self._sid(item) == sid]
        if not owners:
            return self._no_route(network)
        owner = owners[-1]
        if isinstance(owner, VpnItem):
            table = self.tables[owner.intent.name]
            action = owner.intent.behaviour.kernel_action(Parameters(table=table))
            assert action is not None
            return [sid_action(sid, action, seg6.vrf_index(table)), *self._no_route(network)[1:]]
        segments = owner.segments if isinstance(owner, PolicyItem) else ()
        action = behaviours.END_B6_ENCAPS.kernel_action(Parameters(segments=segments))
        return [
            sid_action(sid, action, out, metric) if action else seg6.unreachable(network, metric=metric)
            for metric, out in self._metrics(network)
        ]

    def _metrics(self, prefix: seg6.Prefix) -> list[tuple[int, int]]:
        """Return metrics and interfaces of the routes to a prefix: one by each interface to another router, since the
        kernel skips those of IPv6 whose interface has no carrier.
        """
        ways = self._outs if prefix.version == 6 else self._outs[:1]
        return list(enumerate(ways, seg6.ORDINARY))

    def _no_route(self, prefix: seg6.Prefix, table: int = seg6.MAIN) -> list[Message]:
        return [seg6.remove_route(prefix, table, metric) for metric, _ in self._metrics(prefix)]

    def _sid(self, item: Item) -> IPv6Address | None:
        """Return the SID that an item has on this router, or None."""
        if isinstance(item, PolicyItem):
            return item.intent.binding_sid
        site = self._site(item)
        return site.sid if site else None

    def _site(self, item: Item) -> Site | None:
        """Return this router's site of a VPN that is in the kernel."""
        return item.intent.site(self._node) if isinstance(item, VpnItem) and item.intent.name in self.tables else None

    def _policy(self, forms: Sequence[PolicyItem], after: Mapping[ItemKey, Item]) -> list[Message]:
        """Return requests for a policy in these forms: its binding SIDs, and the routes of all VPNs that use it."""
        sids = dict.fromkeys(form.intent.binding_sid for form in forms)
        requests = [request for sid in sids if sid is not None for request in self._sid_route(sid, after)]
        return requests + self._routes(forms[0].intent.key, after)

    def _vpn(self, item: VpnItem, old: VpnItem | None, after: Mapping[ItemKey, Item]) -> list[Message]:
        """Return requests for a VPN, in place of its earlier form."""
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
                requests += self._sid_route(before.sid, after)
        joined = before.interfaces if before else ()
        requests += [
            seg6.join(self._interfaces[name], seg6.vrf_index(table)) for name in site.interfaces if name not in joined
        ]
        requests += self._sid_route(site.sid, after)
        routes = dict(item.intent.routes(self._node))
        if old:
            obsolete = [prefix for prefix, _ in old.intent.routes(self._node) if prefix not in routes]
            requests += [gone for prefix in obsolete for gone in self._no_route(prefix, table)]
        else:
            requests += seg6.last_resort(table)
        return requests + [one for prefix, far in routes.items() for one in self._route(item, prefix, far, after)]

    def _routes(self, key: Key, after: Mapping[ItemKey, Item]) -> list[Message]:
        """Return requests for the routes of all VPNs that use this policy."""
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
        """Return requests for a VRF with a table of its own."""
        if len(vpn) > _LONGEST_NAME:
            raise UsageError(
                f"VPN {vpn} is too long for the name of a VRF in Linux; at most {_LONGEST_NAME} characters"
            )
        taken = set(self.tables.values())
        table = next(number for number in _TABLES if number not in taken)
        requests = []
        if there := _interface(vpn):
            if seg6.vrf_table(there) not in _TABLES or seg6.vrf_table(there) in taken:
                raise UsageError(f"VPN {vpn} cannot be a VRF of {self._node}, which has an interface of that name")
            table = seg6.vrf_table(there)  # made by an agent that ended before it had noted it
            requests.append(links.delete(there))
        self.tables[vpn] = table
        return [*requests, seg6.vrf(vpn, table)]


def _interface(name: str) -> int:
    """Return the index of an interface, or 0 if there is none."""
    try:
        return socket.if_nametoindex(name)
    except OSError:
        return 0
