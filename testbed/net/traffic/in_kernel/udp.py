"""The process of a host whose UDP flows the kernel serves: it opens the sockets, and reports.

Only the kernel of the engine `um` can do that; otherwise the processes of `testbed.net.traffic.udp` do all of it, and
that module says what each count means. From the begin of the flows on this process sleeps until one of them is at its
end. If it is killed, the kernel ends all flows of the host.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import asdict
from typing import Any

from testbed.linux.process import kernel
from testbed.linux.udp_device import Sending, UdpDevice
from testbed.net.traffic import udp_sockets
from testbed.net.traffic.transport import Endpoint, EndpointControl


class KernelEndpoint(Endpoint):
    """All UDP flows of one host."""

    def open(self) -> None:
        for index in self.receives:
            self.sockets.append(udp_sockets.receiving(index))
        for index in self.sends:
            self.sockets.append(udp_sockets.sending(index, self.flows[index], self.lines[index]))

    def run(self, session: EndpointControl) -> None:
        with closing(UdpDevice(session.counters, len(self.sends), len(self.receives))) as device:
            sockets = iter(self.sockets)
            receivers = {index: device.receive(next(sockets), session.places(index)[1]) for index in self.receives}
            session.ready()
            begin_ns = session.begin_ns()
            for index, udp in zip(self.sends, sockets, strict=True):
                device.send(udp, self._sending(index, begin_ns, session.places(index)[0]))
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

    def _sending(self, index: int, begin_ns: int, sent_at: int) -> Sending:
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
