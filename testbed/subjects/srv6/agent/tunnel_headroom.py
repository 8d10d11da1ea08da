"""The headroom that the far end of a reverse tunnel needs, measured through the tunnel (decision 0147).

The headroom proposal's measurement, with requests that go where PFC frames go, inside the tunnel, and responses that
come back by the same routers. T1 is when a request leaves; how long it takes from a threshold that is passed until an
XOFF leaves is added. T2 is when a PFC frame in its place would have stopped J's queue; T4 is the kernel's stamp.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from dataclasses import replace
from ipaddress import IPv6Address
from typing import Any

from testbed.agent.speaker.headroom import timed_write
from testbed.frames import Mac, ipv6
from testbed.frames.headroom import MeasurementFrameError, MeasurementRequest, parse
from testbed.frames.ipv6 import Packet
from testbed.frames.srh import Srh
from testbed.linux.sockets import stamped
from testbed.subjects.srv6.protocol.endx_pfc import Measure
from testbed.subjects.srv6.protocol.reverse_tunnel import NETWORK_CONTROL, Encapsulator, ReverseTunnel
from testbed.switch.headroom.exchange import Responder, Settings
from testbed.switch.headroom.measurement import Measurer
from testbed.switch.headroom.samples import Measurement
from testbed.units import NEVER, Duration

_LONGEST = 2048
_MOST_WAYS = 64
_SETTINGS = Settings(samples=8, enough=4, interval_ns=20_000_000, repeat_ns=10_000_000_000, stamp_lag_ns=100_000_000)
_SPARE_NS = 1_000_000_000

Send = Callable[[bytes], None]
Found = Callable[[str | None, Duration], None]


class TunnelHeadroom:
    """The measurement through the tunnels of one router."""

    def __init__(self, source: IPv6Address, mac: Mac, send: Send, found: Found) -> None:
        """`send` sends a packet; `found` gets the round trip for an interface, which is None for any interface."""
        self._source, self._mac, self._send, self._found = source, mac, send, found
        self._measurers: dict[object, tuple[Encapsulator, Measurer]] = {}
        self._responders: dict[tuple[IPv6Address, ...], Responder] = {}
        """The responders by the way back: each tunnel has series of its own."""
        self._seen: dict[object, Measurement] = {}
        self._first: set[object] = set()
        """The tunnels that have been measured once, which does not count."""
        self._answers = socket.socket(socket.AF_INET6, socket.SOCK_RAW, ipv6.ETHERNET)
        self._answers.setblocking(False)
        self._answers.bind((str(source), 0))
        stamped.enable(self._answers)
        self.reaction_ns = 0
        """The longest time from a threshold that was passed to the XOFF for it."""
        self.obeying_ns = 0
        """The longest time from a PFC frame that came out of a tunnel until its queue was stopped."""

    @property
    def fd(self) -> int:
        return self._answers.fileno()

    @property
    def deadline_ns(self) -> int:
        due = [measurer.deadline() for _, measurer in self._measurers.values()]
        return min((at for at in due if at is not None), default=NEVER)

    def add(self, tunnel: ReverseTunnel, packets: Encapsulator, now_ns: int) -> None:
        """Measure through a tunnel, now and on schedule."""
        timeout_ns = 4 * (tunnel.delay_ns or 0) + _SPARE_NS
        seed = b"".join(segment.packed for segment in tunnel.segments)[-32:]
        name = f"{tunnel.router} to {tunnel.pauses}"
        measurer = Measurer(name, self._mac, seed, replace(_SETTINGS, timeout_ns=timeout_ns))
        measurer.link(True, now_ns)
        measurer.announced(True, True, now_ns)
        self._measurers[tunnel.identity] = packets, measurer

    def remove(self, tunnel: ReverseTunnel) -> None:
        self._measurers.pop(tunnel.identity, None)
        self._seen.pop(tunnel.identity, None)
        self._first.discard(tunnel.identity)

    def expire(self, now_ns: int) -> None:
        """Send what is due, and pass on what has been found."""
        for packets, measurer in list(self._measurers.values()):
            due_ns = measurer.deadline()
            if due_ns is None or due_ns > now_ns:
                continue
            output = timed_write(measurer.poll, measurer.take_back)
            if output.request is not None:
                self._send(packets.carrying(output.request))
            self._look(packets.tunnel, measurer)

    def _look(self, tunnel: ReverseTunnel, measurer: Measurer) -> None:
        """Pass on what is new."""
        measurement, before = measurer.status.measurement, self._seen.get(tunnel.identity)
        if measurement is None or measurement is before:
            return
        self._seen[tunnel.identity] = measurement
        if before is None:  # routers on the way had to find their neighbours
            measurer.measure(time.monotonic_ns())
            self._first.add(tunnel.identity)
        else:
            self._first.discard(tunnel.identity)
            self._tell(tunnel)

    def answer(self, asked: Measure, now_ns: int) -> None:
        """Answer a request that has come out of a tunnel by the way that it came."""
        responder = self._responders.get(asked.back)
        if responder is None:
            if len(self._responders) >= _MOST_WAYS:
                return
            responder = self._responders[asked.back] = Responder(self._mac, _SETTINGS, b"")
        try:
            request = parse(asked.frame)
        except MeasurementFrameError:
            return
        if not isinstance(request, MeasurementRequest):
            return
        effective_ns = now_ns + self.obeying_ns
        if responder.accept(request, now_ns, effective_ns) is not None:
            return  # asked before, or too often
        time.sleep(max(0, effective_ns - time.monotonic_ns()) / 1e9)  # T3 is not before T2

        def write(moment_ns: int) -> list[bytes]:
            return [self._backwards(asked, frame) for frame in responder.poll(moment_ns)]

        for packet in timed_write(write, lambda _: responder.take_back()):
            self._send(packet)

    def receive(self, now_ns: int) -> None:
        """Process a response."""
        while True:
            try:
                frame, arrived_ns = stamped.receive(self._answers, _LONGEST)
            except BlockingIOError:
                return
            now_ns = time.monotonic_ns()
            for _, measurer in self._measurers.values():
                if measurer.receive(frame, now_ns, arrived_ns) is None:
                    break

    def snapshot(self) -> list[dict[str, Any]]:
        return [
            {
                **measurer.status.reading(),
                "reaction_ns": self.reaction_ns,
                **measurer.snapshot(),
            }
            for _, measurer in self._measurers.values()
        ]

    def _tell(self, tunnel: ReverseTunnel) -> None:
        """Pass on the longest round trip of all tunnels of this interface."""
        trips = [
            found.needed.ns
            for packets, measurer in self._measurers.values()
            if packets.tunnel.interface == tunnel.interface and packets.tunnel.identity not in self._first
            if (found := measurer.status.measurement) is not None
        ]
        self._found(tunnel.interface, Duration.from_ns(max(trips) + self.reaction_ns))

    def _backwards(self, asked: Measure, frame: bytes) -> bytes:
        headers = Srh.along(asked.back, ipv6.ETHERNET, done=1).encode()
        return Packet(
            self._source, asked.back[1], ipv6.ROUTING, headers + frame, traffic_class=NETWORK_CONTROL
        ).encode()
