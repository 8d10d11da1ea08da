"""A router's side of the controller: the session's socket, and what is requested put into kernel and tunnels.

It is part of the node's speaker. `testbed.subjects.srv6.session.router_side` has the protocol. Here are the connection,
which is made anew when it is lost, and the distribution of commands: the kernel (`kernel_sr`) gets policies and VPNs,
the WAN agent reverse tunnels.
"""

from __future__ import annotations

import os
import select
import socket
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from testbed.agent.events import SR_ITEMS, AgentEvent
from testbed.errors import UsageError, XoffError
from testbed.subjects.srv6.agent.kernel_sr import KernelSr
from testbed.subjects.srv6.agent.plan import ControlPlan
from testbed.subjects.srv6.agent.sr_notes import Noted, SrNotes
from testbed.subjects.srv6.protocol import behaviours
from testbed.subjects.srv6.protocol.reverse_tunnel import ReverseTunnel
from testbed.subjects.srv6.protocol.sid import Sid
from testbed.subjects.srv6.session.messages import (
    NONCE_OCTETS,
    Command,
    Install,
    Item,
    ItemKey,
    OwnTunnel,
    Pause,
    PolicyItem,
    TunnelItem,
    VpnItem,
)
from testbed.subjects.srv6.session.router_side import RECONNECT_NS, Router
from testbed.subjects.srv6.session.session import SessionSettings
from testbed.units import NEVER

_COUNTING_NS = 5_000_000_000
_AGAIN_NS = 5_000_000
"""The time after which what the socket did not take is tried again."""
_BINDING_NS = 100_000_000
"""The delay with which binding SIDs are reported, many at once: a report has all that is installed. Nothing waits for
them."""
_LARGEST = 1 << 18
MOST_UNSENT = 2 * SessionSettings().longest_message
"""The most octets that wait for a controller that does not read. Beyond them the session ends."""


@dataclass(frozen=True)
class SrServices:
    """The services that the SR agent uses."""

    kernel: KernelSr
    add_tunnel: Callable[[ReverseTunnel, int], None]
    remove_tunnel: Callable[[ReverseTunnel, int], None]
    count: Callable[[], Mapping[str, int]]
    record: Callable[[int, AgentEvent, int], None]
    changed: Callable[[], None]
    """Called when what a successor has to know has changed."""


