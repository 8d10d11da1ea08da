"""End.X.PFC at one router: congestion goes into reverse tunnels, and what comes out of them pauses the ports of J.

It is part of the node's speaker. Data packets stay with the kernel, whose End.X is behind the same SID; this reads what
the kernel drops: packets that end at the SID. What became of each is counted by SID and reason.
"""

from __future__ import annotations

import errno
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from testbed.agent.log import Own
from testbed.agent.orders import Order, What
from testbed.agent.plan import WanPlan
from testbed.frames import Mac
from testbed.frames.mac_control import PfcFrame
from testbed.linux import packet_filter
from testbed.linux.port_program import PortProgram
from testbed.pfc import NEVER, PRIORITIES_IN
from testbed.srv6.endx_pfc import EndXPfc, PauseJ, SendIcmp
from testbed.srv6.learning import Learned, Learner
from testbed.srv6.refresh import PauseSender, Refresh
from testbed.srv6.reverse import Encapsulator, ReverseTunnel

_IPV6 = 0x86DD
_LONGEST = 2048
_LISTEN_AGAIN_NS = 50_000_000
_SOL_PACKET, _IGNORE_OUTGOING = 263, 23


@dataclass
class _Tunnel:
    """One reverse tunnel in use."""

    tunnel: ReverseTunnel
    sender: PauseSender
    packets: Encapsulator


@dataclass(frozen=True)
class Means:
    """What a speaker lends."""

    program: PortProgram
    order: Callable[[Order], None]
    record: Callable[[int, Own, int, int, int], None]


