"""The process that receives at all test ports: it counts, captures, and answers for emulated devices."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection

from testbed.frames.roce import PORT as ROCE_PORT
from testbed.linux.process import kernel
from testbed.linux.sockets import packet_filter
from testbed.linux.sockets.packet_tap import PacketTap, Tapped
from testbed.linux.sockets.raw_socket import RawSocket
from testbed.net.traffic.roce_connections import FIRST_SERVICE
from testbed.subjects.snappi.config import TestPlan
from testbed.subjects.snappi.counting import Receipts, Tallies
from testbed.subjects.snappi.devices import Neighbours, Resolver
from testbed.subjects.snappi.lab.place import Place
from testbed.subjects.snappi.packet import FCS
from testbed.subjects.snappi.roce_counting import HEAD as ROCE_HEAD
from testbed.subjects.snappi.roce_counting import FlowCounts, RoceCounts, WireFrame

_LOOK_S = 0.1
_LONGEST = 9344
"""The most octets of a frame that are read and captured: more than any MTU here."""
_MOST_CAPTURED = 1 << 20
"""The most frames of a capture. Later ones take the place of the first."""


@dataclass
class _Port:
    """A port from which the receiver receives."""

    name: str
    tap: PacketTap
    socket: RawSocket
    resolver: Resolver
    roce: PacketTap | None = None
    """A tap for RoCEv2 in both directions, where there is some."""
    captured: list[Tapped] = field(default_factory=list)
    is_capturing: bool = False


class Receiver:
    """The receiver, in a process of its own. Its sockets are in the hosts' namespaces."""

    def __init__(self, plan: TestPlan, places: Mapping[str, Place], tallies: Tallies, pipe: Connection) -> None:
        self._plan, self._tallies, self._pipe = plan, tallies, pipe
        octet_ps = {name: place.line.octets_ps(1) for name, place in places.items()}
        counted = {flow.name: tallies.received[f"flow {flow.name}"] for flow in plan.flows}
        self._receipts = Receipts(plan.flows, counted, octet_ps)
        self._addresses: dict[str, set[bytes]] = {}
        for flow in plan.roce.connections:
            for port, address in ((flow.tx_port, flow.pair.address), (flow.rx_port, flow.pair.destination)):
                self._addresses.setdefault(port, set()).add(address.packed)
        self._roce = RoceCounts(plan.roce, FIRST_SERVICE)
        self._later: list[WireFrame] = []
        self._ports = {name: self._open(name, place) for name, place in places.items()}

    def _open(self, name: str, place: Place) -> _Port:
        devices = [device for device in self._plan.devices if device.port == name]
        with kernel.in_network_of(place.pid):
            takes = packet_filter.resolving_addresses() if devices else None
            roce = None
            if name in self._addresses:
                roce = PacketTap(place.interface, packet_filter.of_udp_port(ROCE_PORT), outgoing=True)
            return _Port(name, PacketTap(place.interface), RawSocket(place.interface, takes), Resolver(devices), roce)

    def run(self) -> None:
        """Run until the pipe is closed."""
        self._pipe.send("ready")
        by_socket = {port.socket.fileno(): port for port in self._ports.values() if port.resolver.devices}
        self._resolve()
        while True:
            ready = kernel.wait_readable([self._pipe, *by_socket], _LOOK_S)
            for one in ready:
                if one in by_socket:
                    self._answer(by_socket[one])
                    continue
                try:
                    do, arguments = self._pipe.recv()
                except EOFError:
                    return
                self._drain()
                self._pipe.send(getattr(self, f"do_{do}")(*arguments))
            if not ready:
                self._drain()

    def do_count(self) -> None:
        """Count all frames that have come so far, before the answer."""

    def do_capture(self, names: Sequence[str], is_on: bool) -> None:
        for name in names:
            port = self._ports[name]
            if is_on and not port.is_capturing:
                port.captured = []
            port.is_capturing = is_on

    def do_captured(self, name: str) -> tuple[list[Tapped], bool]:
        """Return the captured frames, and whether the capture goes on."""
        port = self._ports[name]
        return port.captured, port.is_capturing

    def do_protocols(self, is_on: bool) -> None:
        for port in self._ports.values():
            port.resolver.switch(is_on)
        self._resolve()

    def do_neighbours(self) -> Neighbours:
        """Return the resolved neighbours, and ask for the others once more."""
        self._resolve()
        return {key: mac for port in self._ports.values() for key, mac in port.resolver.neighbours.items()}

    def do_roce(self) -> tuple[dict[int, FlowCounts], dict[str, Counter[str]], set[int]]:
        """Return the counters of RoCEv2 by flow and by peer, and the flows whose queue pairs are connected."""
        return self._roce.shown(time.monotonic_ns()), self._roce.messages, self._roce.up

    def do_roce_begin(self, numbers: Sequence[int]) -> None:
        """Begin to count flows whose connections are made anew."""
        self._roce.begin(numbers)

    def do_roce_disconnect(self) -> None:
        """Take all queue pairs for down."""
        self._roce.disconnect()

    def _resolve(self) -> None:
        for port in self._ports.values():
            self._send(port, port.resolver.requests())

    def _answer(self, port: _Port) -> None:
        while (received := port.socket.receive()) is not None:
            self._send(port, port.resolver.receive(received[0]))

    def _send(self, port: _Port, frames: Sequence[bytes]) -> None:
        padded = [frame.ljust(60, b"\0") for frame in frames]
        if padded and port.socket.send(padded):
            now_ns = time.monotonic_ns()
            for frame in padded:
                self._tallies.sent[f"resolver {port.name}"].count(now_ns, len(frame) + FCS)

    def _drain(self) -> None:
        offset_ns = time.time_ns() - time.monotonic_ns()  # taps have the time of day
        for port in self._ports.values():
            tally = self._tallies.received[f"port {port.name}"]
            for tapped in port.tap.fetch(_LONGEST):
                t_ns = tapped.t_ns - offset_ns
                tally.count(t_ns, tapped.length + FCS)
                self._receipts.count(port.name, t_ns, tapped.length, tapped.octets)
                if port.is_capturing:
                    self._keep(port, tapped)
        self._count_roce(offset_ns)

    def _count_roce(self, offset_ns: int) -> None:
        """Count the frames of RoCEv2 at all ports in the order of their times: each is sent before it arrives.

        What comes while the ports are asked one after the other is counted the next time: it might arrive unsent.
        """
        until_ns = time.monotonic_ns()
        found = self._later + [
            WireFrame(tapped.t_ns - offset_ns, port.name, tapped.length, tapped.octets)
            for port in self._ports.values()
            if port.roce is not None
            for tapped in port.roce.fetch(ROCE_HEAD)
        ]
        self._later = [frame for frame in found if frame.t_ns > until_ns]
        for frame in sorted(found, key=lambda one: one.t_ns):
            if frame.t_ns <= until_ns and self._roce.count(frame, self._addresses[frame.port]):
                self._tallies.sent[f"roce {frame.port}"].count(frame.t_ns, frame.length + FCS)

    def _keep(self, port: _Port, tapped: Tapped) -> None:
        capture = self._plan.captures[port.name]
        if len(port.captured) >= _MOST_CAPTURED:
            if not capture.overwrite:
                return
            del port.captured[: _MOST_CAPTURED // 16]
        port.captured.append(tapped)