class SrAgent:
    """The SR agent of one router, in whose network namespace the process is."""

    def __init__(self, node: str, plan: ControlPlan, services: SrServices, before: SrNotes | None) -> None:
        self._plan, self._services = plan, services
        self._router = Router(node, plan.key)
        self._router.know(plan.report, 0)
        self._waiting = select.epoll()
        self._socket: socket.socket | None = None
        self._unsent = bytearray()
        self._write_ns = NEVER
        self._connect_ns = 1  # at once
        self._count_ns = NEVER
        self._know_ns = NEVER
        self.sessions = 0
        items = before.items if before else []
        self._noted = Noted(node, items)
        self._router.installed = {item.identity: item for item in items}
        self._know_sids(0)

    @property
    def fd(self) -> int:
        """The descriptor of the connection, which is readable when there is something to read."""
        return self._waiting.fileno()

    @property
    def deadline_ns(self) -> int:
        if self._socket is None:
            return self._connect_ns
        return min(self._router.deadline_ns or NEVER, self._count_ns, self._write_ns, self._know_ns)

    @property
    def notes(self) -> SrNotes:
        return SrNotes(self._noted.octets, dict(self._services.kernel.tables))

    @property
    def installed(self) -> Mapping[ItemKey, Item]:
        return self._router.installed

    @property
    def directory(self) -> tuple[int, tuple[Sid, ...]]:
        """The SIDs that all routers advertise, with a number that changes when they do."""
        return self._router.directory_revision, tuple(self._router.directory.values())

    def snapshot(self) -> dict[str, object]:
        session = self._router.session
        return {
            "connected": self._socket is not None and session is not None and session.is_open,
            "sessions": self.sessions,
            "installed": [str(item) for item in self._router.installed.values()],
            "binding_sids": {
                str(item.intent.binding_sid): list(map(str, item.segments))
                for item in self._router.installed.values()
                if isinstance(item, PolicyItem) and item.intent.binding_sid is not None
            },
        }

    def report(self, message: Pause | OwnTunnel, now_ns: int) -> None:
        self._router.report(message, now_ns)
        self._write(now_ns)

    def link(self, interface: str, is_up: bool, now_ns: int) -> None:
        """Note that a link to another router works, or does so no longer."""
        known = self._router.known
        links = tuple(replace(end, up=is_up) if end.interface == interface else end for end in known.links)
        if links != known.links:
            self._router.know(replace(known, links=links), now_ns)
            self._write(now_ns)

    def read(self, now_ns: int) -> None:
        if self._socket is None:
            return
        try:
            data = self._socket.recv(_LARGEST)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._lose(now_ns)
            return
        self._obey(self._router.receive(data, now_ns))
        self._write(time.monotonic_ns())
        if self._router.ended is not None:
            self._lose(now_ns)

    def expire(self, now_ns: int) -> None:
        if self._socket is None:
            if self._connect_ns <= now_ns:
                self._connect(now_ns)
            return
        if self._count_ns <= now_ns:
            self._count_ns = now_ns + _COUNTING_NS
            self._router.count(self._services.count(), now_ns)
        if self._know_ns <= now_ns:
            self._know_sids(now_ns)
        self._router.poll(now_ns)
        self._write(now_ns)
        if self._router.ended is not None:
            self._lose(now_ns)

    def _obey(self, commands: Iterable[Command]) -> None:
        """Carry out commands, and note the results before the answers go out."""
        changed = list[Item]()
        for command in commands:
            item, installs = command.item, isinstance(command, Install)
            try:
                octets = self._noted.weigh(item) if installs else b""
                self._do(item, installs)
            except XoffError as error:
                self._router.refuse(command, str(error), time.monotonic_ns())
                continue
            now_ns = time.monotonic_ns()
            self._router.done(command, now_ns)
            if installs:
                self._noted.put(item.identity, octets)
            else:
                self._noted.drop(item.identity)
            kind = SR_ITEMS.index(item.identity[0])
            self._services.record(now_ns, AgentEvent.SR_INSTALLED if installs else AgentEvent.SR_REMOVED, kind)
            changed.append(item)
        if changed:
            self._services.changed()
            if any(isinstance(item, VpnItem) for item in changed):  # its policies wait for its SID
                self._know_sids(time.monotonic_ns())
            else:
                self._know_ns = min(self._know_ns, time.monotonic_ns() + _BINDING_NS)

    def _do(self, item: Item, installs: bool) -> None:
        if isinstance(item, TunnelItem):
            act = self._services.add_tunnel if installs else self._services.remove_tunnel
            act(item.tunnel, time.monotonic_ns())
        elif installs:
            if isinstance(item, VpnItem):
                self._check_interfaces(item)
            self._check_sid(item)
            self._services.kernel.install(item, self._router.installed)
        else:
            self._services.kernel.remove(item, self._router.installed)

    def _check_interfaces(self, item: VpnItem) -> None:
        """Refuse an interface that leads to another router: the link would be gone for all others."""
        site = item.intent.site(self._router.name)
        for end in self._router.known.links:
            if site is not None and end.interface in site.interfaces:
                where = f"{end.interface} leads to {end.neighbour.router}"
                raise UsageError(f"VPN {item.intent.name}: {where}; a VPN has interfaces towards its tenant")

    def _check_sid(self, item: VpnItem | PolicyItem) -> None:
        """Refuse a SID of the router's own, in whose place the kernel would put it."""
        sid = self._sid(item)
        for own in self._plan.report.sids:
            if sid is not None and sid.address == own.address:
                raise UsageError(f"{item}: {sid.address} is {own.name}; choose another SID")

    def _know_sids(self, now_ns: int) -> None:
        """Note the SIDs of VPNs and the binding SIDs of policies."""
        self._know_ns = NEVER
        sids = {sid.address: sid for sid in self._plan.report.sids}
        for item in self._router.installed.values():
            if (sid := self._sid(item)) is not None:
                sids[sid.address] = sid
        self._router.know(replace(self._router.known, sids=tuple(sids.values())), now_ns)

    def _sid(self, item: Item) -> Sid | None:
        """Return the SID that comes and goes with an item."""
        own = self._router.name
        if isinstance(item, PolicyItem) and item.intent.binding_sid is not None:
            return Sid(own, item.intent.binding_sid, behaviours.END_B6_ENCAPS)
        if isinstance(item, VpnItem) and (site := item.intent.site(own)) is not None and site.sid is not None:
            return Sid(own, site.sid, item.intent.behaviour)
        return None

    def _connect(self, now_ns: int) -> None:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.setblocking(False)
        try:
            connection.connect(self._plan.path)
        except OSError:  # no controller listens, or its queue is full
            connection.close()
            self._connect_ns = now_ns + RECONNECT_NS
            return
        self._socket = connection
        self._know_sids(now_ns)
        self._waiting.register(connection, select.EPOLLIN)
        self._router.connect(os.urandom(NONCE_OCTETS), now_ns)
        self._count_ns = now_ns + _COUNTING_NS
        self.sessions += 1
        self._write(now_ns)

    def _write(self, now_ns: int) -> None:
        if self._socket is None:
            return
        self._unsent += self._router.data_to_send()
        self._write_ns = NEVER
        try:
            while self._unsent:
                del self._unsent[: self._socket.send(self._unsent)]
        except BlockingIOError:
            self._write_ns = now_ns + _AGAIN_NS
            if len(self._unsent) > MOST_UNSENT:
                self._lose(now_ns)
        except OSError:
            self._lose(now_ns)

    def _lose(self, now_ns: int) -> None:
        """Give up the connection; what is installed stays."""
        if self._socket is not None:
            with suppress(OSError):
                self._waiting.unregister(self._socket)
            self._socket.close()
            self._socket = None
            self._unsent.clear()
            self._router.disconnected(now_ns)
        self._connect_ns = now_ns + RECONNECT_NS
