"""Transport `udp`: numbered datagrams, counted one by one at both ends. Only the lab can run it.

A flow sends as fast as its port takes frames, or at its rate. Each datagram has a number, so the receiver counts which
are missing, doubled or out of order. What the ends count is independent of the port program.

Runs in C: `testbed/lab/um/linux/xoff_udp_kern.c`.
"""

from __future__ import annotations

import select
import socket
import struct
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from operator import sub
from typing import Any

from testbed.errors import UsageError
from testbed.linux import udp_device
from testbed.linux.sockets import mmsg
from testbed.net.fabric.cable import MTU, MTUS
from testbed.net.fabric.core import FabricCore
from testbed.net.traffic import udp_sockets
from testbed.net.traffic.flow import Flow
from testbed.net.traffic.in_kernel.udp import KernelEndpoint
from testbed.net.traffic.report import WINDOW_NS, WIRE_OCTETS, Gaps, Report
from testbed.net.traffic.transport import (
    Endpoint,
    EndpointControl,
    Outcome,
    Transport,
    by_host,
    check_version,
    in_groups,
    more_octets,
    register,
)
from testbed.net.traffic.udp_sockets import at_once, datagrams, gap_ps, payload
from testbed.units import Duration, Rate, Size

_NUMBER, _SENT_NS = 0, 1
"""Words of a datagram: its number, and when it was sent."""
_ETHERNET = 14
"""Octets of Ethernet, IPv4 and UDP headers in a frame."""
_SHORTEST, _LONGEST = Size("60B"), Size.from_bytes(MTUS[-1] + 14)
_SO_SNDTIMEO = 21
_POLL_S = 0.02
_LOOK_NS = 50_000_000
"""The interval at which a sender that is blocked, or waits for its line, checks whether it has to end."""


@dataclass(frozen=True)
class Udp(Transport):
    """Numbered datagrams; the sender has a fixed rate or that of its port."""

    ip_version: int | None = None
    """4 or 6. None: 4 if both ends have an IPv4 address, else 6."""

    name = "udp"
    port_rules = ()

    def check(self, flow: Flow) -> None:
        check_version(self.ip_version)
        if not _SHORTEST <= flow.frame <= _LONGEST:
            raise UsageError(
                f"its frames are {flow.frame} long; without FCS {_SHORTEST} to {_LONGEST} are possible: the shortest "
                "that has a number and a time, and the longest of any link"
            )
        if flow.rate_control not in (None, "fixed"):
            raise UsageError(f"rate_control is {flow.rate_control!r}; transport udp has 'fixed' only")

    @classmethod
    def endpoints(cls, flows: Mapping[int, Flow]) -> Sequence[Endpoint]:
        """Return the endpoints of hosts if the kernel serves flows; otherwise one receiver for each target, and one
        sender for each flow.
        """
        ports = FabricCore.current().ports.by_node()
        for flow in flows.values():
            if flow.frame < _SHORTEST + Size.from_bytes(more_octets(flow)):
                raise UsageError(
                    f"flow from {flow.source}: its frames are {flow.frame} long; over IPv6 "
                    f"{_SHORTEST + Size.from_bytes(more_octets(flow))} is the shortest that has a number and a time"
                )
            _require_mtu(flow, min((port.lab_cable.mtu for port in ports.get(flow.source.name, ())), default=MTU))
        if udp_device.is_there():
            return in_kernel(flows)
        targets: dict[str, list[int]] = {}
        for index, flow in flows.items():
            targets.setdefault(flow.target.name, []).append(index)
        receivers = [_Receiver(flows[indices[0]].target, flows, (), indices) for indices in targets.values()]
        return [*receivers, *(_Sender(flow.source, flows, [index], ()) for index, flow in flows.items())]

    def best(self, flow: Flow, rate: Rate, delay: Duration) -> Duration | None:
        return rate.time_for((flow.frame + Size.from_bytes(WIRE_OCTETS)) * (datagrams(flow) - 1)) + delay

    def ports(self, flow: Flow, index: int, report: Report) -> Sequence[tuple[int, int, int, int]]:
        return [(flow.source_port, udp_sockets.FIRST_PORT + index, 0, 0)] if isinstance(flow.source_port, int) else []

    def report(self, flow: Flow, outcome: Outcome) -> Report:
        counted = outcome.receiver
        distinct = counted["received"] - counted["doubled"]
        return Report(
            sent=outcome.sent,
            received=distinct,
            lost=outcome.sent - distinct,
            doubled=counted["doubled"],
            out_of_order=counted["out_of_order"],
            reordered=counted["out_of_order"],
            reordering_extent=counted["extent"],
            ecn=tuple(counted["ecn"]),
            octets=distinct * flow.frame.bytes,
            first_lab_ns=counted["first_ns"],
            last_lab_ns=counted["last_ns"],
            worst_delay_lab_ns=counted["worst_delay_ns"],
            windows=tuple(counted["windows"]),
            begin_lab_ns=outcome.begin_ns,
        )


