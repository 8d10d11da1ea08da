"""Counters of RoCEv2 by flow, taken from the frames that pass the test ports. Sans-I/O.

Nothing is asked of the endpoints: requests for connections tell which queue pair carries which flow, and each later
frame is counted by the queue pair in its BTH, where it leaves and where it arrives. So the counters are those of the
wire, and can be compared with those of a switch frame by frame.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from testbed.errors import XoffError
from testbed.frames import roce_cm
from testbed.frames.roce import Opcode, parse
from testbed.subjects.snappi.counting import WINDOW_NS
from testbed.subjects.snappi.rocev2 import RoceFlow, RocePlan

FCS = 4
HEAD = 512
"""The octets of a frame that are looked at: those of connection management are shorter."""
_BTH = struct.Struct("!BBHII")
_TYPE_AT, _IP_AT, _IPV6 = 12, 14, 0x86DD
_MASK, _HALF = 0xFFFFFF, 0x800000
_ANSWERS = {Opcode.ACKNOWLEDGE, Opcode.SELECTIVE_ACKNOWLEDGE}
_ENDS = {
    Opcode.SEND_LAST, Opcode.SEND_LAST_IMMEDIATE, Opcode.SEND_ONLY, Opcode.SEND_ONLY_IMMEDIATE, Opcode.WRITE_LAST,
    Opcode.WRITE_LAST_IMMEDIATE, Opcode.WRITE_ONLY, Opcode.WRITE_ONLY_IMMEDIATE, Opcode.READ_RESPONSE_LAST,
    Opcode.READ_RESPONSE_ONLY,
}  # fmt: skip
_NAK = 0x60
_CE = 3


class Rate:
    """Octets in the last whole window."""

    def __init__(self) -> None:
        self._window = self._now = self._before = 0

    def count(self, t_ns: int, octets: int) -> None:
        window = t_ns // WINDOW_NS
        if window != self._window:
            self._before = self._now if window == self._window + 1 else 0
            self._now, self._window = 0, window
        self._now += octets

    def bps(self, now_ns: int) -> int:
        behind = now_ns // WINDOW_NS - self._window
        octets = self._before if behind == 0 else self._now if behind == 1 else 0
        return octets * 8 * 10**9 // WINDOW_NS


@dataclass
class FlowCounts:
    """The counters of one flow's queue pair. Frames of data count with FCS, each time that they are sent."""

    source_pair: int = 0
    target_pair: int = 0
    data_sent: int = 0
    data_received: int = 0
    octets_sent: int = 0
    octets_received: int = 0
    retransmitted: int = 0
    sequence_errors: int = 0
    """Frames that came before one with a lower number had."""
    messages_sent: int = 0
    messages_received: int = 0
    marked: int = 0
    cnps_sent: int = 0
    cnps_received: int = 0
    acks_sent: int = 0
    acks_received: int = 0
    naks_sent: int = 0
    naks_received: int = 0
    first_ns: int = 0
    """The moment at which the first frame of data arrived, and the last one."""
    last_ns: int = 0
    begin_ns: int = 0
    """The moment at which the first frame of data was sent."""
    latency_ns: tuple[int, int, int, int] = (0, 0, 0, 0)
    """Frames, the least latency, the largest, and the sum."""
    sent_bps: int = 0
    received_bps: int = 0


@dataclass
class _Connection:
    """A connection that was asked for."""

    flow: RoceFlow
    counts: FlowCounts
    at_source: int
    """The number of the queue pair at the flow's source, and that at its target; 0: not known yet."""
    at_target: int
    next_sent: int
    next_taken: int
    sent_at: dict[int, int] = field(default_factory=dict)
    early: dict[int, bool] = field(default_factory=dict)
    """The frames that came before a missing one, and whether a message ends with them."""
    sending: Rate = field(default_factory=Rate)
    receiving: Rate = field(default_factory=Rate)
    is_up: bool = False


_MESSAGES = {
    roce_cm.Request: "connect_request", roce_cm.Reply: "connect_reply", roce_cm.Ready: "ready", roce_cm.Reject: "reject"
}  # fmt: skip


