"""End.X.PFC at one router: congestion goes into reverse tunnels, and what comes out of them pauses the ports of J.

It is part of the node's speaker. Data packets stay with the kernel, whose End.X is behind the same SID; this reads what
the kernel drops: packets that end at the SID, and those that deserve an error. What became of each is counted by SID
and reason.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from ipaddress import IPv6Address
from typing import Any

from testbed.agent.events import AgentEvent
from testbed.agent.orders import Order, OrderType
from testbed.agent.plan import AgentPlan, PortPlan
from testbed.agent.wan.kernel_sr import KernelSr
from testbed.agent.wan.sr_agent import SrAgent, SrServices
from testbed.agent.wan.sr_notes import SrNotes
from testbed.agent.wan.tunnel_headroom import TunnelHeadroom
from testbed.errors import UsageError
from testbed.frames.mac_control import LONGEST_PAUSE, PfcFrame
from testbed.linux import packet_filter, seg6, stamped
from testbed.linux.netlink import Message
from testbed.linux.port_program import PRIORITIES, PortProgram
from testbed.pfc import NEVER, PRIORITIES_IN
from testbed.pfc.wire import pause_ns
from testbed.srv6.protocol import kernel_endx
from testbed.srv6.protocol.endx_pfc import Deliver, Measure, PauseJ, SendIcmp, process
from testbed.srv6.protocol.local_sids import EndXPfc, ErrorLimit
from testbed.srv6.protocol.pause_refresh import PauseSender, Refresh
from testbed.srv6.protocol.reverse_tunnel import Encapsulator, ReverseTunnel
from testbed.srv6.protocol.sid import Sid
from testbed.srv6.protocol.tunnel_learning import Learned, Learner
from testbed.srv6.session.items import TunnelItem
from testbed.srv6.session.messages import OwnTunnel, Pause
from testbed.units import Duration

_IPV6 = 0x86DD
_LONGEST = 2048
_LISTEN_AGAIN_NS = 50_000_000
_VARIATION = Duration("5ms")
"""What a PFC frame in a tunnel may take beyond the links' delays: it waits for frames that are on the line."""
_HOP_LIMIT_AT = 7
_MOST_KNOWN = 256
_SOL_PACKET, _IGNORE_OUTGOING = 263, 23
_SO_MARK = 36


@dataclass
class _Tunnel:
    """One reverse tunnel in use."""

    tunnel: ReverseTunnel
    sender: PauseSender
    packets: Encapsulator


@dataclass(frozen=True)
class _Pause:
    """What a packet to a SID asks for, ready to be done."""

    sid: IPv6Address
    result: PauseJ
    orders: tuple[tuple[PortPlan, bytes], ...]
    mask: int
    changes: tuple[tuple[int, int], ...]
    """The slice's priorities, and quanta."""


@dataclass(frozen=True)
class Services:
    """What a speaker lends."""

    program: PortProgram
    order: Callable[[bytes], None]
    """Have the agent do something, and wait until it has."""
    record: Callable[[int, AgentEvent, int, int, int], None]
    send: Callable[[Iterable[Message]], None]
    """Of netlink requests."""
    changed: Callable[[], None]
    """What a successor needs is another than before."""
    reserve: Callable[[int, Duration], None]
    """Headroom at a port, for a round trip."""


