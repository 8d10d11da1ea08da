"""The connections of the RoCE flows of one host, which are made before the flows begin, or when a flow does, and the
sockets of its RoCE: one that takes the datagrams of port 4791, and one for each that sends. A host with flows over IPv6
takes those of both IP versions by a socket of IPv6.

Sockets are not connected, so that datagrams have identification 0, which the ICRC covers. They have no UDP checksum,
as those of adapters: the ICRC is the stronger one.
"""

from __future__ import annotations

import errno
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from testbed.frames.roce import BTH_OCTETS, ICRC_OCTETS, PORT, Service
from testbed.frames.roce_cm import CM_QP
from testbed.frames.roce_run import PacketRun
from testbed.linux.sockets import mmsg
from testbed.net.fabric.core import FabricCore
from testbed.net.fabric.ports import address_of
from testbed.net.traffic.flow import Flow, FlowError
from testbed.net.traffic.roce_flow import (
    KEY,
    Source,
    Target,
    cnp_ds_field,
    ds_field,
    maker_of_source,
    nic_timing,
    port_rule,
    settings_at,
    transport_of,
)
from testbed.net.traffic.transport import ip_version
from testbed.roce import rates
from testbed.roce.endpoint import DatagramKind, Outgoing
from testbed.roce.endpoint import Endpoint as Host
from testbed.roce.memory import Sink
from testbed.roce.nic import NicTiming
from testbed.roce.queue_pair import QueuePair
from testbed.roce.rates import Line
from testbed.roce.source_port import PortRule, from_number
from testbed.roce.work import Operation

FIRST_SERVICE = 1000
"""The service of the first flow, by which a request for a connection names its flow."""
_SO_PRIORITY, _SO_SNDBUFFORCE, _SO_RCVBUFFORCE, _SO_REUSEPORT, _SO_NO_CHECK = 12, 32, 33, 15, 11
_IP_MTU_DISCOVER, _IP_PMTUDISC_DO = 10, 2
_IPV6_MTU_DISCOVER, _IPV6_FLOWINFO_SEND, _IPV6_AUTOFLOWLABEL = 23, 33, 70
_UDP_NO_CHECK6_TX, _UDP_NO_CHECK6_RX = 101, 102
SEND_BUFFER = 32_000
FAST_SEND_BUFFER = 192_000
"""The send buffer of a queue pair that sends many packets at a time; the kernel counts some 2300 octets for each."""
_RECEIVE_BUFFER = 64 << 20
BATCH = 64
"""The most datagrams of one system call."""


def not_sent(error: OSError, to: str) -> FlowError:
    """Return the error of RoCE that cannot be sent."""
    reason = error.strerror
    if error.errno == errno.EMSGSIZE:
        reason = (
            "its packets are too long for the MTU of the port; Settings(mtu=...) of the flow's Roce has their payload"
        )
    return FlowError(f"RoCE to {to}: {reason}")


def _rests() -> frozenset[int]:
    """Return the DSCPs of what the network's switches trim, as they are set now."""
    program = FabricCore.current().program
    tables = None if program is None else program.trimming_tables
    return frozenset() if tables is None else tables.dscps()


