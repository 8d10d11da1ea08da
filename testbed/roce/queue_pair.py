"""A queue pair: requester, responder, pacing, congestion notification. Sans-I/O.

It is that of a reliable connection (RC), or of an unreliable service (`testbed.roce.services`).

Data, that is requests and read responses, are paced by the rate control: one packet after the other, with the time
between two that the first takes on the wire at the present rate. A sender that was late may catch up a few packets.
As long as the rate is the line's, the port itself paces: on a fast line it is given a few packets at a time.
Acknowledgements and CNPs are not paced.

Notification point: data that arrive with CE are answered by a CNP, at most one in each `cnp_interval`. Its delay, that
of acknowledgements and that of the doorbell are those of the NIC.

Runs in C: `testbed/lab/um/linux/xoff_roce_user.c`.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Callable, MutableMapping
from dataclasses import replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

from testbed.frames import roce, roce_run
from testbed.frames.roce import BTH_OCTETS, DATA, ICRC_OCTETS, REQUESTS, RESPONSES, Nak, Opcode, Packet, Service
from testbed.frames.roce_run import PacketRun
from testbed.frames.telemetry import Telemetry
from testbed.roce.counters import Counters
from testbed.roce.memory import Region
from testbed.roce.nic import PLAIN, Jitter, NicTiming
from testbed.roce.order import Order, Orders
from testbed.roce.rates.base import Acknowledgement, RateControl
from testbed.roce.rates.informed import Informed
from testbed.roce.requester import Requester
from testbed.roce.responder import Responder
from testbed.roce.selective_requester import SelectiveRequester
from testbed.roce.sequence import sequence
from testbed.roce.settings import RoceError, Settings, Timing
from testbed.roce.work import Work
from testbed.units import NEVER, Line

if TYPE_CHECKING:
    from testbed.roce.services.receives import Receives

_IPV4_WIRE_OCTETS = 66
"""Around the payload of UDP: Ethernet 14, IPv4 20, UDP 8, FCS 4, preamble 8, gap 12."""
_IPV6_WIRE_OCTETS = _IPV4_WIRE_OCTETS + 20
_CATCH_UP = 4
"""Packets that a late sender may send at once."""
_MOST_AHEAD, _LEAST_AHEAD, _AHEAD_NS = 64, 8, 6_000_000
"""Packets that the port may be given before their time, and for how much of the lab's time: it sends them at line rate.
On a slow line each goes at its own time, because a wake-up for each costs little there.
"""
_MOST_NOTIFICATIONS = 16
"""CNPs that are under way in the NIC at a time."""
_NEVER_NS = -(1 << 62)


class State(enum.StrEnum):
    CONNECTING = "connecting"
    READY = "ready"
    FAILED = "failed"


def ahead_ns(line: Line, mtu: int, wire_octets: int = _IPV4_WIRE_OCTETS) -> int:
    """Return how far ahead of its time a full packet may go to a port of this line; 0: it may not."""
    gap_ns = (mtu + BTH_OCTETS + ICRC_OCTETS + wire_octets) * 8 * 10**9 // line.rate.bps
    packets = min(_MOST_AHEAD, _AHEAD_NS // max(1, gap_ns))
    return packets * gap_ns if packets >= _LEAST_AHEAD else 0


@lru_cache(4096)
def _path(source: str, destination: str, source_port: int) -> roce.Path:
    """Return the path of datagrams to a host that an address handle names."""
    return roce.Path(source, destination, source_port)


class CnpPace:
    """The moment of the last CNP of those that share an interval."""

    def __init__(self) -> None:
        self.last_ns = _NEVER_NS


class Acknowledged:
    """The packets under way that were sent once, for rate controls that count acknowledgements: a packet that was sent
    twice has no round trip (Karn).
    """

    def __init__(self) -> None:
        self._sent: deque[tuple[int, int]] = deque()  # number and moment, in the order of numbers
        self._highest = -1

    def sent(self, number: int, now_ns: int) -> None:
        """A packet was sent, for the first time or again."""
        while self._sent and self._sent[-1][0] >= number:
            self._sent.pop()
        if number > self._highest:
            self._sent.append((number, now_ns))
            self._highest = number

    def told(self, requester: Requester, before: int, packet: Packet, now_ns: int) -> Acknowledgement:
        """Return what an acknowledgement has brought; `before` is the oldest packet under way until then."""
        until, newest = requester.oldest, None
        while self._sent and self._sent[0][0] < until:
            newest = self._sent.popleft()
        is_known = newest is not None and newest[0] == until - 1
        return Acknowledgement(
            until - before,
            until,
            requester.next,
            now_ns - newest[1] if newest is not None and is_known else None,
            packet.telemetry.stamps if packet.telemetry is not None else (),
        )


def _halves(
    nic: NicTiming, service: Service, number: int, q_key: int
) -> tuple[Callable[..., Requester], Callable[..., Responder]]:
    """Return what makes the requester and the responder of a queue pair."""
    if service is Service.RC:
        return SelectiveRequester if nic.is_selective else Requester, Responder
    from testbed.roce.services import unreliable_requester, unreliable_responder  # those who have none need them not

    if service is Service.UC:
        return unreliable_requester.UnreliableRequester, unreliable_responder.UnreliableResponder
    asking = partial(unreliable_requester.DatagramRequester, number=number, q_key=q_key)
    return asking, partial(unreliable_responder.DatagramResponder, q_key=q_key)


class Addressed(bytes):
    """A datagram to another host than the far end of its queue pair."""

    to: str

    @classmethod
    def of(cls, datagram: bytes, to: str) -> Addressed:
        made = cls(datagram)
        made.to = to
        return made


class QueuePair:
    """One end of a connection, or a queue pair of datagrams, which has one far end and can send to others."""

    def __init__(
        self,
        number: int,
        far_address: str,
        path: roce.Path,
        *,
        first: int,
        settings: Settings,
        timing: Timing,
        memory: MutableMapping[int, Region],
        rate: RateControl,
        nic: NicTiming = PLAIN,
        cnp_pace: CnpPace | None = None,
        service: Service = Service.RC,
        q_key: int = 0,
        receives: Receives | None = None,
    ) -> None:
        """`q_key` is that of datagrams, at both ends; `receives` are those of a shared receive queue."""
        self.number, self.service = number, service
        self.far_address = far_address
        self.path = path
        """The path of sent packets. `far_path` is that of received ones, once the peer's queue pair is known."""
        self.far_path: roce.Path | None = None
        self.first = first
        self.priority = 0
        """The priority of its data; a CNP may concern all queue pairs of a priority."""
        self.settings = settings
        self.rate = rate
        self.informed = Informed(rate, self.fail)
        self.state = State.CONNECTING
        self.failure = ""
        self.reply = b""
        """Private data of the reply, on the side that asked for the connection."""
        self._acknowledged = Acknowledged() if rate.counts_acknowledgements else None
        asks = replace(settings, ack_every=1) if rate.counts_acknowledgements else settings
        self._nic, self._jitter = nic, Jitter(nic.seed, nic.jitter_ns)
        self.counters = counters = Counters()
        responses = Order(first, counters)
        asking, answering = _halves(nic, service, number, q_key)
        common: Any = {"nic": nic, "jitter": self._jitter, "counters": counters}
        self.requester = asking(0, first, asks, timing, order=responses, **common)
        self._returned: Telemetry | None = None
        """The telemetry that the next acknowledgement brings back."""
        self.responder = answering(0, 0, settings, memory, receives=receives, **common)
        self.responder.orders = Orders(Order(0, counters), responses)
        self._timing = timing
        self._wire_octets = _IPV6_WIRE_OCTETS if ":" in far_address else _IPV4_WIRE_OCTETS
        self._ahead_ns = ahead_ns(rate.line, settings.mtu, self._wire_octets)
        self._next_ns = _NEVER_NS
        self._was_idle = True
        self._cnp_pace = cnp_pace or CnpPace()
        self._cnps_due_ns: deque[int] = deque()
        """The moments at which CNPs leave; 0: at once."""

    def established(self, far_qp: int, first: int, far_first: int, far_path: roce.Path) -> None:
        """The peer is known, and with which PSN each end begins; data may come from now on."""
        self.first = first
        self.requester.connected(far_qp, first)
        self.responder.far_qp = far_qp
        self.responder.expect(far_first)
        self.responder.orders.requests = Order(far_first, self.counters)
        self.far_path = far_path
        self.state = State.READY
        self.informed.check(self.rate.__init__)  # type: ignore[misc]  # before any event

    def post(self, work: Work, now_ns: int = 0) -> int:
        """Take a work on; it is sent once the connection is ready, after the doorbell's delay."""
        if work.to is not None and self.service is not Service.UD:
            raise RoceError(f"{work.operation} over {self.service} has no address handle: it has one far end")
        return self.requester.post(work, now_ns)

    def fail(self, why: str) -> None:
        if self.state is not State.FAILED:
            self.state, self.failure = State.FAILED, why
            self.requester.fail(why)
            self.responder.give_back()

    def _gap_ns(self, octets: int, rate_bps: float) -> int:
        """The time of a datagram on the wire."""
        return int((octets + self._wire_octets) * 8_000_000_000 / rate_bps)

    # What comes in

    def receive_run(self, run: PacketRun) -> int:
        """Take packets in the middle of a message, without marks, from the first one on; how many. The others are for
        `receive`."""
        if self.far_path is None or self.state is not State.READY:
            return 0
        first = self.responder.expected
        many = self.responder.take_run(self.far_path, run)
        self.responder.orders.requests.arrive_in_row(first, many)
        self.counters.received_packets += many
        self.counters.received_octets += many * self.settings.mtu
        return many

    def takes_rest(self, datagram: bytes) -> bool:
        """Count what is left of a packet of data that a switch has trimmed; False if it is none of these."""
        if self.far_path is None or self.state is State.FAILED:
            return False
        if len(datagram) < BTH_OCTETS or datagram[0] not in DATA:
            return False
        self.counters.trimmed += 1
        return True

    def receive(self, packet: Packet, is_marked: bool, now_ns: int) -> None:
        """A packet for this queue pair, whose ICRC is right, and whose opcode is of its service."""
        if self.service is not Service.RC:
            packet = roce.plain(packet) if packet.opcode < Opcode.CNP else packet
        opcode = packet.opcode
        if opcode in REQUESTS or opcode in RESPONSES:
            self.counters.received_packets += 1
            self.counters.received_octets += len(packet.payload)
            if is_marked:
                self._notify(now_ns)
        went_back, before = self.counters.went_back, self.requester.oldest
        if opcode in REQUESTS:
            if packet.telemetry is not None:
                self._returned = packet.telemetry.returned()
            if opcode != Opcode.READ_REQUEST and not self.responder.failure:
                self.responder.orders.requests.arrive(sequence(packet.psn, self.responder.expected))
            self.responder.on_request(packet, now_ns)
        elif opcode in RESPONSES:
            self.requester.on_read_response(packet, now_ns)
        elif opcode == Opcode.CNP:
            self.counters.cnps_received += 1
            self.on_cnp(now_ns)
        elif packet.aeth is not None:
            if packet.aeth.rnr is not None:
                self.requester.on_rnr(packet.psn, packet.aeth.rnr, now_ns)
            elif packet.aeth.nak is None:
                self.requester.on_ack(packet.psn, now_ns)
            else:
                self.counters.sequence_naks += packet.aeth.nak is Nak.SEQUENCE_ERROR
                self.requester.on_nak(packet.psn, packet.aeth.nak, now_ns, packet.payload)
        self._tell_rate(now_ns)
        if self._acknowledged is not None:
            self._count(packet, went_back, before, now_ns)
        if self.requester.failure:
            self.fail(self.requester.failure)

    def on_cnp(self, now_ns: int) -> None:
        """A CNP came that concerns this queue pair."""
        self.informed.tell(self.rate.on_cnp, now_ns)

    def _notify(self, now_ns: int) -> None:
        self.counters.marked += 1
        if now_ns - self._cnp_pace.last_ns >= self._timing.cnp_ns:
            self._cnp_pace.last_ns = now_ns
            self._owe_notification(now_ns)

    def _owe_notification(self, now_ns: int) -> None:
        due, delay_ns = self._cnps_due_ns, self._nic.cnp_ns
        if not delay_ns:
            if not due:
                due.append(0)
        elif len(due) < _MOST_NOTIFICATIONS:
            due_ns = now_ns + self._jitter.delay(delay_ns)
            due.append(max(due_ns, due[-1]) if due else due_ns)

    def _tell_rate(self, now_ns: int) -> None:
        requester = self.requester
        if requester.round_trips:
            for round_trip_ns in requester.round_trips:
                self.informed.tell(self.rate.on_round_trip, now_ns, round_trip_ns)
            requester.round_trips.clear()

    def _count(self, packet: Packet, went_back: int, before: int, now_ns: int) -> None:
        """Tell a rate control that counts acknowledgements what this one has brought."""
        assert self._acknowledged is not None
        if self.counters.went_back != went_back:
            self.informed.tell(self.rate.on_loss, now_ns)
        if self.requester.oldest > before:
            told = self._acknowledged.told(self.requester, before, packet, now_ns)
            self.informed.tell(self.rate.on_acknowledged, now_ns, told)

    # What goes out

    def notification(self, now_ns: int) -> bytes | None:
        """The CNP that is due, if one is. It goes with a priority and DSCP of its own."""
        if not self._cnps_due_ns or self._cnps_due_ns[0] > now_ns:
            return None
        self._cnps_due_ns.popleft()
        self.counters.cnps_sent += 1
        octets, to = roce.encode(Packet.cnp(self.responder.far_qp)), self._sender
        if to == self.far_address:
            return self.path.seal(octets)
        return Addressed.of(_path(self.path.source, to, self.path.source_port).seal(octets), to)

    @property
    def _sender(self) -> str:
        """The address that the last datagram came from, or that of the far end."""
        return self.far_address if self.far_path is None else self.far_path.source

    def transmit(self, now_ns: int, most: int) -> list[bytes]:
        """Datagrams to be sent now, with their ICRC: an acknowledgement, and data as far as the pace allows."""
        self._on_deadline(now_ns)
        made: list[bytes] = []
        if self.state is not State.READY:
            return made
        requester, responder = self.requester, self.responder
        if (answer := responder.answer(now_ns)) is not None:
            made.append(self._answer(answer))
        if self.rate.window is not None:
            requester.limit(self.rate.window)
        until_ns = now_ns + self._ahead()
        while len(made) < most and self._next_ns <= until_ns:
            if responder.has_response:
                packet = responder.response()
            elif requester.ready_ns <= now_ns:
                packet = requester.packet(now_ns)
                if self._acknowledged is not None:
                    self._acknowledged.sent(sequence(packet.psn, requester.oldest), now_ns)
                if self.rate.needs_telemetry:
                    packet = packet._replace(telemetry=Telemetry())
            else:
                self._was_idle = True
                break
            datagram = self._sealed(packet)
            octets = len(datagram) + self._wire_octets
            self._pace(now_ns, self._gap_ns(len(datagram), self.rate.rate_lab_bps), 1)
            self.counters.sent_packets += 1
            self.counters.sent_octets += len(packet.payload)
            made.append(datagram)
            self.informed.tell(self.rate.on_sent, now_ns, octets)
            if self.informed.has_fault:
                break
        if not responder.has_response and (answer := responder.answer(now_ns)) is not None:
            made.append(self._answer(answer))
        if responder.failure:
            self.fail(responder.failure)
        return made

    def transmit_run(self, now_ns: int) -> PacketRun | None:
        """Full packets of one message that may go to the port now. None: none may, and `transmit` has what is due."""
        ahead, responder = self._ahead(), self.responder
        if self._acknowledged is not None:
            return None
        until_ns = now_ns + ahead
        if not ahead or self._next_ns > until_ns or responder.has_response or responder.answer_ns != NEVER:
            return None
        if self.state is not State.READY or self.requester.timer_ns <= now_ns or self.informed.deadline_ns <= now_ns:
            return None
        octets = self.settings.mtu + BTH_OCTETS + ICRC_OCTETS
        gap_ns = self._gap_ns(octets, self.rate.rate_lab_bps)
        begins_ns = max(self._next_ns, self._earliest_ns(now_ns, gap_ns))
        run = self.requester.run(now_ns, (until_ns - begins_ns) // gap_ns + 1)
        if run is None:
            return None
        many = run.heads.many
        self._pace(now_ns, gap_ns, many)
        self.counters.sent_packets += many
        self.counters.sent_octets += len(run.payload)
        self.informed.tell(self.rate.on_sent_run, now_ns, octets + self._wire_octets, many)
        return roce_run.seal(self.path, run.heads, run.payload, run.crcs)

    def _ahead(self) -> int:
        """A rate control that slows down has each packet sent at its time."""
        return self._ahead_ns if self.rate.rate_lab_bps >= self.rate.line.rate.bps else 0

    def _earliest_ns(self, now_ns: int, gap_ns: int) -> int:
        return now_ns if self._was_idle else now_ns - _CATCH_UP * gap_ns

    def _pace(self, now_ns: int, gap_ns: int, many: int) -> None:
        self._next_ns = max(self._next_ns, self._earliest_ns(now_ns, gap_ns)) + many * gap_ns
        self._was_idle = False

    def _answer(self, packet: Packet) -> bytes:
        """An acknowledgement, with what the newest packet has collected on its way."""
        returned, self._returned = self._returned, None
        return self._sealed(packet if returned is None else packet._replace(telemetry=returned))

    def _sealed(self, packet: Packet) -> bytes:
        if packet.deth is not None and (to := self.requester.sent_to) is not None:
            path = _path(self.path.source, to.address, self.path.source_port)
            return Addressed.of(path.seal(roce.encode(packet)), to.address)
        return self.path.seal(roce.encode(packet))

    def _on_deadline(self, now_ns: int) -> None:
        went_back = self.counters.went_back
        self.requester.on_timer(now_ns)
        self.responder.on_timer(now_ns)
        if self.requester.failure:
            self.fail(self.requester.failure)
        if self.counters.went_back != went_back:
            self.informed.tell(self.rate.on_loss, now_ns)
        self.informed.bring_up(now_ns)

    @property
    def deadline_ns(self) -> int:
        """The latest moment at which `transmit` or `notification` has something to do; 0 if now."""
        if self.state is State.FAILED:
            return NEVER
        deadline_ns = self._cnps_due_ns[0] if self._cnps_due_ns else NEVER
        if self.state is State.CONNECTING:
            return deadline_ns
        deadline_ns = min(
            deadline_ns, self.responder.deadline_ns, self.requester.deadline_ns, self.informed.deadline_ns
        )
        if self.rate.window is not None:
            self.requester.limit(self.rate.window)
        ready_ns = 0 if self.responder.has_response else self.requester.ready_ns
        # Before the port has sent what it was given.
        return min(deadline_ns, max(ready_ns, self._next_ns - self._ahead() // 3)) if ready_ns != NEVER else deadline_ns
