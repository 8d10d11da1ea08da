"""A host's RoCE endpoint: queue pairs, registered memory, connection management, and what is refused. Sans-I/O.

Datagrams of UDP port 4791 go in with the ECN field that they came with; `outgoing` gives what has to be sent, and
`deadline_ns` when to call again. Each queue pair sends from a UDP port that follows by a rule (`source_port`), so that
the networks between can spread flows, and the peer can tell which one to expect.

Connections are made by the connection manager's REQ, REP and RTU. The request's private data, 56 octets, are the
user's; `listen` has a function that answers them, and can refuse. A request that gets no reply is sent again, each time
after twice the time. For datagrams (UD) SIDR REQ and SIDR REP take their place: they tell the numbers of both ends, the
PSN that the asker begins with, and the Q_Key. What is the asker's is in the request's private data. `is_settled` says
when all connections are made, with none of their messages under way.

All that a peer sends and that is not understood, not intact or for no queue pair is counted in `refused` by its reason.
"""

from __future__ import annotations

import enum
import struct
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import TYPE_CHECKING

from testbed.errors import XoffError
from testbed.frames import roce, roce_cm
from testbed.frames.roce import Opcode, Packet, Service
from testbed.roce import rates
from testbed.roce.memory import Region
from testbed.roce.nic import PLAIN, NicTiming
from testbed.roce.queue_pair import Addressed, CnpPace, QueuePair, State
from testbed.roce.rates.base import Maker
from testbed.roce.sequence import psn
from testbed.roce.settings import CnpModeration, CnpScope, RoceError, Settings, Timing
from testbed.roce.source_port import QUEUE_PAIR, PortRule, from_number, source_port
from testbed.units import NEVER, Line

if TYPE_CHECKING:
    from testbed.roce.services.receives import Receives

_CE = 3
FIRST_QP = 0x100
MOST_QUEUE_PAIRS = 4096
_FIRST_KEY = 0x1000
_NOT_SERVED = 1
"""The status of a reply for datagrams that refuses: the service ID is not supported."""
_MOST_REQUESTS = 5
"""The most requests for one connection."""
_LOST_AFTER = 4
"""An answer counts as lost after so many times the time after which a request is sent again."""
_MOST_ASKED = 32
"""The most connections that a host asks for at a time, so that their messages find room in buffers."""


class DatagramKind(enum.Enum):
    """The kind of a datagram, which decides on its priority and DSCP."""

    DATA = "data"  # of a queue pair: requests, read responses, acknowledgements
    NOTIFICATION = "notification"
    MANAGEMENT = "management"


@dataclass(frozen=True)
class Outgoing:
    """A datagram for port 4791 of `to`, from the UDP port `source_port`."""

    kind: DatagramKind
    to: str
    source_port: int
    datagram: bytes


_DATAGRAMS = struct.Struct("!II")
"""Private data of a request for datagrams: the queue pair that asks, and its first PSN."""
Answer = Callable[[roce_cm.Request | roce_cm.DatagramRequest, QueuePair], bytes | None]
"""The answer to a request for a connection: private data for the reply, or None to refuse."""


@lru_cache(4096)
def _address(text: str) -> IPv4Address | IPv6Address:
    return ip_address(text)


@lru_cache(4096)
def _management_path(source: str, destination: str, source_port: int) -> roce.Path:
    """Return the path of the connection manager's messages, of which two hosts exchange some for each connection."""
    return roce.Path(source, destination, source_port)


def _first_psn(number: int) -> int:
    """Return the PSN that a queue pair begins with if it may choose: another one for each. The last ones wrap soon, so
    that wrapping is nothing special.

    It is the receiver that chooses: REQ and REP say with which PSN the other end shall begin. Who accepts a connection
    names the one that the queue pair of a peer like itself has chosen.
    """
    return (number * 0x9E3779) & 0xFFFFFF


@dataclass
class _Asking:
    """A connection that has been asked for."""

    queue_pair: QueuePair
    request: roce_cm.Request | roce_cm.DatagramRequest
    port_rule: PortRule
    due_ns: int
    """When the next request is sent."""
    tries: int = 0


