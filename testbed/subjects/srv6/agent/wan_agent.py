"""End.X.PFC at one router: congestion goes into reverse tunnels, and PFC frames that come out of them pause the ports
of J.

It is part of the node's speaker. Data packets stay with the kernel, whose End.X has the same SID; this reads what the
kernel drops: packets that end at the SID, and those that require an error. They are counted by SID and reason. Here are
the sockets and what connects the parts: `pause_tunnels` sends, `tunnel_pauses` receives, `sr_agent` has the session
with the controller.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from ipaddress import IPv6Address
from typing import Any

from testbed.agent.events import AgentEvent
from testbed.agent.plan import AgentPlan
from testbed.errors import UsageError
from testbed.linux.netlink import seg6
from testbed.linux.netlink.messages import Message
from testbed.linux.port_program import PortProgram
from testbed.linux.sockets import packet_filter, stamped
from testbed.subjects.srv6.agent.kernel_sr import KernelSr
from testbed.subjects.srv6.agent.pause_tunnels import PauseTunnels
from testbed.subjects.srv6.agent.plan import SlicePriorities, WanPlan
from testbed.subjects.srv6.agent.sr_agent import SrAgent, SrServices
from testbed.subjects.srv6.agent.sr_notes import SrNotes
from testbed.subjects.srv6.agent.tunnel_headroom import TunnelHeadroom
from testbed.subjects.srv6.agent.tunnel_pauses import TunnelPauses
from testbed.subjects.srv6.protocol import endx_pfc
from testbed.subjects.srv6.protocol.endx_pfc import Deliver, Measure, PauseJ, SendIcmp
from testbed.subjects.srv6.protocol.local_sids import EndXPfc, ErrorLimit
from testbed.subjects.srv6.protocol.pause_refresh import Refresh
from testbed.subjects.srv6.protocol.reverse_tunnel import ReverseTunnel
from testbed.subjects.srv6.protocol.sid import Sid
from testbed.subjects.srv6.protocol.tunnel_learning import Learned, Learner
from testbed.subjects.srv6.session.messages import OwnTunnel, Pause, TunnelItem
from testbed.units import NEVER, Duration

_LISTEN_AGAIN_NS = 50_000_000
_VARIATION = Duration("5ms")
"""The time that a PFC frame in a tunnel may take beyond the links' delays: it waits for frames that are being sent."""
_SO_MARK = 36
_IPV6 = 0x86DD
_LONGEST = 2048
_SOL_PACKET, _IGNORE_OUTGOING = 263, 23


@dataclass(frozen=True)
class WanServices:
    """What the WAN agent has of the speaker."""

    program: PortProgram
    order: Callable[[bytes], None]
    """A function that has the agent carry out an order, and waits until it has."""
    record: Callable[[int, AgentEvent, int, int, int], None]
    send: Callable[[Iterable[Message]], None]
    """A function that sends netlink requests."""
    changed: Callable[[], None]
    """Called when what a successor has to know has changed."""
    reserve: Callable[[int, Duration], None]
    """A function that reserves headroom at a port for a round trip."""


