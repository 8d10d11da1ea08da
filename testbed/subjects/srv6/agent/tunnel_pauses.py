"""The pauses that come out of reverse tunnels: the queues of the slice stop at every port of J, or resume.

What an End.X.PFC packet requires is prepared once and kept, since refreshes are the same packet again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from ipaddress import IPv6Address

from testbed.agent.events import AgentEvent
from testbed.agent.orders import Order, OrderType
from testbed.agent.plan import PortPlan
from testbed.frames import Mac
from testbed.frames.mac_control import LONGEST_PAUSE, PfcFrame
from testbed.linux.port_program import PRIORITIES
from testbed.subjects.srv6.agent.pause_tunnels import Record
from testbed.subjects.srv6.agent.plan import SlicePriorities
from testbed.subjects.srv6.agent.tunnel_headroom import TunnelHeadroom
from testbed.subjects.srv6.protocol.endx_pfc import LocalSid, PauseJ, process
from testbed.subjects.srv6.protocol.reverse_tunnel import Encapsulator, ReverseTunnel
from testbed.subjects.srv6.session.messages import Pause
from testbed.switch.pfc.wire import pause_ns

_HOP_LIMIT_AT = 7
_MOST_KNOWN = 256


@dataclass(frozen=True)
class PreparedPause:
    """The orders for the agent that a packet to a SID requires."""

    sid: IPv6Address
    result: PauseJ
    orders: tuple[tuple[PortPlan, bytes], ...]
    mask: int
    changes: tuple[tuple[int, int], ...]
    """The slice's priorities with their quanta."""


class TunnelPauses:
    """The pauses at the ports of J of one router."""

    def __init__(
        self,
        ports: Mapping[str, PortPlan],
        priorities: SlicePriorities,
        *,
        mac: Mac,
        order: Callable[[bytes], None],
        record: Record,
        report: Callable[[Pause, int], None],
    ) -> None:
        self.headroom: TunnelHeadroom | None = None
        self._ports, self._priorities, self._mac = ports, priorities, mac
        self._order, self._record, self._report = order, record, report
        self._known: dict[bytes, PreparedPause] = {}
        """The pauses of packets received before, without their hop limits."""
        self._pausing: dict[tuple[IPv6Address, str, int, int | None], int] = {}
        """The pauses that were logged, and when they end."""

    def known(self, data: bytes) -> PreparedPause | None:
        """Return the prepared pause of a packet that is like one received before, or None."""
        return self._known.get(_without_hop_limit(data))

    def prepare(self, data: bytes, result: PauseJ) -> PreparedPause:
        """Prepare the pause of a new packet, and keep it."""
        prepared = self._prepared(IPv6Address(data[24:40]), result)
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        self._known[_without_hop_limit(data)] = prepared
        return prepared

    def apply(self, pause: PreparedPause, came_ns: int, now_ns: int) -> None:
        for port, order in pause.orders:
            self._obey(order)
            obeyed_ns = time.monotonic_ns()
            self._record(obeyed_ns, AgentEvent.TUNNEL_RECEIVED, port.slot, pause.mask, obeyed_ns - came_ns)
            for priority, quanta in pause.changes:
                what = (pause.sid, port.name, priority, pause.result.slice_id)
                if (quanta > 0) != (what in self._pausing):
                    self._report(Pause(*what, stopped=quanta > 0), now_ns)
                self._pausing.pop(what, None)
                if quanta:
                    self._pausing[what] = now_ns + pause_ns(port.rate, quanta)

    def expire(self, now_ns: int) -> None:
        """Log the pauses that have ended."""
        for what in [what for what, until_ns in self._pausing.items() if until_ns <= now_ns]:
            del self._pausing[what]
            self._report(Pause(*what, stopped=False), now_ns)

    @property
    def deadlines_ns(self) -> Iterable[int]:
        return self._pausing.values()

    def restore(self, port: PortPlan, now_ns: int) -> None:
        """Pause a port again for the rest of its pauses from tunnels. A port that loses its link drops all pauses, but
        the other ends of the tunnels have lost nothing.
        """
        longest_ns = pause_ns(port.rate, LONGEST_PAUSE)
        for (_, name, priority, slice_id), until_ns in self._pausing.items():
            local = self._priorities.local(slice_id, priority)
            if name == port.name and until_ns > now_ns and local is not None:
                quanta = min(LONGEST_PAUSE, -(-(until_ns - now_ns) * LONGEST_PAUSE // longest_ns))
                frame = PfcFrame.of(self._mac, {local: quanta}).encode()
                self._obey(Order(OrderType.OBEY, port.slot, frame=frame).encode())

    def warm_up(self, sids: Iterable[LocalSid], source: IPv6Address, *, traffic: bool) -> None:
        """Process a frame as from a tunnel, since the first time takes longest. It is applied only before there is
        `traffic`: a successor's XON would end a pause that a tunnel's other end relies on. Where headroom is measured,
        and with it this time, the queues at J stop for a moment.
        """
        for local in sids:
            mask = self._ports[local.forwards_by.interface].pfc.mask
            own = [self._priorities.local(local.sid.slice_id, priority) for priority in range(PRIORITIES)]
            lossless = [priority for priority, inside in enumerate(own) if inside is not None and mask >> inside & 1]
            frames = [PfcFrame.xon(self._mac, lossless)] if lossless else []
            if self.headroom is not None and lossless:
                frames.insert(0, PfcFrame.xoff(self._mac, lossless, 1))
            address = local.sid.address
            packets = Encapsulator(ReverseTunnel("here", "here", (address, address)), source)
            for frame in frames:
                result = process(packets.packet(frame), local)
                assert isinstance(result, PauseJ), result
                prepared = self._prepared(address, result)
                for _, order in () if traffic else prepared.orders:
                    self._obey(order)

    def _prepared(self, sid: IPv6Address, result: PauseJ) -> PreparedPause:
        here = {
            local: (priority, quanta)
            for priority, quanta in result.frame.changes()
            if (local := self._priorities.local(result.slice_id, priority)) is not None
        }
        if not here:  # priorities of another slice, or of one that is not known here
            return PreparedPause(sid, result, (), 0, ())
        ports = [self._ports[one.interface] for one in result.adjacencies if one.interface in self._ports]
        frame = PfcFrame.of(self._mac, {local: quanta for local, (_, quanta) in here.items()}).encode()
        orders = [(port, Order(OrderType.OBEY, port.slot, frame=frame).encode()) for port in ports]
        return PreparedPause(sid, result, tuple(orders), sum(1 << local for local in here), tuple(here.values()))

    def _obey(self, order: bytes) -> None:
        before_ns = time.monotonic_ns()
        self._order(order)
        if self.headroom is not None:
            self.headroom.obeying_ns = max(self.headroom.obeying_ns, time.monotonic_ns() - before_ns)


def _without_hop_limit(data: bytes) -> bytes:
    return data[:_HOP_LIMIT_AT] + data[_HOP_LIMIT_AT + 1 :]