class Way:
    """A socket from one UDP port, and the datagrams that wait for room in it."""

    def __init__(
        self, source_port: int, priority: int, ds: int, buffer: int, *, is_ipv6: bool = False, flow_label: int = 0
    ) -> None:
        """A socket of IPv6 sends to addresses of both versions."""
        self._is_ipv6, self._flow_label = is_ipv6, flow_label
        self.socket = socket.socket(socket.AF_INET6 if is_ipv6 else socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.setsockopt(socket.SOL_SOCKET, _SO_REUSEPORT, 1)
        self.socket.setsockopt(socket.SOL_SOCKET, _SO_PRIORITY, priority)
        self.socket.setsockopt(socket.SOL_SOCKET, _SO_NO_CHECK, 1)
        self.socket.setsockopt(socket.SOL_SOCKET, _SO_SNDBUFFORCE, buffer // 2)
        self.socket.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, ds)
        self.socket.setsockopt(socket.IPPROTO_IP, _IP_MTU_DISCOVER, _IP_PMTUDISC_DO)
        if is_ipv6:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_TCLASS, ds)
            self.socket.setsockopt(socket.IPPROTO_IPV6, _IPV6_MTU_DISCOVER, _IP_PMTUDISC_DO)
            self.socket.setsockopt(socket.IPPROTO_IPV6, _IPV6_AUTOFLOWLABEL, 0)
            self.socket.setsockopt(socket.IPPROTO_IPV6, _IPV6_FLOWINFO_SEND, 1)
            self.socket.setsockopt(socket.IPPROTO_UDP, _UDP_NO_CHECK6_TX, 1)
        self.socket.bind(("", source_port))
        self.socket.setblocking(False)
        self.waiting: list[Outgoing] = []
        self._bursts: dict[tuple[str, int], mmsg.Burst] = {}

    def send_run(self, to: str, run: PacketRun) -> None:
        """Send packets; there are none that wait."""
        burst = self._bursts.get((to, run.size))
        if burst is None:
            sizes = BTH_OCTETS, run.size, ICRC_OCTETS
            burst = self._bursts[to, run.size] = mmsg.Burst(
                self.socket, to, PORT, sizes, BATCH, flow_label=self._flow_label
            )
        sent = burst.send(len(run), run.heads, run.payload, run.icrcs)
        self.waiting = [Outgoing(DatagramKind.DATA, to, 0, one) for one in run.datagrams(sent)]

    def _name(self, to: str) -> tuple[Any, ...]:
        if not self._is_ipv6:
            return to, PORT
        return (to, PORT, self._flow_label, 0) if ":" in to else (f"::ffff:{to}", PORT)

    def send(self, datagrams: list[Outgoing]) -> None:
        """Send them, or as many as there is room for."""
        queue = self.waiting + datagrams
        sent = 0
        try:
            for one in queue:
                self.socket.sendto(one.datagram, self._name(one.to))
                sent += 1
        except (BlockingIOError, ConnectionRefusedError):
            pass
        except OSError as error:
            raise not_sent(error, queue[sent].to) from None
        self.waiting = queue[sent:]


def open_listener(*, is_ipv6: bool = False) -> socket.socket:
    """Return the socket of port 4791; one of IPv6 has the datagrams of both versions."""
    udp = socket.socket(socket.AF_INET6 if is_ipv6 else socket.AF_INET, socket.SOCK_DGRAM)
    udp.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _RECEIVE_BUFFER)
    udp.setsockopt(socket.SOL_SOCKET, mmsg.SO_TIMESTAMPNS, 1)
    udp.setsockopt(socket.IPPROTO_IP, socket.IP_RECVTOS, 1)
    if is_ipv6:
        udp.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVTCLASS, 1)
        udp.setsockopt(socket.IPPROTO_UDP, _UDP_NO_CHECK6_RX, 1)
    udp.bind(("", PORT))
    udp.setblocking(False)
    return udp


@dataclass(frozen=True)
class _Call:
    """A connection that a host asks for: that of a flow from here, or of a read."""

    index: int
    is_read: bool
    far: str
    maker: rates.Maker
    traffic_class: int
    port_rule: PortRule
    nic: NicTiming
    service: Service
    start_ns: int | None
    """How long after the begin of all flows it is asked for; None: before them."""


