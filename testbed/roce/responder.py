"""The half of a queue pair that answers: it takes writes and sends, serves reads, does atomic operations, acknowledges.

Packets are taken in the order of their PSNs. An earlier one than the expected is a duplicate: a read is served again,
an atomic operation gets the answer that it got, and anything else is acknowledged again. A later one means loss: one
NAK for the expected PSN, and no other until that has come. A NIC that waits for packets which other ways delay, and one
with selective repeat, keeps later ones until it is their turn; selective repeat says in each NAK which those are. With
go-back-0 a loss ends the message, which then begins again. A message that needs a receive and finds none posted is
refused for a while by an RNR NAK.

An atomic operation is done once: of the last 16 the responder remembers what was there, for it sends that again to a
requester that has not got it. One of which it knows nothing any more it drops (class D of the errors of responders).

Acknowledgements are coalesced: one for all packets that came in since the last call of `answer`.

Runs in C: `testbed/lab/um/linux/xoff_roce_user.c`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import MutableMapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from testbed.frames import roce_run
from testbed.frames.roce import (
    ASKING,
    FIRSTS,
    LASTS,
    MAXIMUM_MESSAGE,
    SENDS,
    Aeth,
    Nak,
    Opcode,
    Packet,
    Path,
    head_of,
)
from testbed.frames.roce_run import Heads, PacketRun
from testbed.roce.counters import Counters
from testbed.roce.memory import WORD_OCTETS, MemoryFault, Region
from testbed.roce.nic import PLAIN, Jitter, NicTiming, Recovery
from testbed.roce.order import Order, Orders
from testbed.roce.selective import bitmap
from testbed.roce.sequence import psn, sequence
from testbed.roce.settings import Settings
from testbed.units import NEVER

if TYPE_CHECKING:
    from testbed.roce.services.receives import Receives

_MOST_READS = 16
"""Reads and atomic operations that wait for their response; a peer that sends more has asked for one at a time, or is
broken."""
_MSN_MASK = 0xFFFFFF
_MASK_64 = (1 << 64) - 1
_SEND_MIDDLE, _WRITE_MIDDLE = (head_of(opcode, 0)[:2] for opcode in (Opcode.SEND_MIDDLE, Opcode.WRITE_MIDDLE))


@dataclass(frozen=True)
class Received:
    """A send has come, or a write with immediate data."""

    octets: int
    immediate: int | None
    source_qp: int = 0
    """The queue pair that a datagram comes from."""


@dataclass
class Message:
    """A write or send that is coming in."""

    region: Region
    address: int
    left: int | None  # of a write
    is_send: bool
    first: int
    octets: int = 0


@dataclass
class _Serving:
    """A read that is being served, or an atomic operation that is to be answered."""

    region: Region | None
    address: int
    left: int
    number: int
    is_first: bool = True
    original: int | None = None
    """The number before an atomic operation."""


class Responder:
    """The responder of one queue pair, which carries out the peer's requests."""

    def __init__(
        self,
        far_qp: int,
        expected: int,
        settings: Settings,
        memory: MutableMapping[int, Region],
        *,
        nic: NicTiming = PLAIN,
        jitter: Jitter | None = None,
        counters: Counters | None = None,
        receives: Receives | None = None,
    ) -> None:
        """`receives` are those of a shared receive queue."""
        self.far_qp = far_qp
        self._receives = receives
        self._settings, self._nic = settings, nic
        self._jitter = jitter or Jitter(0, 0)
        self._memory = memory
        self._expected = expected
        self._message: Message | None = None
        self._reads: deque[_Serving] = deque()
        self._originals: deque[tuple[int, int]] = deque(maxlen=_MOST_READS)
        """What was there before the last atomic operations, by their numbers."""
        self._msn = 0
        self._ack_is_due = self._nak_is_due = self._nak_was_sent = False
        self._refusal: Nak | None = None
        self.receive_into: Region | None = None
        """The regions that take the data of sends, one after the other."""
        self._receive_address = 0
        self._early: dict[int, Packet] = {}
        """Packets that have come behind a missing one."""
        self._latest = self._furthest = 0  # of these: the one that came last, and the highest that ever came
        self._gap_ns, self._gap_is_told = NEVER, False
        """The moment at which the expected packet is taken for lost, and whether that has been told."""
        self._rnr_is_due = self._waits_for_receive = False
        self._answer_ns = 0
        """The moment from which on an answer that is due may be sent."""
        self._busy_ns = 0
        """The moment at which all receives are posted again."""
        self.counters = counters or Counters()
        self.received: list[Received] = []
        self._served = 0
        self.failure = ""
        self.orders = Orders(Order(expected), Order(0))

    @property
    def has_response(self) -> bool:
        return bool(self._reads)

    @property
    def answer_ns(self) -> int:
        """The moment to send the next acknowledgement; NEVER if none is due, or if reads have to be answered before."""
        is_due = self._nak_is_due or self._rnr_is_due
        is_due = is_due or (self._ack_is_due and (self._refusal is not None or not self._reads))
        return self._answer_ns if is_due else NEVER

    @property
    def deadline_ns(self) -> int:
        """The moment at which `on_timer` or `answer` has something to do."""
        return self.answer_ns if self._gap_is_told else min(self.answer_ns, self._gap_ns)

    @property
    def expected(self) -> int:
        """The sequence number of the packet that comes next."""
        return self._expected

    def expect(self, number: int) -> None:
        """The PSN that the peer begins with."""
        self._expected = self._served = number

    def place_by_number(self, message: int) -> None:
        """Put sends where their numbers say; a reliable connection has them all, one after the other."""

    def on_request(self, packet: Packet, now_ns: int) -> None:
        """A packet of a send, a write or a read request."""
        if self.failure:
            return
        number = sequence(packet.psn, self._expected)
        if self._nic.recovery is Recovery.GO_BACK_0:
            self._begin_again(packet, number)
        if number > self._expected:
            self._come_early(packet, number, now_ns)
        elif number < self._expected:
            self.counters.duplicates += 1
            if packet.opcode not in ASKING:
                self._ack_is_due = True
            elif packet.atomic is None:
                self._serve(packet, number)
            else:
                self._answer_again(number)
        else:
            self._accept(packet, number, now_ns)
            while self._expected > number and not self.failure and self._expected in self._early:
                number = self._expected
                self._accept(self._early.pop(number), number, now_ns)
            if self._nic.keeps:
                self._look_for_gap(now_ns)
        self._owe(now_ns)

    def _begin_again(self, packet: Packet, number: int) -> None:
        """Go-back-0: a gap in a message, or its first packet once more, lets the message begin again."""
        message = self._message
        if message is None or not (number > self._expected or (number == message.first and packet.opcode in FIRSTS)):
            return
        message.region.begin_again(message.address - message.octets)
        self._expected = message.first
        self.give_back()
        self._message = None

    def _come_early(self, packet: Packet, number: int, now_ns: int) -> None:
        """A packet behind a missing one."""
        self.counters.out_of_order += 1
        if not self._nic.keeps:
            self._nak_is_due |= not self._nak_was_sent
            self._nak_was_sent = True
            return
        beyond = number - self._expected
        if beyond < self._nic.keeps and number not in self._early:
            self._early[number] = packet
            self.counters.kept += 1
            self._latest, self._furthest = number, max(self._furthest, number)
        if self._waits_for_receive:
            return
        if self._gap_ns == NEVER:
            self._gap_ns = now_ns + self._nic.reorder_ns
        if beyond >= self._nic.reorder_packets:
            self._gap_ns = min(self._gap_ns, now_ns)
        self._tell_gap(now_ns, again=self._nic.is_selective)

    def _tell_gap(self, now_ns: int, *, again: bool) -> None:
        if self._gap_ns <= now_ns and (again or not self._gap_is_told):
            self._nak_is_due = self._gap_is_told = True

    def _look_for_gap(self, now_ns: int) -> None:
        """After packets were taken: is one missing before those that are kept?"""
        self._gap_ns, self._gap_is_told = NEVER, False
        if self._early and not self._waits_for_receive:
            self._gap_ns = now_ns + self._nic.reorder_ns
            self._tell_gap(now_ns, again=False)

    def on_timer(self, now_ns: int) -> None:
        """The time that a gap may last."""
        if not self.failure and not self._gap_is_told and self._gap_ns <= now_ns:
            self._tell_gap(now_ns, again=False)
            self._owe(now_ns)

    def _owe(self, now_ns: int) -> None:
        """Let an answer that has become due take its time."""
        if not self._nic.ack_ns:
            return
        if not (self._ack_is_due or self._nak_is_due or self._rnr_is_due):
            self._answer_ns = 0
        elif not self._answer_ns:
            self._answer_ns = now_ns + self._jitter.delay(self._nic.ack_ns)

    def _accept(self, packet: Packet, number: int, now_ns: int) -> None:
        """The expected packet."""
        self._nak_was_sent = self._nak_is_due = self._waits_for_receive = False
        if packet.opcode >= Opcode.READ_REQUEST and packet.opcode in ASKING:
            if packet.atomic is None:
                self._read(packet, number)
            else:
                self._change(packet, number)
        elif self._has_receive(packet, now_ns):
            self._take(packet, now_ns)
        else:
            self._rnr_is_due = self._waits_for_receive = self._nak_was_sent = True

    def _has_receive(self, packet: Packet, now_ns: int) -> bool:
        """Return False for a packet that needs a receive and finds none posted."""
        if not self._needs_receive(packet):
            return True
        if self._receives is not None:
            return self._receives.free(now_ns) > 0
        in_use = -(-max(0, self._busy_ns - now_ns) // self._nic.receive_ns)
        return in_use < self._nic.receives

    def _needs_receive(self, packet: Packet) -> bool:
        """Return True for a packet that needs a receive, where there may be none."""
        if self._receives is None and not (self._nic.receives and self._nic.receive_ns):
            return False
        begins_send = packet.opcode in SENDS and packet.opcode in FIRSTS
        return begins_send or (packet.immediate is not None and packet.opcode not in SENDS)

    def _read(self, packet: Packet, number: int) -> None:
        assert packet.reth is not None
        if self._message is not None:
            self._refuse(Nak.INVALID_REQUEST, "a read begins within a message")
        elif self._has_room_for_read() and self._serve(packet, number):
            self._expected += max(1, -(-packet.reth.length // self._settings.mtu))
            self._msn += 1
            # Requests for parts of it that were kept are answered with the whole.
            for part in range(number + 1, min(self._expected, number + self._nic.keeps)):
                self._early.pop(part, None)

    def _serve(self, packet: Packet, number: int) -> bool:
        """Serve a read, from anew if it is asked for again."""
        assert packet.reth is not None
        address, r_key, length = packet.reth
        region = self._memory.get(r_key)
        if region is None or address + length > region.size or length > MAXIMUM_MESSAGE:
            self._refuse(Nak.REMOTE_ACCESS_ERROR, f"a read of {length} octets at {address} with key {r_key:#x}")
            return False
        return self._queue(_Serving(region, address, length, number))

    def _queue(self, serving: _Serving) -> bool:
        """Let a response be sent when those before it have been; what was asked for behind it is asked for again."""
        if self._nic.is_selective:  # it asks for parts of reads, beside others
            if self._has_room_for_read():
                self._reads.append(serving)
            return True
        while self._reads and self._reads[-1].number >= serving.number:
            self._reads.pop()
        if len(self._reads) >= _MOST_READS:
            self._refuse(Nak.INVALID_REQUEST, f"more than {_MOST_READS} reads at a time")
            return False
        self._reads.append(serving)
        return True

    def _change(self, packet: Packet, number: int) -> None:
        """Do an atomic operation, and remember what was there."""
        assert packet.atomic is not None
        address, r_key, data, compare = packet.atomic
        if self._message is not None:
            return self._refuse(Nak.INVALID_REQUEST, "an atomic operation begins within a message")
        if not self._has_room_for_read():
            return None
        region = self._memory.get(r_key)
        if region is None or address + WORD_OCTETS > region.size:
            return self._refuse(Nak.REMOTE_ACCESS_ERROR, f"an atomic operation at {address} with key {r_key:#x}")
        if address % WORD_OCTETS:
            return self._refuse(Nak.INVALID_REQUEST, f"an atomic operation at {address}, which is no multiple of 8")
        if len(self._reads) >= _MOST_READS:
            return self._refuse(Nak.INVALID_REQUEST, f"more than {_MOST_READS} reads at a time")
        try:
            if packet.opcode == Opcode.FETCH_ADD:
                original = region.change(address, lambda there: there + data & _MASK_64)
            else:
                original = region.change(address, lambda there: data if there == compare else there)
        except MemoryFault:
            return self._refuse(Nak.REMOTE_ACCESS_ERROR, f"an atomic operation at {address} with key {r_key:#x}")
        self._originals.append((number, original))
        self._reads.append(_Serving(region, address, 0, number, original=original))
        self._expected += 1
        self._msn += 1
        self.counters.messages += 1
        return None

    def _answer_again(self, number: int) -> None:
        """Answer an atomic operation that has been done as it was answered."""
        for done, original in self._originals:
            if done == number:
                self._queue(_Serving(None, 0, 0, number, original=original))

    def _has_room_for_read(self) -> bool:
        """Return False if a read is not taken for now; its requester asks again when its timer ends."""
        return not self._nic.is_selective or len(self._reads) < _MOST_READS

    def _take(self, packet: Packet, now_ns: int) -> None:
        """The next packet of a message."""
        if packet.opcode in FIRSTS:
            if self._message is not None:
                return self._refuse(Nak.INVALID_REQUEST, f"{packet.opcode.name} within a message")
            if not self._begin(packet):
                return None
            if self._receives is not None and packet.opcode in SENDS:
                self.counters.limit_events += self._receives.take(now_ns)
        message = self._message
        if message is None or message.is_send is not (packet.opcode in SENDS):
            return self._refuse(Nak.INVALID_REQUEST, f"{packet.opcode.name} without its first packet")
        is_last = packet.opcode in LASTS
        length = len(packet.payload)
        fits = length <= self._settings.mtu if is_last else length == self._settings.mtu
        if message.left is not None:
            message.left -= length
            fits = fits and (message.left == 0 if is_last else message.left > 0)
        if not fits:
            return self._refuse(Nak.INVALID_REQUEST, f"{packet.opcode.name} with {length} octets")
        try:
            if length:
                message.region.write(message.address, packet.payload)
        except MemoryFault as fault:
            return self._refuse(Nak.REMOTE_OPERATIONAL_ERROR, str(fault))
        if packet.invalidate is not None and self._memory.pop(packet.invalidate, None) is None:
            why = f"a send invalidates key {packet.invalidate:#x}, which no memory has"
            return self._refuse(Nak.REMOTE_ACCESS_ERROR, why)
        message.address += length
        message.octets += length
        self._expected += 1
        if is_last:
            self._end(packet, message, now_ns)
        self._ack_is_due |= packet.ack_request
        return None

    def take_run(self, path: Path, run: PacketRun) -> int:
        """Take packets in the middle of the message that is coming in, from the first one on; how many. What is not the
        next one, is not intact or means anything else is for `on_request`, after `parse`.
        """
        message, mtu, head = self._message, self._settings.mtu, run.head()
        if not self._nic.is_plain:
            return 0
        if message is None or self.failure or head[:2] != (_SEND_MIDDLE if message.is_send else _WRITE_MIDDLE):
            return 0
        if run.size != mtu:
            return 0
        first = psn(self._expected)
        many, asking = run.in_order(
            first, len(run) if message.left is None else min(len(run), (message.left - 1) // mtu)
        )
        octets = run.payload[: many * mtu]
        crcs = message.region.crcs(message.address, octets, mtu)
        right = roce_run.icrcs(path, Heads(head, first, many, asking), mtu, crcs)
        if not run.icrcs.startswith(right):
            many = next(at for at in range(0, many) if not run.icrcs.startswith(right[at * 4 : at * 4 + 4], at * 4))
            asking, octets = [place for place in asking if place < many], octets[: many * mtu]
        if not many:
            return 0
        try:
            message.region.write(message.address, octets)
        except MemoryFault:
            return 0  # one by one it is known which cannot be taken
        self._nak_was_sent = self._nak_is_due = False
        self._expected += many
        message.address += len(octets)
        message.octets += len(octets)
        if message.left is not None:
            message.left -= len(octets)
        self._ack_is_due |= bool(asking)
        return many

    def _begin(self, packet: Packet) -> bool:
        if packet.opcode in SENDS:
            if self.receive_into is None:
                self._refuse(Nak.INVALID_REQUEST, "a send, for which there is no memory")
                return False
            self._message = Message(self.receive_into, self._receive_address, None, True, self._expected)
            return True
        assert packet.reth is not None
        address, r_key, length = packet.reth
        region = self._memory.get(r_key)
        if region is None or address + length > region.size or length > MAXIMUM_MESSAGE:
            self._refuse(Nak.REMOTE_ACCESS_ERROR, f"a write of {length} octets at {address} with key {r_key:#x}")
            return False
        self._message = Message(region, address, length, False, self._expected)
        return True

    def _end(self, packet: Packet, message: Message, now_ns: int) -> None:
        self._message = None
        self._msn += 1
        self.counters.messages += 1
        if message.is_send:
            self._receive_address = message.address
        if message.is_send or packet.immediate is not None:
            self.counters.received += 1
            self.received.append(Received(message.octets, packet.immediate))
            if self._receives is not None:
                if not message.is_send:
                    self.counters.limit_events += self._receives.take(now_ns)
                self._receives.post_again(now_ns)
            elif self._nic.receives:
                self._busy_ns = max(self._busy_ns, now_ns) + self._nic.receive_ns

    def give_back(self) -> None:
        """Give the receive of the message that is coming in back to the shared queue: it does not come to its end."""
        if self._receives is not None and self._message is not None and self._message.is_send:
            self._message = None
            self._receives.put_back()

    def _refuse(self, code: Nak, why: str) -> None:
        self._refusal, self._ack_is_due = code, True
        self.failure = why
        self.give_back()

    def answer(self, now_ns: int) -> Packet | None:
        """The acknowledgement that is due, if one is. What follows a read waits until that is served."""
        if self._answer_ns > now_ns:
            return None
        made = self._answer()
        if made is not None:
            self._answer_ns = 0
        return made

    def _answer(self) -> Packet | None:
        if self._refusal is not None and self._ack_is_due:
            self._ack_is_due = self._nak_is_due = self._rnr_is_due = False
            return self._acknowledge(self._expected, self._refusal)
        if self._rnr_is_due:
            self._rnr_is_due = self._ack_is_due = self._nak_is_due = False
            return self._acknowledge(self._expected, None, self._nic.rnr_code)
        if self._nak_is_due:
            self._nak_is_due = self._ack_is_due = False
            return self._negative()
        if self._ack_is_due and not self._reads:
            self._ack_is_due = False
            return self._acknowledge(self._expected - 1, None)
        return None

    def _negative(self) -> Packet:
        """A NAK for the expected packet, which tells of none that may yet be refused for lack of a receive: the
        requester would never send that again."""
        if not self._nic.is_selective:
            return self._acknowledge(self._expected, Nak.SEQUENCE_ERROR)
        aeth = Aeth(self._msn & _MSN_MASK, Nak.SEQUENCE_ERROR)
        sure = {number for number, packet in self._early.items() if not self._needs_receive(packet)}
        there = bitmap(self._expected, sure, self._latest, self._furthest)
        return Packet(Opcode.SELECTIVE_ACKNOWLEDGE, self.far_qp, psn(self._expected), there, aeth=aeth)

    def _acknowledge(self, number: int, nak: Nak | None, rnr: int | None = None) -> Packet:
        aeth = Aeth(self._msn & _MSN_MASK, nak, rnr)
        return Packet(Opcode.ACKNOWLEDGE, self.far_qp, psn(number), aeth=aeth)

    def response(self) -> Packet:
        """The next packet of the oldest read or atomic operation; there is one if `has_response`."""
        serving = self._reads[0]
        if serving.original is not None:
            self._reads.popleft()
            self._count_response(serving)
            return Packet(
                Opcode.ATOMIC_ACKNOWLEDGE,
                self.far_qp,
                psn(serving.number),
                aeth=Aeth(self._msn & _MSN_MASK),
                original=serving.original,
            )
        length = min(self._settings.mtu, serving.left)
        is_last = serving.left == length
        if serving.is_first:
            opcode = Opcode.READ_RESPONSE_ONLY if is_last else Opcode.READ_RESPONSE_FIRST
        else:
            opcode = Opcode.READ_RESPONSE_LAST if is_last else Opcode.READ_RESPONSE_MIDDLE
        aeth = None if opcode == Opcode.READ_RESPONSE_MIDDLE else Aeth(self._msn & _MSN_MASK)
        assert serving.region is not None
        try:
            payload = serving.region.read(serving.address, length)
        except MemoryFault as fault:
            self._reads.clear()
            self._refuse(Nak.REMOTE_OPERATIONAL_ERROR, str(fault))
            self._ack_is_due = self._nak_is_due = self._rnr_is_due = False
            return self._acknowledge(self._expected, Nak.REMOTE_OPERATIONAL_ERROR)
        made = Packet(opcode, self.far_qp, psn(serving.number), payload, aeth=aeth)
        self._count_response(serving)
        serving.address += length
        serving.left -= length
        serving.number += 1
        serving.is_first = False
        if is_last:
            self._reads.popleft()
        return made

    def _count_response(self, serving: _Serving) -> None:
        if serving.number >= self._served:
            self._served = serving.number + 1
            self.counters.fresh += 1
        else:
            self.counters.retransmitted += 1