class WanAgent:
    """Of one router, in the network namespace that the process is in."""

    def __init__(self, plan: WanPlan, ports: Mapping[str, int], mac: Mac, means: Means) -> None:
        """`ports` are the slots of the router's ports by their names."""
        self._plan, self._slots, self._means, self._mac = plan, dict(ports), means, mac
        self._behaviour = EndXPfc(plan.sids)
        self._tunnels: dict[object, _Tunnel] = {}
        for tunnel, refresh in plan.tunnels:
            self._add(tunnel, refresh)
        self._learner = None if plan.learner is None else Learner(plan.learner)
        self._learner_node = plan.learner.own.node if plan.learner else ""
        if self._learner is not None:
            self._learner.advertised(plan.directory)
        self._raw = socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_RAW)
        self._raw.setblocking(False)
        self._ending = _tap(packet_filter.to_addresses(sid.sid.address for sid in plan.sids))
        self._data = _tap(packet_filter.nothing())
        self._listen_ns = 1 if self._learner is not None else NEVER  # at once
        self._congested: dict[int, int] = {}
        """Congested priorities of each slot, as a mask."""
        self.send_errors = 0

    @property
    def files(self) -> dict[int, Callable[[int], None]]:
        """What to call when a file is readable."""
        return {self._ending.fileno(): self._take, self._data.fileno(): self._learn}

    @property
    def deadline_ns(self) -> int:
        due = [one.sender.deadline_ns or NEVER for one in self._tunnels.values()]
        if self._learner is not None:
            due.append(self._learner.deadline_ns or NEVER)
        return min([self._listen_ns, *due])

    def congested(self, slot: int, priority: int, is_congested: bool, came_ns: int, now_ns: int) -> None:
        """The buffer of a priority that comes in by a port passed its threshold, or has room again."""
        mask = self._congested.get(slot, 0)
        self._congested[slot] = mask | 1 << priority if is_congested else mask & ~(1 << priority)
        for one in self._of(slot):
            frame = one.sender.xoff(priority, now_ns) if is_congested else one.sender.xon(priority)
            if frame:
                kind = Own.TUNNEL_XOFF if is_congested else Own.TUNNEL_XON
                self._send(one, frame, slot, kind, (now_ns - came_ns) // 1000)

    def expire(self, now_ns: int) -> None:
        """Say again what has to be said again, and learn anew."""
        for one in list(self._tunnels.values()):
            if (one.sender.deadline_ns or NEVER) > now_ns:
                continue
            slot = self._slot(one)
            for priority in sorted(one.sender.stopped):  # others may have made room meanwhile
                if slot is not None and self._means.program.recheck(slot, priority):
                    self.congested(slot, priority, False, now_ns, now_ns)
            if frame := one.sender.due(now_ns):
                self._send(one, frame, slot or 0, Own.TUNNEL_REFRESH, 0)
        if self._learner is not None:
            for tunnel in self._learner.expire(now_ns):
                self._tunnels.pop(tunnel.identity, None)
            if self._listen_ns <= now_ns:
                self._listen_ns = NEVER
                locators = {sid.locator for sid in self._plan.directory if sid.node == self._learner_node}
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
        }

    def _add(self, tunnel: ReverseTunnel, refresh: Refresh) -> _Tunnel:
        one = _Tunnel(tunnel, PauseSender(self._mac, refresh), Encapsulator(tunnel, self._plan.source))
        self._tunnels[tunnel.identity] = one
        return one

    def _slot(self, one: _Tunnel) -> int | None:
        """The port whose congestion goes into this tunnel; None: any."""
        return None if one.tunnel.interface is None else self._slots.get(one.tunnel.interface)

    def _of(self, slot: int) -> list[_Tunnel]:
        return [one for one in self._tunnels.values() if self._slot(one) in (slot, None)]

    def _take(self, now_ns: int) -> None:
        """A packet has come to one of our End.X.PFC SIDs."""
        for data in _packets(self._ending):
            result = self._behaviour.receive(data)
            if isinstance(result, PauseJ):
                for adjacency in result.adjacencies:
                    slot = self._slots.get(adjacency.interface)
                    if slot is not None:
                        self._means.order(Order(What.OBEY, slot, frame=result.frame.encode()))
                        mask = sum(1 << priority for priority, _ in result.frame.changes())
                        self._means.record(now_ns, Own.TUNNEL_RECEIVED, slot, mask, 0)
            elif isinstance(result, SendIcmp):
                self._send_packet(result.packet)

    def _learn(self, now_ns: int) -> None:
        """A data packet; one is enough for a while."""
        assert self._learner is not None
        packet_filter.attach(self._data, packet_filter.nothing())
        self._listen_ns = now_ns + _LISTEN_AGAIN_NS
        for data in _packets(self._data):
            found = self._learner.data_packet(data, now_ns)
            if isinstance(found, Learned) and found.new and self._plan.learned_refresh:
                one = self._add(found.tunnel, self._plan.learned_refresh)
                if found.evicted:
                    self._tunnels.pop(found.evicted.identity, None)
                self._means.record(now_ns, Own.TUNNEL_LEARNED, next(iter(self._slots.values())), 0, 0)
                for slot, mask in self._congested.items():
                    for priority in PRIORITIES_IN[mask]:
                        if frame := one.sender.xoff(priority, now_ns):
                            self._send(one, frame, slot, Own.TUNNEL_XOFF, 0)

    def _send(self, one: _Tunnel, frame: PfcFrame, slot: int, kind: Own, value: int) -> None:
        mask = sum(1 << priority for priority, _ in frame.changes())
        self._means.record(time.monotonic_ns(), kind, slot, mask, value)
        self._send_packet(one.packets.packet(frame))

    def _send_packet(self, packet: bytes) -> None:
        destination = socket.inet_ntop(socket.AF_INET6, packet[24:40])
        try:
            self._raw.sendto(packet, (destination, 0))
        except OSError as error:
            if error.errno not in (errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ENOBUFS, errno.EAGAIN, errno.ENETDOWN):
                raise
            self.send_errors += 1


def _tap(code: bytes) -> socket.socket:
    """A socket for IPv6 packets that come in by any interface, and that `code` takes."""
    packets = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(_IPV6))
    packets.setblocking(False)
    packet_filter.attach(packets, packet_filter.nothing())
    packets.setsockopt(_SOL_PACKET, _IGNORE_OUTGOING, 1)
    _packets(packets)  # what came before the filter was there
    packet_filter.attach(packets, code)
    return packets


def _packets(packets: socket.socket) -> list[bytes]:
    found: list[bytes] = []
    while True:
        try:
            found.append(packets.recv(_LONGEST))
        except BlockingIOError:
            return found