class Connections:
    """The flows of one host that begin or end there, and their queue pairs.

    An object is made before the host's process is forked: of what is older than a process, each page that it touches
    is copied.
    """

    manager: Way
    """The socket of the connection manager's messages; the process of the host opens it."""

    def __init__(
        self,
        node: Any,
        flows: Mapping[int, Flow],
        sends: Sequence[int],
        receives: Sequence[int],
        line: Line,
        *,
        first_pair: int,
    ) -> None:
        self.node = node
        self.flows = {index: flows[index] for index in sorted({*sends, *receives})}
        self.transport = transport_of(next(iter(self.flows.values())))
        first = next(iter(self.flows))
        self.settings = settings_at(self.flows[first], source=first in sends)
        versions = {ip_version(flow) for flow in self.flows.values()}
        self.is_ipv6 = 6 in versions
        """True if flows over IPv6 begin or end here."""
        addresses = [address_of(node, version) for version in sorted(versions)]
        self.host = Host([one for one in addresses if one is not None], line, self.settings, first_pair, _rests())
        self.line = line
        self.sources = {index: Source(flows[index], index) for index in sends}
        self.targets = {index: Target(flows[index], index) for index in receives}
        self.keys = {(index, True): self.host.register(source.content) for index, source in self.sources.items()}
        """The keys of the memory of each flow, at its source (True) and at its target."""
        self.keys |= {(index, False): self.host.register(target.sink) for index, target in self.targets.items()}
        self.target_of: dict[int, Target] = {}
        self.index_of: dict[int, int] = {}
        """The index of the flow of each queue pair, by its number."""
        self._priorities = {index: flow.priority for index, flow in self.flows.items()}
        self._calls: list[_Call] = []
        self._prepare()

    def open_manager(self) -> Way:
        """Return the socket of the connection manager's messages."""
        transport = self.transport
        ds = cnp_ds_field(transport)
        return Way(from_number(CM_QP), transport.cnp_priority, ds, SEND_BUFFER, is_ipv6=self.is_ipv6)

    @property
    def is_settled(self) -> bool:
        """True if no connection is being made, and none of the messages for them is in a queue."""
        return self.host.is_settled and not self.manager.waiting

    def _prepare(self) -> None:
        """Listen for the connections that others ask for, and note those that are asked for here."""
        for index, flow in self.flows.items():
            is_read = transport_of(flow).operation == Operation.READ
            if is_read and index in self.sources:
                maker, rule = maker_of_source(flow), port_rule(flow)
                nic = nic_timing(flow, index, self.line.scale, at_source=True)
                self.host.listen(FIRST_SERVICE + index, self._answer_source(index), maker, rule, nic=nic)
            elif not is_read and index in self.targets:
                nic = nic_timing(flow, index, self.line.scale, at_source=False)
                answer = self._answer_target(index)
                kind = Service(transport_of(flow).service)
                self.host.listen(FIRST_SERVICE + index, answer, port_rule=port_rule(flow), nic=nic, service=kind)
            if index in (self.targets if is_read else self.sources):
                far = address_of(flow.source if is_read else flow.target, ip_version(flow))
                assert far is not None  # or ip_version() would have said so
                maker = rates.maker_of("fixed") if is_read else maker_of_source(flow)
                nic = nic_timing(flow, index, self.line.scale, at_source=not is_read)
                start_ns = flow.start.ns if transport_of(flow).connects_at_start else None
                kind, ds = Service(transport_of(flow).service), ds_field(flow)
                self._calls.append(_Call(index, is_read, far, maker, ds, port_rule(flow), nic, kind, start_ns))

    def _answer_source(self, index: int) -> Any:
        def answer(request: object, pair: QueuePair) -> bytes:
            source = self.sources[index]
            self._use(pair, index)
            source.pair = pair
            pair.responder.receive_into = Sink()
            return KEY.pack(self.keys[index, True])

        return answer

    def _answer_target(self, index: int) -> Any:
        def answer(request: object, pair: QueuePair) -> bytes:
            target = self.targets[index]
            self._use(pair, index)
            target.pair = self._own(pair, target)
            pair.responder.receive_into = target.sink
            transport = transport_of(target.flow)
            if not transport.is_reliable:
                pair.responder.place_by_number(transport.message.bytes)
            return KEY.pack(self.keys[index, False])

        return answer

    def _use(self, pair: QueuePair, index: int) -> None:
        self.index_of[pair.number] = index
        pair.priority = self._priorities[index]

    def flow_of(self, number: int) -> Flow:
        """Return the flow of the queue pair with this number."""
        return self.flows[self.index_of[number]]

    def _own(self, pair: QueuePair, target: Target) -> QueuePair:
        self.target_of[pair.number] = target
        return pair

    def connect(self, begin_ns: int | None = None) -> None:
        """Ask for the connections that this host asks for before the flows begin, or for those of flows that do so at
        their start, once it is known when all begin.
        """
        for call in self._calls:
            if (call.start_ns is None) != (begin_ns is None):
                continue
            pair = self.host.connect(
                call.far,
                FIRST_SERVICE + call.index,
                None if begin_ns is None or call.start_ns is None else begin_ns + call.start_ns,
                rate_control=call.maker,
                traffic_class=call.traffic_class,
                port_rule=call.port_rule,
                nic=call.nic,
                service=call.service,
            )
            self._use(pair, call.index)
            if call.is_read:
                target = self.targets[call.index]
                target.pair = self._own(pair, target)
            else:
                self.sources[call.index].pair = pair
