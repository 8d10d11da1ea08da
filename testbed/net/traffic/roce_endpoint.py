"""The process of a host that has RoCE flows: sockets and clock around `testbed.roce`. Only the lab can run it.

One socket takes all datagrams of port 4791, by the batch and with the time at which each came. Each queue pair sends by
a socket of its own with the flow's priority and DSCP; CNPs go by another. A full socket is what stops a sender whose
port is paused: its queue pair sends nothing until there is room. Sockets are not connected, so that datagrams have
identification 0, which the ICRC covers.
"""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

from testbed.errors import listed
from testbed.frames import roce_run, telemetry
from testbed.frames.roce import BTH_OCTETS, ICRC_OCTETS, Service
from testbed.frames.roce_run import PacketRun
from testbed.linux.process import kernel
from testbed.linux.process.observing import observing
from testbed.linux.sockets import mmsg
from testbed.net.fabric.core import FabricCore
from testbed.net.traffic.flow import Flow
from testbed.net.traffic.in_kernel.control import is_for_kernel
from testbed.net.traffic.in_kernel.roce import KernelHost, serve
from testbed.net.traffic.roce_connections import BATCH, FAST_SEND_BUFFER, SEND_BUFFER, Connections, Way, open_listener
from testbed.net.traffic.roce_flow import (
    Asker,
    Target,
    cnp_ds_field,
    ds_field,
    far_ds_field,
    far_priority,
    label_of,
    line_of,
    report_sent,
    transport_of,
)
from testbed.net.traffic.transport import Endpoint, EndpointControl, by_host, in_groups
from testbed.roce.endpoint import FIRST_QP, DatagramKind, Outgoing
from testbed.roce.memory import known_crcs
from testbed.roce.queue_pair import QueuePair, ahead_ns
from testbed.roce.work import Operation

_LONGEST_END = 64 + telemetry.octets_of(telemetry.ROOM)
"""Octets of a datagram behind the payload of a full packet, or behind as much of anything else, at most."""
_LOOK_NS = 10_000_000
"""The interval at which an idle process checks whether the flows are over."""
_TURNS = 4
"""The turns of a queue pair on a fast line before another has one, so that its next message follows the one before."""
_CE = 3
_ECN = bytes(range(4)) * 64
"""The ECN field of each DS field."""
_AT_ONCE = 4
"""Packets that a queue pair that was late sends before another has its turn."""


_next_pairs: WeakKeyDictionary[FabricCore, dict[str, int]] = WeakKeyDictionary()
"""The number of the next queue pair of each host of a network that has had RoCE flows."""


class RoceEndpoint(Endpoint):
    """The RoCE flows of one host, or of several hosts that the kernel serves."""

    def __init__(
        self, flows: Mapping[int, Flow], hosts: Sequence[Connections], serve: Callable[[EndpointControl], None]
    ) -> None:
        """`serve` is the process of all of them."""
        sends = [index for host in hosts for index in host.sources]
        super().__init__(hosts[0].node, flows, sends, [index for host in hosts for index in host.targets])
        self.place = listed((host.node.name for host in hosts), most=1)
        self._serve = serve

    def run(self, session: EndpointControl) -> None:
        self._serve(session)


def endpoints(flows: Mapping[int, Flow]) -> list[RoceEndpoint]:
    """Return the endpoints of all hosts that are here."""
    # Tables for all endpoints, before they are forked. On `vm` the first packet would wait 40 ms for them.
    mtu = transport_of(next(iter(flows.values()))).settings.mtu
    roce_run.prepare(mtu)
    known_crcs(mtu)
    hosts = [_host(node, flows, *indices) for node, *indices in by_host(flows)]
    groups = in_groups([host for host in hosts if isinstance(host, KernelHost)])
    return [
        *(RoceEndpoint(flows, [host], host.run) for host in hosts if isinstance(host, _Loop)),
        *(RoceEndpoint(flows, group, partial(serve, group)) for group in groups),
    ]


def _host(node: Any, flows: Mapping[int, Flow], sends: Sequence[int], receives: Sequence[int]) -> KernelHost | _Loop:
    # Others than those of flows before, so that captures of the whole run are clear.
    numbers = _next_pairs.setdefault(FabricCore.current(), {})
    first_pair = numbers.get(node.name, FIRST_QP)
    numbers[node.name] = first_pair + len({*sends, *receives})
    line = line_of(node)
    kind = KernelHost if is_for_kernel(flows, sends, line) else _Loop
    return kind(node, flows, sends, receives, line, first_pair=first_pair)


