"""The reverse tunnels into which congestion at a router goes: XOFF, its repetition, and XON.

A tunnel that names an interface carries the congestion of that port, others that of any port; and of one slice, or of
the traffic without a slice.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from ipaddress import IPv6Address
from typing import Any

from testbed.agent.events import AgentEvent
from testbed.agent.plan import PortPlan
from testbed.frames import Mac
from testbed.frames.mac_control import PfcFrame
from testbed.linux.port_program import PRIORITIES, PortProgram
from testbed.subjects.srv6.agent.plan import SlicePriorities
from testbed.subjects.srv6.agent.tunnel_headroom import TunnelHeadroom
from testbed.subjects.srv6.protocol.pause_refresh import PauseSender, Refresh
from testbed.subjects.srv6.protocol.reverse_tunnel import Encapsulator, ReverseTunnel
from testbed.switch.pfc import PRIORITIES_IN
from testbed.units import NEVER

Record = Callable[[int, AgentEvent, int, int, int], None]


@dataclass
class _Tunnel:
    """One reverse tunnel in use."""

    tunnel: ReverseTunnel
    sender: PauseSender
    packets: Encapsulator


class PauseTunnels:
    """The reverse tunnels of one router."""

    def __init__(
        self,
        ports: Mapping[str, PortPlan],
        priorities: SlicePriorities,
        program: PortProgram,
        *,
        mac: Mac,
        source: IPv6Address,
        record: Record,
        send: Callable[[bytes], None],
    ) -> None:
        self.headroom: TunnelHeadroom | None = None
        """The measurement of headroom through the tunnels, or None."""
        self._ports, self._priorities, self._program = ports, priorities, program
        self._mac, self._source, self._record, self._send_packet = mac, source, record, send
        self._tunnels: dict[tuple[bool, object], _Tunnel] = {}
        """The tunnels by whether they were learned, and identity: a learned one may have the segments of a requested
        one."""
        self._congested: dict[int, int] = {}
        """The congested local priorities of each slot, as a mask."""

    def read_congestion(self) -> None:
        """Take the congestion that there is already from the port program."""
        for port in self._ports.values():
            if port.notifies_speaker:
                for priority in range(PRIORITIES):
                    if self._program.buffers.is_congested(port.slot, priority):
                        self._congested[port.slot] = self._congested.get(port.slot, 0) | 1 << priority

    def add(self, tunnel: ReverseTunnel, refresh: Refresh, now_ns: int, *, learned: bool = False) -> None:
        """Use a tunnel from now on, and signal in it what is congested already."""
        if (known := self._tunnels.get((learned, tunnel.identity))) is not None:
            known.tunnel = tunnel
            return
        one = _Tunnel(tunnel, PauseSender(self._mac, refresh), Encapsulator(tunnel, self._source))
        self._tunnels[learned, tunnel.identity] = one
        if self.headroom is not None and (not learned, tunnel.identity) not in self._tunnels:
            self.headroom.add(tunnel, one.packets, now_ns)
        for slot, mask in self._congested.items():
            for local in PRIORITIES_IN[mask]:
                if one in self._of(slot, local):
                    self._signal_congestion(one, slot, local, True, now_ns, came_ns=now_ns)

    def remove(self, tunnel: ReverseTunnel, *, learned: bool = False) -> None:
        """Use a tunnel no longer, and resume its other end, unless another tunnel to it keeps it stopped."""
        one = self._tunnels.pop((learned, tunnel.identity), None)
        if one is None:
            return
        if self.headroom is not None and (not learned, tunnel.identity) not in self._tunnels:
            self.headroom.remove(tunnel)
        stopped_by_others = {
            priority
            for other in self._tunnels.values()
            if (other.tunnel.target, other.tunnel.slice_id) == (one.tunnel.target, one.tunnel.slice_id)
            for priority in other.sender.stopped
        }
        slot = self._slot(one)
        for priority in sorted(one.sender.stopped - stopped_by_others):
            if frame := one.sender.xon(priority):
                self._send(one, frame, slot, AgentEvent.TUNNEL_XON, 0)

    def congested(self, slot: int, local: int, is_congested: bool, came_ns: int, now_ns: int) -> None:
        """Signal that the buffer of a priority at an ingress port passed its threshold, or has room again."""
        mask = self._congested.get(slot, 0)
        self._congested[slot] = mask | 1 << local if is_congested else mask & ~(1 << local)
        for one in self._of(slot, local):
            if is_congested or not self._congested_slots(one, local):
                self._signal_congestion(one, slot, local, is_congested, now_ns, came_ns=came_ns)

    def expire(self, now_ns: int) -> None:
        """Repeat XOFF where it is due and the buffer is still congested."""
        for one in list(self._tunnels.values()):
            if (one.sender.deadline_ns or NEVER) > now_ns:
                continue
            slot = self._slot(one)
            for priority in sorted(one.sender.stopped):  # the buffer may have room by now
                local = self._priorities.local(one.tunnel.slice_id, priority)
                if local is None:
                    continue
                for congested in self._congested_slots(one, local):
                    if self._program.buffers.has_room(congested, local):
                        self.congested(congested, local, False, now_ns, now_ns)
            if frame := one.sender.due(now_ns):
                self._send(one, frame, slot, AgentEvent.TUNNEL_REFRESH, 0)

    @property
    def deadlines_ns(self) -> Iterable[int]:
        return [one.sender.deadline_ns or NEVER for one in self._tunnels.values()]

    def snapshot(self) -> list[dict[str, Any]]:
        return [
            {
                "to": one.tunnel.pauses,
                "segments": [str(segment) for segment in one.tunnel.segments],
                "slice": one.tunnel.slice_id,
                "stopped": sorted(one.sender.stopped),
                "sent": dict(one.sender.sent),
            }
            for one in self._tunnels.values()
        ]

    def _signal_congestion(
        self, one: _Tunnel, slot: int, local: int, is_congested: bool, now_ns: int, *, came_ns: int
    ) -> None:
        _, priority = self._priorities.of_local(local)
        frame = one.sender.xoff(priority, now_ns) if is_congested else one.sender.xon(priority)
        if frame:
            kind = AgentEvent.TUNNEL_XOFF if is_congested else AgentEvent.TUNNEL_XON
            self._send(one, frame, slot, kind, (now_ns - came_ns) // 1000)
            if self.headroom is not None and is_congested:
                self.headroom.reaction_ns = max(self.headroom.reaction_ns, time.monotonic_ns() - came_ns)

    def _port(self, one: _Tunnel) -> PortPlan | None:
        """Return the port whose congestion goes into this tunnel, or None if that of any port does."""
        return None if one.tunnel.interface is None else self._ports.get(one.tunnel.interface)

    def _congested_slots(self, one: _Tunnel, local: int) -> list[int]:
        """Return the slots whose congestion keeps this tunnel's other end stopped; for a tunnel of any port, all of
        them.
        """
        port = self._port(one)
        return [
            slot
            for slot, mask in self._congested.items()
            if mask >> local & 1 and (one.tunnel.interface is None or (port is not None and port.slot == slot))
        ]

    def _slot(self, one: _Tunnel) -> int:
        """Return the port that events of this tunnel are logged under: its own; for a tunnel of any port the congested
        one, or the first that leads to other routers.
        """
        if (port := self._port(one)) is not None:
            return port.slot
        for priority in sorted(one.sender.stopped):
            local = self._priorities.local(one.tunnel.slice_id, priority)
            if local is not None and (congested := self._congested_slots(one, local)):
                return congested[0]
        ports = list(self._ports.values())
        return next((port.slot for port in ports if port.notifies_speaker), ports[0].slot)

    def _of(self, slot: int, local: int) -> list[_Tunnel]:
        """Return the tunnels for the congestion of a local priority at a port: those of its slice."""
        slice_id, _ = self._priorities.of_local(local)
        found = [one for one in self._tunnels.values() if one.tunnel.slice_id == slice_id]
        return [one for one in found if (port := self._port(one)) is None or port.slot == slot]

    def _send(self, one: _Tunnel, frame: PfcFrame, slot: int, kind: AgentEvent, value: int) -> None:
        mask = sum(1 << priority for priority, _ in frame.changes())
        self._record(time.monotonic_ns(), kind, slot, mask, value)
        self._send_packet(one.packets.packet(frame))
