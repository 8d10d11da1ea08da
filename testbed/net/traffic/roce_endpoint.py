"""The process of a host that has RoCE flows: sockets and clock around `testbed.roce`. Only the lab can run it.

One socket takes all datagrams of port 4791, by the batch and with the time at which each came. Each queue pair sends by
a socket of its own with the flow's priority and DSCP; CNPs go by another. A full socket is what stops a sender whose
port is paused: its queue pair sends nothing until there is room. Sockets are not connected, so that datagrams have
identification 0, which the ICRC covers.
"""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from testbed.frames.roce import PORT, READ_RESPONSES, REQUESTS
from testbed.linux import kernel, mmsg
from testbed.net.fabric import Fabric
from testbed.net.traffic.roce import Roce, ds_field
from testbed.net.traffic.roce_flow import KEY, Asker, Source, Target, maker_of_source, transport_of
from testbed.net.traffic.transport import Endpoint, EndpointControl
from testbed.roce.endpoint import DatagramKind, Outgoing
from testbed.roce.endpoint import Endpoint as Host
from testbed.roce.memory import Sink
from testbed.roce.queue_pair import QueuePair, ahead_ns
from testbed.roce.rates import Line
from testbed.roce.requester import Operation

if TYPE_CHECKING:
    from testbed.net.traffic.flow import Flow

_FIRST_SERVICE = 1000
_SO_PRIORITY, _SO_SNDBUFFORCE, _SO_RCVBUFFORCE, _SO_REUSEPORT = 12, 32, 33, 15
_IP_MTU_DISCOVER, _IP_PMTUDISC_DO = 10, 2
_SEND_BUFFER = 32_000
_FAST_SEND_BUFFER = 192_000
"""Where a queue pair gives its port many packets at a time; the kernel counts some 2300 octets for each."""
_RECEIVE_BUFFER = 64 << 20
_LONGEST = 4096 + 64
_OUTER = 42
"""Octets of a frame before the payload of UDP."""
_BATCH = 64
_LOOK_NS = 10_000_000
"""How often a process with nothing to do looks whether the flows are over."""
_TURNS = 4
"""How often on a fast line a queue pair has its turn before another: its next message follows the one before."""
_CE = 3
_AT_ONCE = 4
"""Packets that a queue pair that was late sends before another has its turn."""


class _Way:
    """A socket from one UDP port, and the datagrams that wait for room in it."""

    def __init__(self, source_port: int, priority: int, ds: int, buffer: int) -> None:
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.setsockopt(socket.SOL_SOCKET, _SO_REUSEPORT, 1)
        self.socket.setsockopt(socket.SOL_SOCKET, _SO_PRIORITY, priority)
        self.socket.setsockopt(socket.SOL_SOCKET, _SO_SNDBUFFORCE, buffer // 2)
        self.socket.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, ds)
        self.socket.setsockopt(socket.IPPROTO_IP, _IP_MTU_DISCOVER, _IP_PMTUDISC_DO)
        self.socket.bind(("", source_port))
        self.socket.setblocking(False)
        self.waiting: list[Outgoing] = []
        self._bursts: dict[tuple[str, int], mmsg.Burst] = {}

    def send_run(self, to: str, octets: bytes, many: int) -> None:
        """Send datagrams of one size that lie one after the other; there are none that wait."""
        size = len(octets) // many
        burst = self._bursts.get((to, size))
        if burst is None:
            burst = self._bursts[to, size] = mmsg.Burst(self.socket, to, PORT, size, _BATCH)
        sent = burst.send(octets)
        self.waiting = [
            Outgoing(DatagramKind.DATA, to, 0, octets[place * size : (place + 1) * size]) for place in range(sent, many)
        ]

    def send(self, datagrams: list[Outgoing]) -> None:
        """Send them, or as many as there is room for."""
        queue = self.waiting + datagrams
        sent = 0
        try:
            for one in queue:
                self.socket.sendto(one.datagram, (one.to, PORT))
                sent += 1
        except (BlockingIOError, ConnectionRefusedError):
            pass
        self.waiting = queue[sent:]


class RoceEndpoint(Endpoint):
    """All RoCE flows of one host."""

    def __init__(self, node: Any, flows: Mapping[int, Flow], sends: Sequence[int], receives: Sequence[int]) -> None:
        super().__init__(node, flows, sends, receives)
        fabric = Fabric.current()
        port = next(port for port in fabric.ports.values() if port.node is node)
        self._line = Line(port.cable.rate, port.scale)

    def run(self, session: EndpointControl) -> None:
        _Loop(self.node, self.flows, self.sends, self.receives, self._line).run(session)