class _Loop(Connections):
    """A host, and its process with the protocol in Python."""

    def run(self, session: EndpointControl) -> None:
        self._ways: dict[tuple[int, DatagramKind], Way] = {}
        self._timer = kernel.Timer()
        self._now_ns = 0
        self._at_once = _AT_ONCE
        self._rests_ns = ahead_ns(self.line, self.settings.mtu) * 2 // 3
        self._full = BTH_OCTETS + self.settings.mtu + ICRC_OCTETS
        self._was_busy = False
        self._askers: dict[int, Asker] = {}
        if self._rests_ns:
            self._at_once = 2  # the last packet of a message and the first of the next; the others go together
        listener, self.manager = open_listener(is_ipv6=self.is_ipv6), self.open_manager()
        # The parts of a full packet: what follows has its ICRC first.
        receiver = mmsg.Receiver(listener, BATCH, BTH_OCTETS, self.settings.mtu, _LONGEST_END)
        session.listen()
        self.connect()
        has_begun = False
        offset_ns = time.time_ns() - time.monotonic_ns()  # the kernel stamps datagrams with the time of day
        while session.receiving:
            self._take_samples()
            self._was_busy, many = False, BATCH
            while many == BATCH and (many := receiver.receive()):
                self._take(receiver, many, offset_ns)
                self._was_busy = True
            if not has_begun:
                session.ready(self.is_settled)  # before anybody has what is sent here, and is ready itself
                has_begun = self._begin(session.begins_ns)
            self._now_ns = now_ns = time.monotonic_ns()
            self._send(now_ns)
            if has_begun:
                self._report(session, now_ns)
                self._wait([listener], now_ns, now_ns + self._rests_ns if self._was_busy else 0)
            else:
                session.ready(self.is_settled)
                self._wait([listener, *session.changes], now_ns, 0)
        self._take_samples()
        report_sent(session, {index: one.given() for index, one in self.sources.items() if not one.has_reported})
        session.received({index: target.taken() for index, target in self.targets.items()})

    def _begin(self, begin_ns: int) -> bool:
        """Prepare all flows, if it is known when they begin."""
        if begin_ns:
            self.connect(begin_ns)
            self._make_askers(begin_ns)
            for source in self.sources.values():
                source.begin(begin_ns)
        return bool(begin_ns)

    def _make_askers(self, begin_ns: int) -> None:
        for index, flow in self.flows.items():
            if transport_of(flow).operation == Operation.READ:
                if (target := self.targets.get(index)) is not None and target.pair is not None:
                    self._askers[index] = Asker(flow, target.pair, target.sink, begin_ns)
            elif (source := self.sources.get(index)) is not None and source.pair is not None:
                waits_for = [self.targets[other] for other in transport_of(flow).after]
                self._askers[index] = Asker(flow, source.pair, source.content, begin_ns, waits_for)

    # Datagrams

    def _take(self, receiver: mmsg.Receiver, many: int, offset_ns: int) -> None:
        """The datagrams of a batch, those of each queue pair in their order."""
        lengths, arrivals = receiver.lengths(many), receiver.arrivals(many, since_ns=offset_ns)
        ds_fields = receiver.ds_fields(many)
        ecn = ds_fields.translate(_ECN)
        usual = max(range(4), key=ecn.count)
        others = {place for place, length in enumerate(lengths) if length != self._full}
        if ecn.count(usual) != many:
            others.update(place for place, field in enumerate(ecn) if field != usual)
        places_of = _places_by_queue_pair(receiver.part(0, 0, many))
        for queue_pair, places in places_of.items():
            target = self.target_of.get(queue_pair)
            strange = sorted(map(places.index, others.intersection(places)))
            done = 0
            while done < len(places):
                end, taken = next((one for one in strange if one >= done), len(places)), 0
                if end > done and usual != _CE and target is not None and target.pair is not None:
                    taken = target.pair.receive_run(_run_of(receiver, places[done:end]))
                if target is not None and taken:
                    target.count_run(self._full + target.headers, usual, _picked(arrivals, places[done : done + taken]))
                    done += taken
                    continue
                place = places[done]
                at_ns = max(arrivals[place], self._now_ns)
                before = _progress(target)
                self.host.receive(receiver.datagram(place, lengths[place]), ds_fields[place], at_ns)
                if target is not None and _progress(target) != before:
                    target.count(lengths[place] + target.headers, ecn[place], arrivals[place])
                done += 1

    def _send(self, now_ns: int) -> None:
        host = self.host
        if self.manager.waiting or host.management_deadline_ns <= now_ns:
            self.manager.send(list(host.management(now_ns)))
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
                    run = pair.transmit_run(now_ns)
                    if run is not None:
                        way.send_run(pair.far_address, run)
                        self._was_busy = True
                        if way.waiting:
                            break
                for outgoing in host.outgoing_of(pair, now_ns, self._at_once):
                    self._way(outgoing, pair).send([outgoing])
                way = self._ways.get((pair.number, DatagramKind.DATA))
                if pair.deadline_ns > now_ns or (way is not None and way.waiting):
                    break

    def _way(self, outgoing: Outgoing, pair: QueuePair) -> Way:
        number = pair.number
        key = number, outgoing.kind
        way = self._ways.get(key)
        if way is None:
            flow = self.flow_of(number)
            transport = transport_of(flow)
            is_ipv6, label = ":" in outgoing.to, label_of(flow, pair)
            if outgoing.kind is DatagramKind.DATA:
                usual = FAST_SEND_BUFFER if self._rests_ns else SEND_BUFFER
                buffer = flow.buffer.bytes if flow.buffer else usual
                is_target = number in self.target_of
                priority = far_priority(flow) if is_target else flow.priority
                ds = far_ds_field(flow) if is_target else ds_field(flow)
                way = Way(outgoing.source_port, priority, ds, buffer, is_ipv6=is_ipv6, flow_label=label)
            else:
                priority, ds = transport.cnp_priority, cnp_ds_field(transport)
                way = Way(outgoing.source_port, priority, ds, SEND_BUFFER, is_ipv6=is_ipv6, flow_label=label)
            self._ways[key] = way
        return way

    # Flows

    def _take_samples(self) -> None:
        sampled = [source for source in self.sources.values() if source.sample_ns]
        if sampled:
            with observing():
                now_ns = time.monotonic_ns()
            for source in sampled:
                source.take_samples(now_ns)

    def _report(self, session: EndpointControl, now_ns: int) -> None:
        sending = session.sending
        for asker in self._askers.values():
            if not asker.is_over:
                asker.post(now_ns, sending)
        for index, source in self.sources.items():
            if source.pair is None:
                continue
            if source.has_reported:
                continue
            own = self._askers.get(index)
            session.count_sent(index, source.pair.counters.fresh)
            if own.is_over if own is not None else source.has_been_read:
                source.has_reported = True
                report_sent(session, {index: source.given()})
        for index, target in self.targets.items():
            session.count_received(index, target.packets)

    def _wait(self, wakers: Sequence[socket.socket | int], now_ns: int, rests_until_ns: int) -> None:
        """Wait until a datagram comes, a socket has room again, or something is due.

        On a fast line, after datagrams came or packets were sent, no datagrams wake the process for a moment: as with
        a card's interrupt moderation, one wake-up is for several. Packets are due again after the same time.
        """
        due_ns = min(now_ns + _LOOK_NS, self.host.management_deadline_ns)
        blocked = [self.manager.socket] if self.manager.waiting else []
        for pair in self.host.queue_pairs.values():
            way = self._ways.get((pair.number, DatagramKind.DATA))
            if way is not None and way.waiting:
                blocked.append(way.socket)
            else:
                due_ns = min(due_ns, pair.deadline_ns)
        for asker in self._askers.values():
            due_ns = min(due_ns, asker.deadline_ns(now_ns))
        rests = rests_until_ns > now_ns
        if rests:
            due_ns = min(due_ns, rests_until_ns)
        if due_ns <= now_ns:
            return
        self._timer.set(due_ns)
        kernel.wait_readable([self._timer.fd] if rests else [*wakers, self._timer.fd], writable=blocked)