class WanAgent:
    """Of one router, in the network namespace that the process is in."""

    def __init__(self, node: AgentPlan, means: Services, left: SrNotes | None) -> None:
        assert node.wan is not None
        self._plan, self._means, self._mac = node.wan, means, node.ports[0].mac
        self._ports = {port.name: port for port in node.ports}
        for local in self._plan.sids:
            kernel_endx.check(local.sid)
        self._behaviour = EndXPfc(self._plan.sids, beside_kernel=True, limit=ErrorLimit())
        self._in_domain = {port.name for port in node.ports if port.notifies_speaker}
        """Interfaces that lead to other routers of the SR domain."""
        self._inside = {
            local: (one.id, priority) for one in self._plan.slices for priority, local in one.queues.items()
        }
        """The slices' local priorities, and what they are to the slice."""
        self._local = {theirs: local for local, theirs in self._inside.items()}
        self._tunnels: dict[tuple[bool, object], _Tunnel] = {}
        """By whether it was learned, and identity: a learned one may have the segments of one that is requested."""
        self._congested: dict[int, int] = {}
        """Congested local priorities of each slot, as a mask."""
        self._known: dict[bytes, _Pause] = {}
        """Packets that have come, but for their hop limits."""
        self._pausing: dict[tuple[IPv6Address, str, int, int | None], int] = {}
        """What has been reported as paused, and until when it is."""
        self.send_errors = 0
        self._raw = socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_RAW)
        self._raw.setblocking(False)
        self._ending = _tap(packet_filter.ending_at(sid.sid.address for sid in self._plan.sids))
        self._own = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, 0)
        """For what the router's own protocols get, by a packet that looks as if it had come in."""
        self._own.setsockopt(socket.SOL_SOCKET, _SO_MARK, seg6.OWN_MARK)
        self._data = _tap(packet_filter.nothing())
        self._learner = None if self._plan.learner is None else Learner(self._plan.learner)
        self._learner_node = self._plan.learner.own.node if self._plan.learner else ""
        self._directory: tuple[Sid, ...] = ()
        self._own_sids: set[IPv6Address] = set()
        self._directory_revision = 0
        self._listen_ns = NEVER
        self._control = self._new_control(node, left)
        self._headroom: TunnelHeadroom | None = None
        if self._plan.measures:
            self._headroom = TunnelHeadroom(self._plan.source, self._mac, self._send_packet, self._reserve)

    def _new_control(self, node: AgentPlan, left: SrNotes | None) -> SrAgent | None:
        control = self._plan.control
        if control is None:
            return None
        indices = {port.name: port.interface for port in node.ports}
        ways = dict.fromkeys(indices[name] for name in (control.out, *(end.interface for end in control.report.links)))
        kernel = KernelSr(node.node, indices, tuple(ways), self._means.send, left.tables if left else {})
        means = SrServices(kernel, self._install, self._remove, self._counted, self._record_sr, self._means.changed)
        return SrAgent(node.node, control, means, left)

    def start(self, now_ns: int) -> None:
        """Begin, or go on where the predecessor stopped: what is congested by now is said to the other ends."""
        for port in self._ports.values():
            if port.notifies_speaker:
                for priority in range(PRIORITIES):
                    if self._means.program.is_congested(port.slot, priority):
                        self._congested[port.slot] = self._congested.get(port.slot, 0) | 1 << priority
        self._warm_up()
        self._means.send(seg6.own_protocols([local.sid.address for local in self._plan.sids if local.allowed]))
        for tunnel, refresh in self._plan.tunnels:
            self._add(tunnel, refresh, now_ns)
        if self._control is not None:
            for item in self._control.installed.values():
                if isinstance(item, TunnelItem):
                    self._install(item.tunnel, now_ns)
        if self._learner is not None:
            self._look_up(self._plan.directory, now_ns)

    @property
    def notes(self) -> SrNotes | None:
        return self._control.notes if self._control else None

    @property
    def files(self) -> dict[int, Callable[[int], None]]:
        """What to call when a file is readable."""
        found: dict[int, Callable[[int], None]] = {self._ending.fileno(): self._take, self._data.fileno(): self._learn}
        if self._control is not None:
            found[self._control.fd] = self._hear
        if self._headroom is not None:
            found[self._headroom.fd] = self._headroom.hear
        return found

    @property
    def deadline_ns(self) -> int:
        due = [one.sender.deadline_ns or NEVER for one in self._tunnels.values()]
        if self._learner is not None:
            due.append(self._learner.deadline_ns or NEVER)
        if self._control is not None:
            due.append(self._control.deadline_ns)
        if self._headroom is not None:
            due.append(self._headroom.deadline_ns)
        return min([self._listen_ns, *due, *self._pausing.values()])

    def congested(self, slot: int, local: int, is_congested: bool, came_ns: int, now_ns: int) -> None:
        """The buffer of a priority that comes in by a port passed its threshold, or has room again."""
        mask = self._congested.get(slot, 0)
        self._congested[slot] = mask | 1 << local if is_congested else mask & ~(1 << local)
        for one in self._of(slot, local):
            if is_congested or not self._congested_ports(one, local):
                self._signal_congestion(one, slot, local, is_congested, now_ns, came_ns=came_ns)

    def link(self, interface: int, is_up: bool, now_ns: int) -> None:
        """An interface has a carrier, or none any more."""
        for port in self._ports.values():
            if port.interface == interface:
                if self._control is not None:
                    self._control.link(port.name, is_up, now_ns)
                if is_up:
                    self._pause_again(port, now_ns)

    def _pause_again(self, port: PortPlan, now_ns: int) -> None:
        """A port that has lost its link has forgotten all pauses; what came through tunnels holds for the rest of its
        time, for their other ends have lost nothing.
        """
        longest_ns = pause_ns(port.rate, LONGEST_PAUSE)
        for (_, name, priority, slice_id), until_ns in self._pausing.items():
            local = self._local_of(slice_id, priority)
            if name == port.name and until_ns > now_ns and local is not None:
                quanta = min(LONGEST_PAUSE, -(-(until_ns - now_ns) * LONGEST_PAUSE // longest_ns))
                frame = PfcFrame.of(self._mac, {local: quanta}).encode()
                self._obey(Order(OrderType.OBEY, port.slot, frame=frame).encode())

    def expire(self, now_ns: int) -> None:
        """Say again what has to be said again, and learn anew."""
        for one in list(self._tunnels.values()):
            if (one.sender.deadline_ns or NEVER) > now_ns:
                continue
            slot = self._slot(one)
            for priority in sorted(one.sender.stopped):  # others may have made room meanwhile
                local = self._local_of(one.tunnel.slice_id, priority)
                if local is None:
                    continue
                for congested in self._congested_ports(one, local):
                    if self._means.program.has_room(congested, local):
                        self.congested(congested, local, False, now_ns, now_ns)
            if frame := one.sender.due(now_ns):
                self._send(one, frame, slot, AgentEvent.TUNNEL_REFRESH, 0)
        for what in [what for what, until_ns in self._pausing.items() if until_ns <= now_ns]:
            del self._pausing[what]
            self._say(Pause(*what, stopped=False), now_ns)
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
            "tunnels": [
                {
                    "to": one.tunnel.pauses,
                    "segments": [str(segment) for segment in one.tunnel.segments],
                    "slice": one.tunnel.slice_id,
                    "stopped": sorted(one.sender.stopped),
                    "sent": dict(one.sender.sent),
                }
                for one in self._tunnels.values()
            ],
            "learning": dict(self._learner.counters) if self._learner is not None else None,
            "send_errors": self.send_errors,
            "headroom": self._headroom.snapshot() if self._headroom else None,
            "controller": self._control.snapshot() if self._control else None,
        }

    def _counted(self) -> dict[str, int]:
        """What became of packets to the SIDs, for the controller."""
        counters = self._behaviour.counters()
        return {f"{sid} {what}": count for sid, one in counters.items() for what, count in one.items()}

    def _add(self, tunnel: ReverseTunnel, refresh: Refresh, now_ns: int, *, learned: bool = False) -> None:
        """Use a tunnel from now on, and say in it what is congested already."""
        if (known := self._tunnels.get((learned, tunnel.identity))) is not None:
            known.tunnel = tunnel
            return
        one = _Tunnel(tunnel, PauseSender(self._mac, refresh), Encapsulator(tunnel, self._plan.source))
        self._tunnels[learned, tunnel.identity] = one
        if self._headroom is not None and (not learned, tunnel.identity) not in self._tunnels:
            self._headroom.add(tunnel, one.packets, now_ns)
        for slot, mask in self._congested.items():
            for local in PRIORITIES_IN[mask]:
                if one in self._of(slot, local):
                    self._signal_congestion(one, slot, local, True, now_ns, came_ns=now_ns)

    def _install(self, tunnel: ReverseTunnel, now_ns: int) -> None:
        """A tunnel that the controller wants. How long it takes the controller knows."""
        if tunnel.interface is not None and tunnel.interface not in self._ports:
            raise UsageError(f"there is no interface {tunnel.interface}")
        fastest = self._plan.fastest or max(port.rate for port in self._ports.values())
        refresh = Refresh.of(fastest, Duration.from_ns(tunnel.delay_ns or 0), _VARIATION)
        self._add(tunnel, refresh, now_ns)

    def _remove(self, tunnel: ReverseTunnel, now_ns: int, *, learned: bool = False) -> None:
        """Use a tunnel no longer. Nobody at its other end stays paused, unless another tunnel to it says so."""
        one = self._tunnels.pop((learned, tunnel.identity), None)
        if one is None:
            return
        if self._headroom is not None and (not learned, tunnel.identity) not in self._tunnels:
            self._headroom.remove(tunnel)
        said = {
            priority
            for other in self._tunnels.values()
            if (other.tunnel.target, other.tunnel.slice_id) == (one.tunnel.target, one.tunnel.slice_id)
            for priority in other.sender.stopped
        }
        slot = self._slot(one)
        for priority in sorted(one.sender.stopped - said):
            if frame := one.sender.xon(priority):
                self._send(one, frame, slot, AgentEvent.TUNNEL_XON, 0)

    def _forget(self, tunnel: ReverseTunnel, why: str, now_ns: int) -> None:
        """A learned tunnel is no longer."""
        self._remove(tunnel, now_ns, learned=True)
        self._say(OwnTunnel(tunnel, False, why), now_ns)

    def _signal_congestion(
        self, one: _Tunnel, slot: int, local: int, is_congested: bool, now_ns: int, *, came_ns: int
    ) -> None:
        _, priority = self._inside.get(local, (None, local))
        frame = one.sender.xoff(priority, now_ns) if is_congested else one.sender.xon(priority)
        if frame:
            kind = AgentEvent.TUNNEL_XOFF if is_congested else AgentEvent.TUNNEL_XON
            self._send(one, frame, slot, kind, (now_ns - came_ns) // 1000)
            if self._headroom is not None:
                self._headroom.reaction_ns = max(self._headroom.reaction_ns, time.monotonic_ns() - came_ns)

    def _port(self, one: _Tunnel) -> PortPlan | None:
        """The port whose congestion goes into this tunnel; None: any."""
        return None if one.tunnel.interface is None else self._ports.get(one.tunnel.interface)

    def _congested_ports(self, one: _Tunnel, local: int) -> list[int]:
        """The slots whose congestion keeps this tunnel's other end stopped: one that is for any port may have more."""
        port = self._port(one)
        return [
            slot
            for slot, mask in self._congested.items()
            if mask >> local & 1 and (one.tunnel.interface is None or (port is not None and port.slot == slot))
        ]

    def _slot(self, one: _Tunnel) -> int:
        """The port that events of this tunnel are logged under: its own; of one that is for any port the one that is
        congested, or the first that leads to the other routers.
        """
        if (port := self._port(one)) is not None:
            return port.slot
        for priority in sorted(one.sender.stopped):
            local = self._local_of(one.tunnel.slice_id, priority)
            if local is not None and (congested := self._congested_ports(one, local)):
                return congested[0]
        ports = list(self._ports.values())
        return next((port.slot for port in ports if port.notifies_speaker), ports[0].slot)

    def _of(self, slot: int, local: int) -> list[_Tunnel]:
        """The tunnels for the congestion of a local priority at a port: those of its slice."""
        slice_id, _ = self._inside.get(local, (None, local))
        found = [one for one in self._tunnels.values() if one.tunnel.slice_id == slice_id]
        return [one for one in found if (port := self._port(one)) is None or port.slot == slot]

    def _local_of(self, slice_id: int | None, priority: int) -> int | None:
        """What a slice's priority is here; None: nothing, for the slice is not known here."""
        if slice_id is None:
            return priority if priority not in self._inside else None
        return self._local.get((slice_id, priority))

    def _take(self, now_ns: int) -> None:
        """A packet has come to one of our End.X.PFC SIDs."""
        for data, came_ns, interface in _packets(self._ending):
            from_outside = self._is_outside(interface)
            said = data[:_HOP_LIMIT_AT] + data[_HOP_LIMIT_AT + 1 :]
            if not from_outside and (known := self._known.get(said)) is not None:
                self._behaviour.repeat(known.sid, known.result)
                self._pause(known, came_ns, now_ns)
                continue
            result = self._behaviour.receive(data, now_ns, from_outside)
            if isinstance(result, PauseJ):
                pause = self._prepared(IPv6Address(data[24:40]), result)
                self._pause(pause, came_ns, now_ns)
                if len(self._known) >= _MOST_KNOWN:
                    self._known.clear()
                self._known[said] = pause
            elif isinstance(result, Measure) and self._headroom is not None:
                self._headroom.answer(result, now_ns)
            elif isinstance(result, SendIcmp):
                self._send_packet(result.packet)
            elif isinstance(result, Deliver):
                self._hand_over(result.packet)

    def _is_outside(self, interface: str | None) -> bool:
        return interface is not None and interface not in self._in_domain

    def _hand_over(self, packet: bytes) -> None:
        """To the router's own protocols."""
        try:
            self._own.sendto(packet, ("lo", _IPV6))
        except OSError:  # no room, or longer than the interface takes
            self.send_errors += 1

    def _prepared(self, sid: IPv6Address, result: PauseJ) -> _Pause:
        """The queues of the slice stop at every port of J, or go on."""
        here = {
            local: (priority, quanta)
            for priority, quanta in result.frame.changes()
            if (local := self._local_of(result.slice_id, priority)) is not None
        }
        if not here:  # of another slice's priorities, or of none that is known here
            return _Pause(sid, result, (), 0, ())
        ports = [self._ports[one.interface] for one in result.adjacencies if one.interface in self._ports]
        frame = PfcFrame.of(self._mac, {local: quanta for local, (_, quanta) in here.items()}).encode()
        orders = [(port, Order(OrderType.OBEY, port.slot, frame=frame).encode()) for port in ports]
        return _Pause(sid, result, tuple(orders), sum(1 << local for local in here), tuple(here.values()))

    def _pause(self, pause: _Pause, came_ns: int, now_ns: int) -> None:
        for port, order in pause.orders:
            self._obey(order)
            obeyed_ns = time.monotonic_ns()
            self._means.record(obeyed_ns, AgentEvent.TUNNEL_RECEIVED, port.slot, pause.mask, obeyed_ns - came_ns)
            for priority, quanta in pause.changes:
                what = (pause.sid, port.name, priority, pause.result.slice_id)
                if (quanta > 0) != (what in self._pausing):
                    self._say(Pause(*what, stopped=quanta > 0), now_ns)
                self._pausing.pop(what, None)
                if quanta:
                    self._pausing[what] = now_ns + pause_ns(port.rate, quanta)

    def _obey(self, order: bytes) -> None:
        before_ns = time.monotonic_ns()
        self._means.order(order)
        if self._headroom is not None:
            self._headroom.obeying_ns = max(self._headroom.obeying_ns, time.monotonic_ns() - before_ns)

    def _warm_up(self) -> None:
        """Do what a PFC frame out of a tunnel needs while nobody sends yet: the first time takes longest. Where it is
        measured how long that takes, the queues at J stop for a moment.
        """
        for local in self._plan.sids:
            mask = self._ports[local.forwards_by.interface].pfc.mask
            own = [self._local_of(local.sid.slice_id, priority) for priority in range(PRIORITIES)]
            lossless = [priority for priority, inside in enumerate(own) if inside is not None and mask >> inside & 1]
            frames = [PfcFrame.xon(self._mac, lossless)] if lossless else []
            if self._headroom is not None and lossless:
                frames.insert(0, PfcFrame.xoff(self._mac, lossless, 1))
            address = local.sid.address
            packets = Encapsulator(ReverseTunnel("here", "here", (address, address)), self._plan.source)
            for frame in frames:
                result = process(packets.packet(frame), local)
                assert isinstance(result, PauseJ), result
                for _, order in self._prepared(address, result).orders:
                    self._obey(order)

    def _reserve(self, interface: str | None, round_trip: Duration) -> None:
        for port in self._ports.values():
            if port.cells_for is not None and interface in (port.name, None):
                self._means.reserve(port.slot, round_trip)

    def _hear(self, now_ns: int) -> None:
        """The controller has said something."""
        assert self._control is not None
        self._control.read(now_ns)
        if self._learner is None:
            return
        revision, sids = self._control.directory
        if revision != self._directory_revision:
            self._directory_revision = revision
            self._look_up(sids, now_ns)

    def _look_up(self, sids: tuple[Sid, ...], now_ns: int) -> None:
        """All routers advertise these: data can teach tunnels to them."""
        assert self._learner is not None
        self._directory = sids
        self._own_sids = {sid.address for sid in sids if sid.node == self._learner_node}
        for tunnel in self._learner.advertised(sids):
            self._forget(tunnel, "a segment of it is not advertised any more", now_ns)
        self._listen_ns = now_ns

    def _learn(self, now_ns: int) -> None:
        """A data packet; one is enough for a while. PFC in a tunnel comes in here as well, and goes first."""
        assert self._learner is not None
        self._take(now_ns)
        packet_filter.attach(self._data, packet_filter.nothing())
        self._listen_ns = now_ns + _LISTEN_AGAIN_NS
        for data, _, interface in _packets(self._data):
            came = kernel_endx.as_it_came(data, self._own_sids)
            found = self._learner.data_packet(came, now_ns, self._is_outside(interface))
            if isinstance(found, Learned) and found.new and self._plan.learned_refresh:
                if found.evicted:
                    self._forget(found.evicted, "another one needed its place", now_ns)
                self._means.record(now_ns, AgentEvent.TUNNEL_LEARNED, next(iter(self._ports.values())).slot, 0, 0)
                self._add(found.tunnel, self._plan.learned_refresh, now_ns, learned=True)
                self._say(OwnTunnel(found.tunnel, True, "a data packet has come by it"), now_ns)

    def _say(self, message: Pause | OwnTunnel, now_ns: int) -> None:
        if self._control is not None:
            self._control.say(message, now_ns)

    def _record_sr(self, now_ns: int, kind: AgentEvent, value: int) -> None:
        self._means.record(now_ns, kind, next(iter(self._ports.values())).slot, 0, value)

    def _send(self, one: _Tunnel, frame: PfcFrame, slot: int, kind: AgentEvent, value: int) -> None:
        mask = sum(1 << priority for priority, _ in frame.changes())
        self._means.record(time.monotonic_ns(), kind, slot, mask, value)
        self._send_packet(one.packets.packet(frame))

    def _send_packet(self, packet: bytes) -> None:
        destination = socket.inet_ntop(socket.AF_INET6, packet[24:40])
        try:
            self._raw.sendto(packet, (destination, 0))
        except OSError:  # no way there, no room, no address: the next repetition may find one
            self.send_errors += 1


def _tap(code: bytes) -> socket.socket:
    """A socket for IPv6 packets that come in by any interface, and that `code` takes."""
    packets = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(_IPV6))
    packets.setblocking(False)
    packet_filter.attach(packets, packet_filter.nothing())
    packets.setsockopt(_SOL_PACKET, _IGNORE_OUTGOING, 1)
    stamped.enable(packets)
    for _ in _packets(packets):
        pass  # what came before the filter was there
    packet_filter.attach(packets, code)
    return packets


def _packets(packets: socket.socket) -> Iterator[tuple[bytes, int, str | None]]:
    """All that wait, with when they came in, and by which interface; None: not known."""
    while True:
        try:
            data, came_ns, address = stamped.receive_from(packets, _LONGEST)
        except BlockingIOError:
            return
        yield data, came_ns, address[0] if address else None