class _Loop:
    """The process."""

    def __init__(
        self, node: Any, flows: Mapping[int, Flow], sends: Sequence[int], receives: Sequence[int], line: Line
    ) -> None:
        self._flows = flows
        first = flows[(*sends, *receives)[0]]
        assert isinstance(first.transport, Roce)
        self._transport = first.transport
        self._host = Host(node.IP(), line, first.transport.settings)
        self._sources = {index: Source(flows[index], index) for index in sends}
        self._targets = {index: Target(flows[index], index) for index in receives}
        self._askers: dict[int, Asker] = {}
        self._target_of: dict[int, Target] = {}
        self._ways: dict[tuple[int, DatagramKind], _Way] = {}
        self._flow_of: dict[int, Flow] = {}
        self._timer = kernel.Timer()
        self._now_ns = 0
        self._at_once = _AT_ONCE
        self._rests_ns = ahead_ns(line, first.transport.settings.mtu) // 2

    def run(self, session: EndpointControl) -> None:
        if self._rests_ns:
            self._at_once = 2  # the last packet of a message and the first of the next; the others go together
        listener = _listener()
        receiver = mmsg.Receiver(listener, _BATCH, _LONGEST)
        self._listen()
        session.ready()
        begin_ns = session.begin_ns()
        self._connect(begin_ns)
        for source in self._sources.values():
            source.begin(begin_ns)
        offset_ns = time.time_ns() - time.monotonic_ns()  # the kernel stamps datagrams with the time of day
        while session.receiving:
            came, many = False, _BATCH
            while many == _BATCH and (many := receiver.receive()):
                self._take(receiver, many, offset_ns)
                came = True
            self._now_ns = now_ns = time.monotonic_ns()
            self._send(now_ns)
            self._report(session, now_ns)
            self._wait(listener, now_ns, now_ns + self._rests_ns if came else 0)
        now_ns = time.monotonic_ns()
        for index, source in self._sources.items():
            if not source.has_reported:
                session.sent(index, source.given())
        for index, target in self._targets.items():
            session.received(index, target.taken())

    # Connections

    def _listen(self) -> None:
        for index, flow in self._flows.items():
            is_read = transport_of(flow).operation == Operation.READ
            if is_read and index in self._sources:
                self._host.listen(_FIRST_SERVICE + index, self._answer_source(index), maker_of_source(flow))
            elif not is_read and index in self._targets:
                self._host.listen(_FIRST_SERVICE + index, self._answer_target(index))

    def _answer_source(self, index: int) -> Any:
        def answer(request: object, pair: QueuePair) -> bytes:
            source = self._sources[index]
            self._use(pair, source.flow)
            source.pair = pair
            pair.responder.receive_into = Sink()
            return KEY.pack(self._host.register(source.content))

        return answer

    def _answer_target(self, index: int) -> Any:
        def answer(request: object, pair: QueuePair) -> bytes:
            target = self._targets[index]
            self._use(pair, target.flow)
            target.pair = self._own(pair, target)
            pair.responder.receive_into = target.sink
            return KEY.pack(self._host.register(target.sink))

        return answer

    def _use(self, pair: QueuePair, flow: Flow) -> None:
        self._flow_of[pair.number] = flow
        pair.priority = flow.priority

    def _own(self, pair: QueuePair, target: Target) -> QueuePair:
        self._target_of[pair.number] = target
        return pair

    def _connect(self, begin_ns: int) -> None:
        now_ns = time.monotonic_ns()
        for index, flow in self._flows.items():
            is_read = transport_of(flow).operation == Operation.READ
            if index not in (self._targets if is_read else self._sources):
                continue
            far = (flow.source if is_read else flow.target).IP()
            pair = self._host.connect(
                far,
                _FIRST_SERVICE + index,
                now_ns,
                rate_control="fixed" if is_read else maker_of_source(flow),
                traffic_class=ds_field(flow),
            )
            self._use(pair, flow)
            if is_read:
                target = self._targets[index]
                target.pair = self._own(pair, target)
                self._askers[index] = Asker(flow, pair, target.sink, begin_ns)
            else:
                source = self._sources[index]
                source.pair = pair
                waits_for = [self._targets[other] for other in transport_of(flow).after]
                self._askers[index] = Asker(flow, pair, source.content, begin_ns, waits_for)

    # Datagrams

    def _take(self, receiver: mmsg.Receiver, many: int, offset_ns: int) -> None:
        host, target_of = self._host, self._target_of
        fields = receiver.ds_fields(many)
        arrivals = receiver.arrivals(many)
        datagrams = receiver.datagrams(many)
        marks = [field & 3 == _CE for field in fields]
        place = 0
        while place < many:
            datagram, ds, stamp_ns = datagrams[place], fields[place], arrivals[place]
            at_ns = max(stamp_ns - offset_ns, self._now_ns)
            target = None
            if datagram[0] in REQUESTS or datagram[0] in READ_RESPONSES:
                target = target_of.get(int.from_bytes(datagram[5:8], "big"))
            if target is not None and target.pair is not None:
                end = marks.index(True, place) if True in marks[place:] else many
                taken = target.pair.receive_run(datagrams[place:end]) if end > place else 0
                if taken:
                    came_ns = [stamp_ns - offset_ns for stamp_ns in arrivals[place : place + taken]]
                    target.count_run(len(datagram) + _OUTER, ds & 3, came_ns)
                    place += taken
                    continue
            place += 1
            before = target.sink.received if target is not None else 0
            host.receive(datagram, ds, at_ns)
            if target is not None and target.sink.received > before:
                target.count(len(datagram) + _OUTER, ds & 3, at_ns)

    def _send(self, now_ns: int) -> None:
        host = self._host
        if host.management_deadline_ns <= now_ns:
            for outgoing in host.management(now_ns):
                self._way(outgoing, None).send([outgoing])
        for pair in host.queue_pairs.values():
            way = self._ways.get((pair.number, DatagramKind.DATA))
            if way is not None and way.waiting:
                way.send([])
                if way.waiting:
                    continue
            if pair.deadline_ns > now_ns:
                continue
            for _ in range(_TURNS if self._rests_ns else 1):
                if way is not None:
                    octets, packets = pair.transmit_run(now_ns)
                    if packets:
                        way.send_run(pair.far_address, octets, packets)
                        if way.waiting:
                            break
                for outgoing in host.outgoing_of(pair, now_ns, self._at_once):
                    self._way(outgoing, pair).send([outgoing])
                way = self._ways.get((pair.number, DatagramKind.DATA))
                if pair.deadline_ns > now_ns or (way is not None and way.waiting):
                    break

    def _way(self, outgoing: Outgoing, pair: QueuePair | None) -> _Way:
        number = 0 if pair is None else pair.number
        key = number, outgoing.kind
        found = self._ways.get(key)
        if found is None:
            flow = None if pair is None else self._flow_of[number]
            transport = self._transport if flow is None else transport_of(flow)
            if flow is not None and outgoing.kind is DatagramKind.DATA:
                usual = _FAST_SEND_BUFFER if self._rests_ns else _SEND_BUFFER
                buffer = flow.buffer.bytes if flow.buffer else usual
                found = _Way(outgoing.source_port, flow.priority, ds_field(flow), buffer)
            else:
                ds = transport.cnp_dscp << 2
                found = _Way(outgoing.source_port, transport.cnp_priority, ds, _SEND_BUFFER)
            self._ways[key] = found
        return found

    # Flows

    def _report(self, session: EndpointControl, now_ns: int) -> None:
        sending = session.sending
        for asker in self._askers.values():
            if not asker.is_over:
                asker.post(now_ns, sending)
        for index, source in self._sources.items():
            if source.pair is None:
                continue
            if source.next_sample_ns <= now_ns:
                source.take_sample(now_ns)
            if source.has_reported:
                continue
            own = self._askers.get(index)
            session.count_sent(index, source.pair.fresh_packets)
            if own.is_over if own is not None else source.has_been_read:
                source.has_reported = True
                session.sent(index, source.given())
        for index, target in self._targets.items():
            session.count_received(index, target.packets)

    def _wait(self, listener: socket.socket, now_ns: int, rests_until_ns: int) -> None:
        """Until a datagram comes, a socket has room again, or something is due.

        On a fast line, after datagrams came, no others wake the process for a moment: as with a card's interrupt
        moderation, one wake-up is for several.
        """
        due_ns = min(now_ns + _LOOK_NS, self._host.management_deadline_ns)
        blocked = []
        for pair in self._host.queue_pairs.values():
            way = self._ways.get((pair.number, DatagramKind.DATA))
            if way is not None and way.waiting:
                blocked.append(way.socket)
            else:
                due_ns = min(due_ns, pair.deadline_ns)
        for asker in self._askers.values():
            due_ns = min(due_ns, asker.deadline_ns(now_ns))
        for source in self._sources.values():
            due_ns = min(due_ns, source.next_sample_ns)
        rests = rests_until_ns > now_ns
        if rests:
            due_ns = min(due_ns, rests_until_ns)
        if due_ns <= now_ns:
            return
        self._timer.set(due_ns)
        select.select([self._timer.fd] if rests else [listener.fileno(), self._timer.fd], blocked, [])


def _listener() -> socket.socket:
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _RECEIVE_BUFFER)
    udp.setsockopt(socket.SOL_SOCKET, mmsg.SO_TIMESTAMPNS, 1)
    udp.setsockopt(socket.IPPROTO_IP, socket.IP_RECVTOS, 1)
    udp.bind(("", PORT))
    udp.setblocking(False)
    return udp