def _progress(target: Target | None) -> tuple[int, int]:
    """Return what grows when a packet of data is taken, or is kept until those before it come."""
    if target is None or target.pair is None:
        return 0, 0
    if target.pair.service is not Service.RC:
        return target.pair.counters.received_packets, 0  # what is dropped then has come, too
    return target.sink.received, target.pair.counters.kept


def _places_by_queue_pair(heads: bytes) -> dict[int, Sequence[int]]:
    """The places of the datagrams of each queue pair, in the order in which they came first."""
    found: dict[int, list[int]] = {}
    words = memoryview(heads).cast("I")[1::3].tolist()
    if words.count(words[0]) == len(words):
        return {_queue_pair(words[0]): range(len(words))}
    for place, word in enumerate(words):
        found.setdefault(word, []).append(place)
    return {_queue_pair(word): places for word, places in found.items()}


def _queue_pair(word: int) -> int:
    """The number in the second word of a BTH, which was read in this machine's order of octets."""
    return int.from_bytes(word.to_bytes(4, sys.byteorder)[1:], "big")


def _is_row(places: Sequence[int]) -> bool:
    return places[-1] - places[0] + 1 == len(places)


def _picked(values: Sequence[int], places: Sequence[int]) -> Sequence[int]:
    return values[places[0] : places[-1] + 1] if _is_row(places) else [values[place] for place in places]


def _run_of(receiver: mmsg.Receiver, places: Sequence[int]) -> PacketRun:
    """Datagrams of a batch, which are as long as full packets."""
    if _is_row(places):
        heads, payload, ends = (receiver.part(number, places[0], places[-1] + 1) for number in range(3))
    else:
        heads, payload, ends = (
            b"".join([receiver.part(number, place, place + 1) for place in places]) for number in range(3)
        )
    icrcs = memoryview(ends).cast("I")[:: _LONGEST_END // ICRC_OCTETS].tobytes()
    return PacketRun(len(payload) // len(places), heads, payload, icrcs)