@dataclass(frozen=True)
class WireFrame:
    """A frame of RoCEv2 at a test port, with its first octets."""

    t_ns: int
    port: str
    length: int
    """The octets without FCS."""
    octets: bytes


@dataclass(frozen=True)
class _Octets:
    """A frame of RoCEv2 by its parts. Neither IP version has options or extensions here."""

    source: bytes
    target: bytes
    ecn: int
    bth: bytes
    """The octets from the BTH on."""

    @classmethod
    def of(cls, octets: bytes) -> _Octets:
        if int.from_bytes(octets[_TYPE_AT:_IP_AT]) == _IPV6:
            ecn = octets[_IP_AT + 1] >> 4 & 3
            return cls(octets[_IP_AT + 8 : _IP_AT + 24], octets[_IP_AT + 24 : _IP_AT + 40], ecn, octets[_IP_AT + 48 :])
        ecn = octets[_IP_AT + 1] & 3
        return cls(octets[_IP_AT + 12 : _IP_AT + 16], octets[_IP_AT + 16 : _IP_AT + 20], ecn, octets[_IP_AT + 28 :])


class RoceCounts:
    """The counters of all flows."""

    def __init__(self, plan: RocePlan, first_service: int) -> None:
        self._flows = {first_service + flow.number: flow for flow in plan.connections}
        self.by_flow = {flow.number: FlowCounts() for flow in plan.connections}
        """The counters by the flow's number."""
        self._current: dict[int, _Connection] = {}
        """The last connection of each flow."""
        self._peers = {(pair.address.packed, pair.destination.packed): pair.peer for pair in plan.pairs}
        self._by_pair: dict[tuple[bytes, int], _Connection] = {}
        """The connections by the address and the number of a queue pair."""
        self._asked: dict[tuple[bytes, int], _Connection] = {}
        """The connections by the address of who asked, and the number that it gave them."""
        self.messages: dict[str, Counter[str]] = {name: Counter() for name in plan.peers}
        """Messages of the connection manager by peer: `connect_request_tx` and so on, in the words of the model."""
        self.unknown = 0

    def begin(self, numbers: Iterable[int]) -> None:
        """Begin at zero for flows whose connections are made anew from now on."""
        self._asked.clear()
        self._by_pair.clear()
        for number in numbers:
            self.by_flow[number] = FlowCounts()
            self._current.pop(number, None)

    @property
    def up(self) -> set[int]:
        """The numbers of the flows whose queue pairs are connected."""
        return {number for number, connection in self._current.items() if connection.is_up}

    def disconnect(self) -> None:
        for connection in self._current.values():
            connection.is_up = False

    def shown(self, now_ns: int) -> dict[int, FlowCounts]:
        """Return the counters by flow, with the rates of this moment."""
        for number, connection in self._current.items():
            self.by_flow[number].sent_bps = connection.sending.bps(now_ns)
            self.by_flow[number].received_bps = connection.receiving.bps(now_ns)
        return self.by_flow

    def count(self, frame: WireFrame, addresses: Collection[bytes]) -> bool:
        """Count a frame at a port whose devices have these addresses; True if it was sent from there."""
        octets = _Octets.of(frame.octets)
        is_sent = octets.source in addresses
        opcode, _, _, pair, psn = _BTH.unpack_from(octets.bth)
        pair &= _MASK
        if opcode == Opcode.DATAGRAM:
            self._manage(octets, is_sent)
            return is_sent
        connection = self._by_pair.get((octets.target, pair))
        if connection is None:
            self.unknown += 1
        elif opcode == Opcode.CNP:
            counts = connection.counts
            if is_sent:
                counts.cnps_sent += 1
            else:
                counts.cnps_received += 1
        elif opcode in _ANSWERS:
            self._answer(connection.counts, octets.bth, is_sent)
        elif opcode != Opcode.READ_REQUEST and octets.source == connection.flow.pair.address.packed:
            if is_sent:
                self._sent(connection, frame, opcode, psn & _MASK)
            else:
                self._received(connection, frame, opcode, psn & _MASK)
                connection.counts.marked += octets.ecn == _CE
        return is_sent

    @staticmethod
    def _answer(counts: FlowCounts, bth: bytes, is_sent: bool) -> None:
        is_nak = bth[_BTH.size] & 0xE0 == _NAK or bth[0] == Opcode.SELECTIVE_ACKNOWLEDGE
        if is_nak:
            counts.naks_sent += is_sent
            counts.naks_received += not is_sent
        else:
            counts.acks_sent += is_sent
            counts.acks_received += not is_sent

    @staticmethod
    def _sent(connection: _Connection, frame: WireFrame, opcode: int, psn: int) -> None:
        counts = connection.counts
        if not counts.data_sent:
            counts.begin_ns = frame.t_ns
        counts.data_sent += 1
        counts.octets_sent += frame.length + FCS
        connection.sending.count(frame.t_ns, frame.length + FCS)
        connection.sent_at[psn] = frame.t_ns
        if psn - connection.next_sent & _MASK < _HALF:
            connection.next_sent = psn + 1 & _MASK
            counts.messages_sent += opcode in _ENDS
        else:
            counts.retransmitted += 1

    @staticmethod
    def _received(connection: _Connection, frame: WireFrame, opcode: int, psn: int) -> None:
        counts = connection.counts
        if not counts.data_received:
            counts.first_ns = frame.t_ns
        counts.last_ns = frame.t_ns
        counts.data_received += 1
        counts.octets_received += frame.length + FCS
        connection.receiving.count(frame.t_ns, frame.length + FCS)
        if (sent_ns := connection.sent_at.pop(psn, None)) is not None:
            took = frame.t_ns - sent_ns
            many, least, most, total = counts.latency_ns
            counts.latency_ns = many + 1, min(least, took) if many else took, max(most, took), total + took
        ahead = psn - connection.next_taken & _MASK
        if ahead >= _HALF:
            return
        connection.early[psn] = opcode in _ENDS
        counts.sequence_errors += bool(ahead)
        while (ends := connection.early.pop(connection.next_taken, None)) is not None:
            counts.messages_received += ends
            connection.next_taken = connection.next_taken + 1 & _MASK

    def _manage(self, octets: _Octets, is_sent: bool) -> None:
        source, target = octets.source, octets.target
        try:
            message, _ = roce_cm.parse(parse(octets.bth).payload)
        except XoffError:
            self.unknown += 1
            return
        if isinstance(message, roce_cm.DatagramRequest | roce_cm.DatagramReply):
            self.unknown += 1  # of no connection
            return
        if isinstance(message, roce_cm.Request):
            self._ask(message, source, target)
            connection = self._asked.get((source, message.communication_id))
        else:
            asker = source if isinstance(message, roce_cm.Ready) else target
            number = message.communication_id if asker == source else message.remote_communication_id
            connection = self._asked.get((asker, number))
        if connection is None:
            self.unknown += 1
            return
        peer = self._peers.get((source, target) if is_sent else (target, source))
        if peer is not None:
            self.messages[peer][f"{_MESSAGES[type(message)]}_{'tx' if is_sent else 'rx'}"] += 1
        if isinstance(message, roce_cm.Reply):
            self._reply(connection, message.qp, source)
        elif isinstance(message, roce_cm.Reject):
            connection.is_up = False
        elif isinstance(message, roce_cm.Ready):
            connection.is_up = True

    def _ask(self, request: roce_cm.Request, source: bytes, target: bytes) -> None:
        flow = self._flows.get(request.service_id & 0xFFFF)
        key = source, request.communication_id
        if flow is None or key in self._asked:
            return  # the request was sent again, or is seen at its other end
        is_source = source == flow.pair.address.packed
        connection = _Connection(
            flow, self.by_flow[flow.number], request.qp if is_source else 0, 0 if is_source else request.qp,
            request.psn, request.psn,
        )  # fmt: skip
        self._asked[key] = self._current[flow.number] = self._by_pair[source, request.qp] = connection
        self._show(connection)

    def _reply(self, connection: _Connection, number: int, source: bytes) -> None:
        if source == connection.flow.pair.address.packed:
            connection.at_source = number
        else:
            connection.at_target = number
        self._by_pair[source, number] = connection
        self._show(connection)

    @staticmethod
    def _show(connection: _Connection) -> None:
        connection.counts.source_pair, connection.counts.target_pair = connection.at_source, connection.at_target
