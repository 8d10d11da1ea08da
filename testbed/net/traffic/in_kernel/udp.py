"""The process of hosts whose UDP flows the kernel serves: it has their sockets, and reports.

Only the kernel of the engine `um` can do that; otherwise the processes of `testbed.net.traffic.udp` do all of it, and
that module says what each count means. From the begin of the flows on this process sleeps until one of them is at its
end. If it is killed, the kernel ends all flows of these hosts.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from contextlib import closing, nullcontext
from dataclasses import asdict
from typing import Any

from testbed.errors import listed
from testbed.linux.process import kernel
from testbed.linux.udp_device import Sending, UdpDevice
from testbed.net.traffic import udp_sockets
from testbed.net.traffic.flow import Flow
from testbed.net.traffic.transport import Endpoint, EndpointControl


class KernelEndpoint(Endpoint):
    """All UDP flows of some hosts."""

    def __init__(self, hosts: Sequence[tuple[Any, list[int], list[int]]], flows: Mapping[int, Flow]) -> None:
        """`hosts` are these hosts with the flows that each sends, and receives."""
        super().__init__(
            hosts[0][0], flows, [one for _, sends, _ in hosts for one in sends],
            [one for _, _, receives in hosts for one in receives],
        )  # fmt: skip
        self.place = listed((node.name for node, _, _ in hosts), most=1)
        self._hosts = hosts
        self._receiving: dict[int, socket.socket] = {}
        self._sending: dict[int, socket.socket] = {}

    def open(self) -> None:
        for node, sends, receives in self._hosts:
            with nullcontext() if node is self.node else kernel.in_network_of(node.pid):
                for index in receives:
                    self._receiving[index] = udp_sockets.receiving(index, self.flows[index])
                for index in sends:
                    self._sending[index] = udp_sockets.sending(index, self.flows[index], self.lines[index])
        self.sockets += [*self._receiving.values(), *self._sending.values()]

    def run(self, session: EndpointControl) -> None:
        with closing(UdpDevice(session.counters, len(self.sends), len(self.receives))) as device:
            receivers = {index: device.receive(udp, session.places(index)[1]) for index, udp in self._receiving.items()}
            session.ready()
            begin_ns = session.begin_ns()
            for index, udp in self._sending.items():
                device.send(udp, self._described(index, begin_ns, session.places(index)[0]))
            has_told = is_stopped = False
            while session.receiving:
                if not session.sending and not is_stopped:
                    is_stopped = True
                    device.stop()
                if all(device.ended()) and not has_told:
                    has_told = True
                    session.sent(dict.fromkeys(self.sends))
                kernel.wait_readable([device.fd, *session.changes])
            session.received({index: self._counted(index, number, device) for index, number in receivers.items()})

    def _described(self, index: int, begin_ns: int, sent_at: int) -> Sending:
        flow, line = self.flows[index], self.lines[index]
        begin_ns += flow.start.ns
        return Sending(
            payload=udp_sockets.payload(flow),
            at_once=udp_sockets.at_once(flow),
            most=udp_sockets.datagrams(flow),
            begin_ns=begin_ns,
            end_ns=begin_ns + flow.duration.ns if flow.duration else 2**62,
            gap_ps=udp_sockets.gap_ps(flow),
            frame_ns=line.frame_ns(flow.frame),
            held_ns=line.held_ns,
            sent_at=sent_at,
            line_at=line.place,
        )

    def _counted(self, index: int, number: int, device: UdpDevice) -> dict[str, Any]:
        found = asdict(device.report(number))
        if self.flows[index].ecn is None:
            found["ecn"] = (0, 0, 0, 0)
        return found