@dataclass
class _Answers:
    """The answers to a host's messages for one connection: REP or REJ to each REQ, and RTU to each REP."""

    sent: int = 0
    came: int = 0
    lost_ns: int = 0
    """The moment from which those that have not come count as lost."""


def _to(pair: QueuePair, datagram: bytes) -> str:
    """Return the address that a datagram of a queue pair goes to."""
    return datagram.to if isinstance(datagram, Addressed) else pair.far_address


class Endpoint:
    """The RoCE endpoint of a host: its queue pairs and connections."""

    def __init__(
        self,
        address: str | Sequence[str],
        line: Line,
        settings: Settings | None = None,
        first: int = FIRST_QP,
        rests: Collection[int] = (),
    ) -> None:
        """`address` is the host's, or several, of which queue pairs have the first one of the peer's IP version;
        `first` is the number of the first queue pair, and `rests` are the DSCPs that switches give to what they trim.
        """
        self.addresses = (address,) if isinstance(address, str) else tuple(address)
        self.first = first
        self.rests = frozenset(rests)
        self.settings = settings or Settings()
        self.queue_pairs: dict[int, QueuePair] = {}
        self.refused: Counter[str] = Counter()
        self._line = line
        self._timing = Timing.of(self.settings, line.scale)
        self._memory: dict[int, Region] = {}
        self._registered = 0
        self._services: dict[int, tuple[Answer, Maker, PortRule, NicTiming, Service]] = {}
        self._shared_receives: dict[tuple[int, int, int], Receives] = {}
        """The shared receive queues, by their numbers of NicTiming."""
        self._to_ask: deque[_Asking] = deque()
        """The connections that are asked for when fewer of the next are under way."""
        self._asking: dict[int, _Asking] = {}
        """The connections that have been asked for and not been answered, by the numbers of their queue pairs."""
        self._unanswered: dict[int, _Answers] = {}
        """The connections with answers that are to come, by the numbers of their queue pairs."""
        self._connected: set[int] = set()
        """The queue pairs whose connections have been accepted by the peer, which may repeat that."""
        self._accepted: dict[tuple[str, int], tuple[QueuePair, roce_cm.Reply | roce_cm.DatagramReply, int]] = {}
        """The accepted connections, by the peer's address and communication ID."""
        self._cnp_paces: dict[str, CnpPace] = {}
        """The state that queue pairs share, by the sender's address, or all of them."""
        self._management: list[Outgoing] = []
        self._transaction = 0

    def address_to(self, far: str) -> str:
        """Return the host's address of the same IP version as that of a peer."""
        for address in self.addresses:
            if (":" in address) is (":" in far):
                return address
        version = 6 if ":" in far else 4
        raise RoceError(f"{', '.join(self.addresses)} is no IPv{version} address, and {far} is one")

    def register(self, region: Region) -> int:
        """Let peers use memory, and return the key that they need."""
        key = _FIRST_KEY + self._registered
        self._registered += 1
        self._memory[key] = region
        return key

    def listen(
        self,
        port: int,
        answer: Answer,
        rate_control: str | Maker = "fixed",
        port_rule: PortRule = QUEUE_PAIR,
        *,
        nic: NicTiming = PLAIN,
        service: Service = Service.RC,
    ) -> None:
        """Take connections to a service; `port_rule` and the way of recovery in `nic` are those of the peer too."""
        maker = rates.maker_of(rate_control)
        self._services[roce_cm.service_id(port, service)] = answer, maker, port_rule, nic, service

    def connect(
        self,
        address: str,
        port: int,
        at_ns: int | None = None,
        *,
        rate_control: str | Maker = "fixed",
        private: bytes = b"",
        traffic_class: int = 0,
        port_rule: PortRule = QUEUE_PAIR,
        nic: NicTiming = PLAIN,
        service: Service = Service.RC,
    ) -> QueuePair:
        """Ask for a connection, and return the queue pair that it will be, for which works may be posted at once.

        It is asked for at `at_ns`; None: as soon as few others are.
        """
        if len(self.queue_pairs) >= MOST_QUEUE_PAIRS:
            raise RoceError(f"{self.addresses[0]} has {MOST_QUEUE_PAIRS} queue pairs; that is the most")
        made = self._make(address, rates.control(rate_control, self._line), nic, None, service=service)
        request = self._request(made, port, private, traffic_class=traffic_class, nic=nic)
        asking = _Asking(made, request, port_rule, at_ns or 0)
        if at_ns is None:
            self._to_ask.append(asking)
        else:
            self._asking[made.number] = asking
        return made

    def join(
        self,
        far_address: str,
        far_qp: int,
        *,
        first: int,
        far_first: int = 0,
        rate_control: str | Maker = "fixed",
        port_rule: PortRule = QUEUE_PAIR,
        nic: NicTiming = PLAIN,
        service: Service = Service.RC,
        q_key: int = roce_cm.DATAGRAM_KEY,
    ) -> QueuePair:
        """Return a queue pair whose far end is known without the connection manager. The PSNs are those that each end
        begins with; of a far end that sends datagrams none has to be known.
        """
        made = self._make(
            far_address, rates.control(rate_control, self._line), nic, first, service=service, q_key=q_key
        )
        self._establish(made, far_qp, first, far_first, port_rule)
        return made

    def _request(
        self, made: QueuePair, port: int, private: bytes, *, traffic_class: int, nic: NicTiming
    ) -> roce_cm.Request | roce_cm.DatagramRequest:
        """Return the request for the connection of a queue pair."""
        own, far = _address(self.address_to(made.far_address)), _address(made.far_address)
        service_id, from_port = roce_cm.service_id(port, made.service), from_number(made.number)
        if made.service is Service.UD:
            private = _DATAGRAMS.pack(made.number, psn(made.first)) + private
            return roce_cm.DatagramRequest(made.number, service_id, own, far, from_port, private)
        return roce_cm.Request(
            made.number,
            service_id,
            made.number,
            psn(made.first),
            self.settings.mtu,
            own,
            far,
            from_port,
            private,
            traffic_class=traffic_class,
            retries=min(self.settings.retries, roce_cm.MOST_RETRIES),
            rnr_retries=nic.rnr_retries,
            service=made.service,
            **({} if self.settings.ack_timeout is None else {"ack_timeout": self.settings.ack_timeout}),
        )

    def _make(
        self,
        far_address: str,
        rate: rates.RateControl,
        nic: NicTiming,
        first: int | None,
        *,
        service: Service,
        q_key: int = roce_cm.DATAGRAM_KEY,
    ) -> QueuePair:
        number = self.first + len(self.queue_pairs)
        path = roce.Path(self.address_to(far_address), far_address, from_number(number))
        made = QueuePair(
            number,
            far_address,
            path,
            first=_first_psn(number) if first is None else first,
            settings=self.settings,
            timing=self._timing,
            memory=self._memory,
            rate=rate,
            nic=nic,
            cnp_pace=self._cnp_pace(far_address),
            service=service,
            q_key=q_key,
            receives=self._receives(nic) if nic.shares_receives else None,
        )
        self.queue_pairs[number] = made
        return made

    def _receives(self, nic: NicTiming) -> Receives:
        """Return the shared receive queue of a NIC's queue pairs."""
        from testbed.roce.services.receives import Receives

        key = nic.receives, nic.receive_ns, nic.receive_limit
        return self._shared_receives.setdefault(key, Receives(nic))

    def _cnp_pace(self, far_address: str) -> CnpPace:
        moderation = self.settings.cnp_moderation
        if moderation is CnpModeration.FLOW:
            return CnpPace()
        return self._cnp_paces.setdefault(far_address if moderation is CnpModeration.ADDRESS else "", CnpPace())

    # What comes in

    def receive(
        self,
        datagram: bytes,
        ds_field: int,
        now_ns: int,
        source_port: int | None = None,
        source: str | None = None,
    ) -> QueuePair | None:
        """A datagram of port 4791; the queue pair that took it.

        The ICRC covers the UDP port that a packet comes from. `source_port` is that port where the caller knows it, as
        it has to of peers with rules of their own, such as Linux's Soft-RoCE; else it is the port by the peer's rule.
        `source` is the address, without which datagrams (UD) have to be of the far end of their queue pair.
        """
        try:
            packet = roce.parse(datagram)
            if packet.opcode == Opcode.DATAGRAM and packet.destination_qp <= roce_cm.CM_QP:
                self._on_management(packet, datagram, source_port, now_ns)
                return None
        except (roce.RocePacketError, roce_cm.CmError) as error:
            if not self._takes_rest(datagram, ds_field):
                self.refused[error.reason] += 1
            return None
        found = self.queue_pairs.get(packet.destination_qp)
        if found is None:
            self._refuse("queue_pair_not_known")
            return None
        if found.far_path is None or found.state is State.FAILED:
            self._refuse("queue_pair_not_ready")
            return None
        far = source if source is not None and found.service is Service.UD else found.far_address
        port = found.far_path.source_port if source_port is None else source_port
        if (far, port) != (found.far_path.source, found.far_path.source_port):
            found.far_path = roce.Path(far, self.address_to(far), port)
        if not found.far_path.intact(datagram):
            if not self._takes_rest(datagram, ds_field):
                self._refuse(roce.RoceReason.BAD_ICRC)
            return None
        if not roce.is_of(packet.opcode, found.service):
            self._refuse(roce.RoceReason.OTHER_SERVICE)
            return None
        found.receive(packet, ds_field & 3 == _CE, now_ns)
        if packet.opcode == Opcode.CNP and self.settings.cnp_scope is CnpScope.PRIORITY:
            for other in self.queue_pairs.values():
                if other is not found and other.priority == found.priority:
                    other.on_cnp(now_ns)
        return found

    def _takes_rest(self, datagram: bytes, ds_field: int) -> bool:
        """Count a packet that is not intact and has a DSCP of rests for its queue pair: a switch has trimmed it."""
        if ds_field >> 2 not in self.rests:
            return False
        pair = self.queue_pairs.get(int.from_bytes(datagram[5:8]))
        if pair is None or not pair.takes_rest(datagram):
            return False
        self._refuse(roce.RoceReason.TRIMMED)
        return True

    def _refuse(self, reason: str) -> None:
        self.refused[reason] += 1

    def _on_management(self, packet: Packet, datagram: bytes, source_port: int | None, now_ns: int) -> None:
        if packet.destination_qp != roce_cm.CM_QP or packet.deth is None or packet.deth.q_key != roce_cm.Q_KEY:
            self._refuse("management_key")
            return
        message, _ = roce_cm.parse(packet.payload)
        if isinstance(message, roce_cm.Request | roce_cm.DatagramRequest):
            if self._intact(datagram, str(message.source), source_port):
                self._on_request(message, now_ns)
            return
        pair = self.queue_pairs.get(message.addressee)
        if pair is None:
            self._refuse("connection_not_known")
        elif self._intact(datagram, pair.far_address, source_port):
            self._answered(pair.number)
            if not isinstance(message, roce_cm.Ready):  # no data wait for an RTU: they may come before it
                self._on_reply(pair, message)

    def _intact(self, datagram: bytes, source: str, source_port: int | None) -> bool:
        port = from_number(roce_cm.CM_QP) if source_port is None else source_port
        try:
            intact = _management_path(source, self.address_to(source), port).intact(datagram)
        except XoffError:  # the host has no address of that version
            intact = False
        if not intact:
            self._refuse(roce.RoceReason.BAD_ICRC)
        return intact

    def _on_request(self, request: roce_cm.Request | roce_cm.DatagramRequest, now_ns: int) -> None:
        source = str(request.source)
        known = self._accepted.get((source, request.communication_id))
        if known is not None:
            self._reply(known[0], known[1], now_ns)
            return
        listening = self._services.get(request.service_id)
        reason, private = roce_cm.RejectReason.INVALID_SERVICE_ID, None
        port_rule: PortRule = QUEUE_PAIR
        if listening is not None and len(self.queue_pairs) < MOST_QUEUE_PAIRS and self._fits(request, listening[-1]):
            answer, maker, port_rule, nic, service = listening
            reason = roce_cm.RejectReason.CONSUMER_REJECT
            first = request.psn if isinstance(request, roce_cm.Request) else None
            made = self._make(source, maker(self._line), nic, first, service=service)
            private = answer(request, made)
            if private is None:
                made.fail("refused")
        if private is None:
            self._refuse("connection_refused")
            if isinstance(request, roce_cm.Request):
                self._manage(source, roce_cm.Reject(0, request.communication_id, reason))
            else:
                no = roce_cm.DatagramReply(request.communication_id, 0, request.service_id, 0, status=_NOT_SERVED)
                self._manage(source, no)
            return
        reply: roce_cm.Reply | roce_cm.DatagramReply
        if isinstance(request, roce_cm.Request):
            far_qp, awaited = request.qp, _first_psn(request.qp)
            reply = roce_cm.Reply(made.number, request.communication_id, made.number, awaited, private)
        else:
            far_qp, awaited = _DATAGRAMS.unpack_from(request.private)
            key = roce_cm.DATAGRAM_KEY
            reply = roce_cm.DatagramReply(request.communication_id, made.number, request.service_id, key, private)
        self._accepted[source, request.communication_id] = made, reply, far_qp
        self._establish(made, far_qp, made.first, awaited, port_rule)
        self._reply(made, reply, now_ns)

    def _fits(self, request: roce_cm.Request | roce_cm.DatagramRequest, service: Service) -> bool:
        """Return True if a request is for a queue pair as a service has them."""
        if isinstance(request, roce_cm.Request):
            return request.service is service and request.mtu == self.settings.mtu
        return True

    def _reply(self, pair: QueuePair, reply: roce_cm.Reply | roce_cm.DatagramReply, now_ns: int) -> None:
        if isinstance(reply, roce_cm.Reply):
            self._await(pair.number, now_ns)
        self._manage(pair.far_address, reply)

    def _on_reply(self, pair: QueuePair, message: roce_cm.Reply | roce_cm.Reject | roce_cm.DatagramReply) -> None:
        asking = self._asking.pop(pair.number, None)
        if asking is None and (isinstance(message, roce_cm.Reject) or pair.number not in self._connected):
            self._refuse("connection_not_known")
            return
        if isinstance(message, roce_cm.Reject):
            pair.fail(f"{pair.far_address} refuses the connection, reason {message.reason}")
            return
        if isinstance(message, roce_cm.DatagramReply):
            self._on_datagram_reply(pair, asking, message)
            return
        if asking is not None and isinstance(asking.request, roce_cm.Request):
            self._connected.add(pair.number)
            pair.reply = message.private
            self._establish(pair, message.qp, message.psn, asking.request.psn, asking.port_rule)
        self._manage(pair.far_address, roce_cm.Ready(pair.number, message.communication_id))

    def _on_datagram_reply(self, pair: QueuePair, asking: _Asking | None, message: roce_cm.DatagramReply) -> None:
        if message.status:
            pair.fail(f"{pair.far_address} has no queue pair for datagrams of this service, status {message.status}")
        elif asking is not None:
            self._connected.add(pair.number)
            pair.reply = message.private
            self._establish(pair, message.qp, pair.first, 0, asking.port_rule)

    def _establish(self, pair: QueuePair, far_qp: int, first: int, far_first: int, port_rule: PortRule) -> None:
        """Both ends of a connection are known, and with them the ports that they send from."""
        own, far = self.address_to(pair.far_address), pair.far_address
        pair.path = roce.Path(own, far, source_port(port_rule, pair.number, far_qp))
        far_path = roce.Path(far, own, source_port(port_rule, far_qp, pair.number))
        pair.established(far_qp, first, far_first, far_path)

    def _manage(self, to: str, message: roce_cm.Message) -> None:
        self._transaction += 1
        port = from_number(roce_cm.CM_QP)
        packet = roce_cm.packet(message, self._transaction, psn(self._transaction))
        sealed = _management_path(self.address_to(to), to, port).seal(roce.encode(packet))
        self._management.append(Outgoing(DatagramKind.MANAGEMENT, to, port, sealed))

    # What goes out

    def management(self, now_ns: int) -> Iterator[Outgoing]:
        """Return the messages of the connection manager that have to be sent."""
        while self._may_ask:
            asking = self._to_ask.popleft()
            self._asking[asking.queue_pair.number] = asking
        for asking in [one for one in self._asking.values() if one.due_ns <= now_ns]:
            self._ask(asking, now_ns)
        for number in [number for number, one in self._unanswered.items() if one.lost_ns <= now_ns]:
            del self._unanswered[number]
        found, self._management = self._management, []
        return iter(found)

    @property
    def _may_ask(self) -> bool:
        return bool(self._to_ask) and len(self._asking) < _MOST_ASKED

    def _ask(self, asking: _Asking, now_ns: int) -> None:
        pair = asking.queue_pair
        if asking.tries >= _MOST_REQUESTS:
            del self._asking[pair.number]
            self._unanswered.pop(pair.number, None)
            pair.fail(f"{pair.far_address} does not answer {asking.tries} requests")
            return
        asking.tries += 1
        asking.due_ns = now_ns + self._await(pair.number, now_ns)
        self._manage(pair.far_address, asking.request)

    def _await(self, number: int, now_ns: int) -> int:
        """Note that an answer is to come; the time after which a request is sent again, twice as long each time."""
        answers = self._unanswered.setdefault(number, _Answers())
        again_ns = self._timing.connect_ns << answers.sent
        answers.sent += 1
        answers.lost_ns = now_ns + _LOST_AFTER * again_ns
        return again_ns

    def _answered(self, number: int) -> None:
        answers = self._unanswered.get(number)
        if answers is not None:
            answers.came += 1
            if answers.came >= answers.sent:
                del self._unanswered[number]

    @property
    def is_settled(self) -> bool:
        """True if no connection is being made, and all messages of those that were made have arrived or are lost."""
        return not (self._to_ask or self._asking or self._unanswered or self._management)

    def outgoing(self, now_ns: int, most: int = 64) -> list[Outgoing]:
        """Return the datagrams to be sent now, up to `most` of each queue pair."""
        found = list(self.management(now_ns))
        for pair in self.queue_pairs.values():
            if pair.deadline_ns <= now_ns:
                found += self.outgoing_of(pair, now_ns, most)
        return found

    @staticmethod
    def outgoing_of(pair: QueuePair, now_ns: int, most: int) -> list[Outgoing]:
        """Return the datagrams that one queue pair has to send now."""
        found, port = [], pair.path.source_port
        if (notification := pair.notification(now_ns)) is not None:
            found.append(Outgoing(DatagramKind.NOTIFICATION, _to(pair, notification), port, notification))
        found += [Outgoing(DatagramKind.DATA, _to(pair, one), port, one) for one in pair.transmit(now_ns, most)]
        return found

    @property
    def management_deadline_ns(self) -> int:
        """The moment at which `management` has something to do; 0 if now."""
        if self._management or self._may_ask:
            return 0
        moments = [asking.due_ns for asking in self._asking.values()]
        return min([*moments, *(answers.lost_ns for answers in self._unanswered.values())], default=NEVER)

    @property
    def deadline_ns(self) -> int:
        """The moment at which `outgoing` has something to do; 0 if now."""
        pairs = min((pair.deadline_ns for pair in self.queue_pairs.values()), default=NEVER)
        return min(self.management_deadline_ns, pairs)