def in_kernel(flows: Mapping[int, Flow]) -> Sequence[Endpoint]:
    """Return the endpoints of all hosts that are here."""
    return [KernelEndpoint(group, flows) for group in in_groups(by_host(flows))]


def _require_mtu(flow: Flow, mtu: int) -> None:
    """A frame that is too long for its host's port would go out as fragments."""
    if flow.frame.bytes > mtu + _ETHERNET:
        raise UsageError(
            f"flow from {flow.source}: its frames are {flow.frame} long, and with the MTU of its link, {mtu}, "
            f"{mtu + _ETHERNET}B is the longest without fragments; Cable(..., mtu={flow.frame.bytes - _ETHERNET}) "
            "takes such frames"
        )


class _Sender(Endpoint):
    def open(self) -> None:
        (index,) = self.sends
        self.sockets.append(udp_sockets.sending(index, self.flows[index], self.lines[index]))

    def run(self, session: EndpointControl) -> None:
        (index,), (udp,) = self.sends, self.sockets
        flow, line = self.flows[index], self.lines[index]
        with udp:
            batch = mmsg.Sender(udp, payload(flow), at_once(flow))
            most = datagrams(flow)
            datagram_ps = gap_ps(flow)
            frame_ns = line.frame_ns(flow.frame)
            number, wait_ns, clock = 0, 0, time.monotonic_ns
            _number(batch, 0, 1, clock())
            batch.send(0)  # what runs for the first time takes long: the first datagram would be late
            session.ready()
            begin_ns = session.begin_ns() + flow.start.ns
            end_ns = begin_ns + flow.duration.ns if flow.duration else 2**62
            time.sleep(max(0, begin_ns - time.monotonic_ns()) / 1e9)
            udp.setsockopt(socket.SOL_SOCKET, _SO_SNDTIMEO, struct.pack("=qq", 0, _LOOK_NS // 1000))
            while number < most and session.sending:
                now_ns = clock()
                if now_ns >= end_ns:
                    break
                if datagram_ps:
                    due_ns = begin_ns + number * datagram_ps // 1000
                    if due_ns > now_ns:
                        if due_ns >= end_ns:
                            break
                        time.sleep((due_ns - now_ns) / 1e9)
                        now_ns = clock()
                # Who waits for the line gives it frame by frame, as evenly as it sends.
                many = min(1 if wait_ns else batch.most, most - number)
                wait_ns = line.take(now_ns, many * frame_ns)
                turn_ns = min(now_ns + wait_ns, end_ns)
                while now_ns < turn_ns and session.sending:
                    time.sleep(min(turn_ns - now_ns, _LOOK_NS) / 1e9)
                    now_ns = clock()
                _number(batch, number, many, now_ns)
                sent = batch.send(many) if session.sending and now_ns < end_ns else 0
                line.give_back((many - sent) * frame_ns)
                number += sent
                session.count_sent(index, number)
            session.sent({index: None})


def _number(batch: mmsg.Sender, first: int, many: int, now_ns: int) -> None:
    batch.write(_NUMBER, range(first, first + many), many)
    batch.write(_SENT_NS, repeat(now_ns, many), many)


class _Receiver(Endpoint):
    def open(self) -> None:
        for index in self.receives:
            udp = udp_sockets.receiving(index, self.flows[index])
            self.sockets.append(udp)
            udp.setsockopt(socket.SOL_SOCKET, mmsg.SO_TIMESTAMPNS, 1)
            if self.flows[index].ecn is None:
                continue
            if udp.family == socket.AF_INET6:
                udp.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVTCLASS, 1)
            else:
                udp.setsockopt(socket.IPPROTO_IP, socket.IP_RECVTOS, 1)

    def run(self, session: EndpointControl) -> None:
        sockets = dict(zip(self.receives, self.sockets, strict=True))
        batches = {index: mmsg.Receiver(udp, udp_sockets.BATCH) for index, udp in sockets.items()}
        counts = {index: _Count(self.flows[index].ecn is not None) for index in self.receives}
        waiting = select.poll()  # select() takes no descriptor above 1023, and large networks have them
        for udp in sockets.values():
            waiting.register(udp, select.POLLIN)
        session.ready()
        while True:
            last = not session.receiving
            readable = {file for file, _ in waiting.poll(0)}
            for index, udp in sockets.items():
                if udp.fileno() in readable:
                    counts[index].drain(batches[index])
                    session.count_received(index, counts[index].received)
            if last:
                break
            time.sleep(_POLL_S)
        session.received({index: count.plain() for index, count in counts.items()})


class _Count:
    """The counters of one flow's receiver."""

    def __init__(self, wants_ecn: bool) -> None:
        self._wants_ecn = wants_ecn
        self.received = self.doubled = self.out_of_order = self.extent = 0
        self.ecn = [0] * 4
        self.first_ns = self.last_ns = self.worst_delay_ns = 0
        self._highest = -1
        self._missing = Gaps()
        self._window_end_ns = 0
        self._offset_ns = time.time_ns() - time.monotonic_ns()  # the kernel stamps datagrams with the time of day
        self.windows: list[int] = []

    def drain(self, batch: mmsg.Receiver) -> None:
        """Read and count everything that waits; datagrams in order, which most are, are looked at together."""
        while many := batch.receive():
            numbers, first = batch.words(_NUMBER, many), self._highest + 1
            if numbers == list(range(first, first + many)):
                self._highest += many
            else:
                for place, number in enumerate(numbers):
                    self._count(number, self.received + place - self.doubled)
            self.received += many
            arrivals = list(map(sub, batch.arrivals(many), repeat(self._offset_ns)))
            self.worst_delay_ns = max(self.worst_delay_ns, *map(sub, arrivals, batch.words(_SENT_NS, many)))
            self.last_ns = arrivals[-1]
            if self.last_ns < self._window_end_ns:
                self.windows[-1] += many
            else:
                for arrived_ns in arrivals:
                    if arrived_ns >= self._window_end_ns:
                        self._next_window(arrived_ns)
                    self.windows[-1] += 1
            if self._wants_ecn:
                for octet in batch.ds_fields(many):
                    self.ecn[octet & 3] += 1

    def _count(self, number: int, distinct: int) -> None:
        """Count one datagram, which is the next one, ahead of missing ones, late, or a duplicate; `distinct` have come
        before.
        """
        if number > self._highest:
            self._missing.add(self._highest + 1, number, distinct)
            self._highest = number
        elif (since := self._missing.fill(number)) is not None:
            self.out_of_order += 1
            self.extent = max(self.extent, distinct - since)
        else:
            self.doubled += 1

    def _next_window(self, arrived_ns: int) -> None:
        if not self.first_ns:
            self.first_ns = self._window_end_ns = arrived_ns
        while arrived_ns >= self._window_end_ns:
            self._window_end_ns += WINDOW_NS
            self.windows.append(0)

    def plain(self) -> dict[str, Any]:
        names = (
            "received", "doubled", "out_of_order", "extent", "ecn", "first_ns", "last_ns", "worst_delay_ns", "windows",
        )  # fmt: skip
        return {name: getattr(self, name) for name in names}


register(Udp())