class WanAgent:
    """The WAN agent of one router, in whose network namespace the process is."""

    def __init__(self, plan: WanPlan, node: AgentPlan, services: WanServices, before: SrNotes | None) -> None:
        self._plan, self._services, mac = plan, services, node.ports[0].mac
        self._ports = {port.name: port for port in node.ports}
        for local in self._plan.sids:
            endx_pfc.check(local.sid)
        self._behaviour = EndXPfc(self._plan.sids, beside_kernel=True, limit=ErrorLimit())
        self._in_domain = {port.name for port in node.ports if port.notifies_speaker}
        """The interfaces that lead to other routers of the SR domain."""
        priorities = SlicePriorities(self._plan.slices)
        self._tunnels = PauseTunnels(
            self._ports,
            priorities,
            services.program,
            mac=mac,
            source=self._plan.source,
            record=services.record,
            send=self._send_packet,
        )
        self._pauses = TunnelPauses(
            self._ports,
            priorities,
            mac=mac,
            order=services.order,
            record=services.record,
            report=self._report,
        )
        self.send_errors = 0
        self._raw = socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_RAW)
        self._raw.setblocking(False)
        self._ending = tap(packet_filter.ending_at(sid.sid.address for sid in self._plan.sids))
        self._own = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, 0)
        """The socket for packets to the router's own protocols, which get them as received packets."""
        self._own.setsockopt(socket.SOL_SOCKET, _SO_MARK, seg6.OWN_MARK)
        self._data = tap(packet_filter.nothing())
        self._learner = None if self._plan.learner is None else Learner(self._plan.learner)
        self._learner_node = self._plan.learner.own.node if self._plan.learner else ""
        self._directory: tuple[Sid, ...] = ()
        self._own_sids: set[IPv6Address] = set()
        self._directory_revision = 0
        self._listen_ns = NEVER
        self._control = self._new_control(node, before)
        self._headroom: TunnelHeadroom | None = None
        if self._plan.measures:
            self._headroom = TunnelHeadroom(self._plan.source, mac, self._send_packet, self._reserve)
            self._tunnels.headroom = self._pauses.headroom = self._headroom

    def _new_control(self, node: AgentPlan, before: SrNotes | None) -> SrAgent | None:
        control = self._plan.control
        if control is None:
            return None
        indices = {port.name: port.interface for port in node.ports}
        outs = dict.fromkeys(indices[name] for name in (control.out, *(end.interface for end in control.report.links)))
        kernel = KernelSr(node.node, indices, tuple(outs), self._services.send, before.tables if before else {})
        services = SrServices(
            kernel, self._install, self._remove, self._counted, self._record_sr, self._services.changed
        )
        return SrAgent(node.node, control, services, before)

    def start(self, now_ns: int, *, succeeds: bool = False) -> None:
        """Begin, or continue for a predecessor (`succeeds`), and signal what is congested by now."""
        self._tunnels.read_congestion()
        self._pauses.warm_up(self._plan.sids, self._plan.source, traffic=succeeds)
        self._services.send(seg6.own_protocols([local.sid.address for local in self._plan.sids if local.allowed]))
        for tunnel, refresh in self._plan.tunnels:
            self._tunnels.add(tunnel, refresh, now_ns)
        if self._control is not None:
            for item in self._control.installed.values():
                if isinstance(item, TunnelItem):
                    self._install(item.tunnel, now_ns)
        if self._learner is not None:
            self._set_directory(self._plan.directory, now_ns)

    @property
    def notes(self) -> SrNotes | None:
        return self._control.notes if self._control else None

    @property
    def files(self) -> dict[int, Callable[[int], None]]:
        """The function to call for each file that is readable."""
        by_file: dict[int, Callable[[int], None]] = {
            self._ending.fileno(): self._process_ended,
            self._data.fileno(): self._learn,
        }
        if self._control is not None:
            by_file[self._control.fd] = self._read_control
        if self._headroom is not None:
            by_file[self._headroom.fd] = self._headroom.receive
        return by_file

    @property
    def deadline_ns(self) -> int:
        due = [self._listen_ns, *self._tunnels.deadlines_ns, *self._pauses.deadlines_ns]
        if self._learner is not None:
            due.append(self._learner.deadline_ns or NEVER)
        if self._control is not None:
            due.append(self._control.deadline_ns)
        if self._headroom is not None:
            due.append(self._headroom.deadline_ns)
        return min(due)

    def congested(self, slot: int, local: int, is_congested: bool, came_ns: int, now_ns: int) -> None:
        """Note that the buffer of a priority at an ingress port passed its threshold, or has room again."""
        self._tunnels.congested(slot, local, is_congested, came_ns, now_ns)

    def link(self, interface: int, is_up: bool, now_ns: int) -> None:
        """Note that an interface has a carrier, or has lost it."""
        for port in self._ports.values():
            if port.interface == interface:
                if self._control is not None:
                    self._control.link(port.name, is_up, now_ns)
                if is_up:
                    self._pauses.restore(port, now_ns)

    def expire(self, now_ns: int) -> None:
        """Do what is due: refreshes, ends of pauses, measurements, ageing of learned tunnels."""
        self._tunnels.expire(now_ns)
        self._pauses.expire(now_ns)
        if self._control is not None and self._control.deadline_ns <= now_ns:
            self._control.expire(now_ns)
        if self._headroom is not None and self._headroom.deadline_ns <= now_ns:
            self._headroom.expire(now_ns)
        if self._learner is not None:
            for tunnel in self._learner.expire(now_ns):
                self._forget(tunnel, "no packet has used it for long", now_ns)
            if self._listen_ns <= now_ns:
                self._listen_ns = NEVER
                locators = {sid.locator for sid in self._directory if sid.node == self._learner_node}
                packet_filter.attach(self._data, packet_filter.routed_to(locators))

    def snapshot(self) -> dict[str, Any]:
        return {
            "sids": self._behaviour.counters(),
            "tunnels": self._tunnels.snapshot(),
            "learning": dict(self._learner.counters) if self._learner is not None else None,
            "send_errors": self.send_errors,
            "headroom": self._headroom.snapshot() if self._headroom else None,
            "controller": self._control.snapshot() if self._control else None,
        }

    def _counted(self) -> dict[str, int]:
        """Return the numbers of packets to the SIDs, by what was done with them, for the controller."""
        counters = self._behaviour.counters()
        return {f"{sid} {what}": count for sid, one in counters.items() for what, count in one.items()}

    # Tunnels

    def _install(self, tunnel: ReverseTunnel, now_ns: int) -> None:
        """Use a tunnel of the controller, which has computed its delay."""
        if tunnel.interface is not None and tunnel.interface not in self._ports:
            raise UsageError(f"there is no interface {tunnel.interface}")
        fastest = self._plan.fastest or max(port.rate for port in self._ports.values())
        refresh = Refresh.of(fastest, Duration.from_ns(tunnel.delay_ns or 0), _VARIATION)
        self._tunnels.add(tunnel, refresh, now_ns)

    def _remove(self, tunnel: ReverseTunnel, now_ns: int) -> None:
        self._tunnels.remove(tunnel)

    def _forget(self, tunnel: ReverseTunnel, why: str, now_ns: int) -> None:
        """Use a learned tunnel no longer."""
        self._tunnels.remove(tunnel, learned=True)
        self._report(OwnTunnel(tunnel, False, why), now_ns)

    # Packets

    def _process_ended(self, now_ns: int) -> None:
        """Process the packets that end at our End.X.PFC SIDs."""
        for data, came_ns, interface in received(self._ending):
            from_outside = self._is_outside(interface)
            if not from_outside and (known := self._pauses.known(data)) is not None:
                self._behaviour.repeat(known.sid, known.result)
                self._pauses.apply(known, came_ns, now_ns)
                continue
            result = self._behaviour.receive(data, now_ns, from_outside)
            if isinstance(result, PauseJ):
                self._pauses.apply(self._pauses.prepare(data, result), came_ns, now_ns)
            elif isinstance(result, Measure) and self._headroom is not None:
                self._headroom.answer(result, now_ns)
            elif isinstance(result, SendIcmp):
                self._send_packet(result.packet)
            elif isinstance(result, Deliver):
                self._deliver(result.packet)

    def _is_outside(self, interface: str | None) -> bool:
        return interface is not None and interface not in self._in_domain

    def _deliver(self, packet: bytes) -> None:
        """Deliver a packet to the router's own protocols."""
        try:
            self._own.sendto(packet, ("lo", _IPV6))
        except OSError:  # no room, or longer than the interface takes
            self.send_errors += 1

    def _send_packet(self, packet: bytes) -> None:
        destination = socket.inet_ntop(socket.AF_INET6, packet[24:40])
        try:
            self._raw.sendto(packet, (destination, 0))
        except OSError:  # no route, no room, no address: the next repetition may succeed
            self.send_errors += 1

    def _reserve(self, interface: str | None, round_trip: Duration) -> None:
        for port in self._ports.values():
            if port.notifies_speaker and interface in (port.name, None):
                self._services.reserve(port.slot, round_trip)

    # Learning

    def _set_directory(self, sids: tuple[Sid, ...], now_ns: int) -> None:
        """Take over the SIDs that all routers advertise, by which tunnels are learned from data."""
        assert self._learner is not None
        self._directory = sids
        self._own_sids = {sid.address for sid in sids if sid.node == self._learner_node}
        for tunnel in self._learner.advertised(sids):
            self._forget(tunnel, "one of its segments is no longer advertised", now_ns)
        self._listen_ns = now_ns

    def _learn(self, now_ns: int) -> None:
        """Learn from a data packet; one is enough for a while. PFC from tunnels is read first."""
        assert self._learner is not None
        self._process_ended(now_ns)
        packet_filter.attach(self._data, packet_filter.nothing())
        self._listen_ns = now_ns + _LISTEN_AGAIN_NS
        for data, _, interface in received(self._data):
            came = endx_pfc.as_it_came(data, self._own_sids)
            learned = self._learner.data_packet(came, now_ns, self._is_outside(interface))
            if isinstance(learned, Learned) and learned.new and self._plan.learned_refresh:
                if learned.evicted:
                    self._forget(learned.evicted, "the table is full, and it was unused for longest", now_ns)
                self._services.record(now_ns, AgentEvent.TUNNEL_LEARNED, next(iter(self._ports.values())).slot, 0, 0)
                self._tunnels.add(learned.tunnel, self._plan.learned_refresh, now_ns, learned=True)
                self._report(OwnTunnel(learned.tunnel, True, "a data packet has come by it"), now_ns)

    # The controller

    def _read_control(self, now_ns: int) -> None:
        assert self._control is not None
        self._control.read(now_ns)
        if self._learner is None:
            return
        revision, sids = self._control.directory
        if revision != self._directory_revision:
            self._directory_revision = revision
            self._set_directory(sids, now_ns)

    def _report(self, message: Pause | OwnTunnel, now_ns: int) -> None:
        if self._control is not None:
            self._control.report(message, now_ns)

    def _record_sr(self, now_ns: int, kind: AgentEvent, value: int) -> None:
        self._services.record(now_ns, kind, next(iter(self._ports.values())).slot, 0, value)


def tap(code: bytes) -> socket.socket:
    """Return a socket for IPv6 packets received by any interface that the filter `code` accepts."""
    packets = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(_IPV6))
    packets.setblocking(False)
    packet_filter.attach(packets, packet_filter.nothing())
    packets.setsockopt(_SOL_PACKET, _IGNORE_OUTGOING, 1)
    stamped.enable(packets)
    for _ in received(packets):
        pass  # received before the filter was attached
    packet_filter.attach(packets, code)
    return packets


def received(packets: socket.socket) -> Iterator[tuple[bytes, int, str | None]]:
    """Yield all packets that wait, with receive time and interface; None for what is not known."""
    while True:
        try:
            data, came_ns, address = stamped.receive_from(packets, _LONGEST)
        except BlockingIOError:
            return
        yield data, came_ns, address[0] if address else None
