"""The half of a queue pair that answers: it takes writes and sends, serves reads, and acknowledges.

Only the packet with the expected PSN is taken. An earlier one is a duplicate: a read is served again, anything else is
acknowledged again. A later one means loss: one NAK for the expected PSN, and no other until that has come. There are
always receive buffers, so no RNR NAK is ever sent. Acknowledgements are coalesced: one for all packets that came in
since the last call of `answer`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

from testbed.frames import roce_run
from testbed.frames.roce import (
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
from testbed.roce.memory import MemoryFault, Region
from testbed.roce.sequence import psn, sequence
from testbed.roce.settings import Settings

_MOST_READS = 16
"""Reads that wait to be served; a peer that sends more has asked for one at a time, or is broken."""
_MSN_MASK = _PSN = 0xFFFFFF
_SEND_MIDDLE, _WRITE_MIDDLE = (head_of(opcode, 0)[:2] for opcode in (Opcode.SEND_MIDDLE, Opcode.WRITE_MIDDLE))


@dataclass(frozen=True)
class Received:
    """A send has come, or a write with immediate data."""

    octets: int
    immediate: int | None


@dataclass
class _Message:
    """A write or send that is coming in."""

    region: Region
    address: int
    left: int | None  # of a write
    is_send: bool
    octets: int = 0


@dataclass
class _Serving:
    """A read that is being served."""

    region: Region
    address: int
    left: int
    number: int
    is_first: bool = True


class Responder:
    """The responder of one queue pair, which carries out the peer's requests."""

    def __init__(self, far_qp: int, expected: int, settings: Settings, memory: Mapping[int, Region]) -> None:
        self.far_qp = far_qp
        self._settings = settings
        self._memory = memory
        self._expected = expected
        self._message: _Message | None = None
        self._reads: deque[_Serving] = deque()
        self._msn = 0
        self._ack_is_due = self._nak_is_due = self._nak_was_sent = False
        self._refusal: Nak | None = None
        self.receive_into: Region | None = None
        """The regions that take the data of sends, one after the other."""
        self._receive_address = 0
        self.received: list[Received] = []
        self.duplicates = self.out_of_order = self.fresh = 0
        """`fresh`: packets of read responses that were sent, each counted once."""
        self._served = 0
        self.failure = ""

    @property
    def has_response(self) -> bool:
        return bool(self._reads)

    @property
    def has_answer(self) -> bool:
        """Is an acknowledgement due that nothing holds back?"""
        return self._nak_is_due or (self._ack_is_due and (self._refusal is not None or not self._reads))

    @property
    def expected(self) -> int:
        """The sequence number of the packet that comes next."""
        return self._expected

    def expect(self, number: int) -> None:
        """The PSN that the peer begins with."""
        self._expected = self._served = number

    def on_request(self, packet: Packet) -> None:
        """A packet of a send, a write or a read request."""
        if self.failure:
            return
        number = sequence(packet.psn, self._expected)
        if number > self._expected:
            self.out_of_order += 1
            self._nak_is_due |= not self._nak_was_sent
            self._nak_was_sent = True
            return
        if number < self._expected:
            self.duplicates += 1
            if packet.opcode == Opcode.READ_REQUEST:
                self._serve(packet, number)
            else:
                self._ack_is_due = True
            return
        self._nak_was_sent = self._nak_is_due = False
        if packet.opcode == Opcode.READ_REQUEST:
            self._read(packet, number)
        else:
            self._take(packet)

    def _read(self, packet: Packet, number: int) -> None:
        assert packet.reth is not None
        if self._message is not None:
            self._refuse(Nak.INVALID_REQUEST, "a read begins within a message")
        elif self._serve(packet, number):
            self._expected += max(1, -(-packet.reth.length // self._settings.mtu))
            self._msn += 1

    def _serve(self, packet: Packet, number: int) -> bool:
        """Serve a read, from anew if it is asked for again."""
        assert packet.reth is not None
        address, r_key, length = packet.reth
        region = self._memory.get(r_key)
        if region is None or address + length > region.size or length > MAXIMUM_MESSAGE:
            self._refuse(Nak.REMOTE_ACCESS_ERROR, f"a read of {length} octets at {address} with key {r_key:#x}")
            return False
        while self._reads and self._reads[-1].number >= number:
            self._reads.pop()
        if self._reads and number <= self._reads[0].number:
            self._reads.clear()
        if len(self._reads) >= _MOST_READS:
            self._refuse(Nak.INVALID_REQUEST, f"more than {_MOST_READS} reads at a time")
            return False
        self._reads.append(_Serving(region, address, length, number))
        return True

    def _take(self, packet: Packet) -> None:
        """The next packet of a message."""
        if packet.opcode in FIRSTS:
            if self._message is not None:
                return self._refuse(Nak.INVALID_REQUEST, f"{packet.opcode.name} within a message")
            if not self._begin(packet):
                return None
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
        message.address += length
        message.octets += length
        self._expected += 1
        if is_last:
            self._end(packet, message)
        self._ack_is_due |= packet.ack_request
        return None

    def take_run(self, path: Path, run: PacketRun) -> int:
        """Take packets in the middle of the message that is coming in, from the first one on; how many. What is not the
        next one, is not intact or means anything else is for `on_request`, after `parse`.
        """
        message, mtu, head = self._message, self._settings.mtu, run.head()
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
            self._message = _Message(self.receive_into, self._receive_address, None, True)
            return True
        assert packet.reth is not None
        address, r_key, length = packet.reth
        region = self._memory.get(r_key)
        if region is None or address + length > region.size or length > MAXIMUM_MESSAGE:
            self._refuse(Nak.REMOTE_ACCESS_ERROR, f"a write of {length} octets at {address} with key {r_key:#x}")
            return False
        self._message = _Message(region, address, length, False)
        return True

    def _end(self, packet: Packet, message: _Message) -> None:
        self._message = None
        self._msn += 1
        if message.is_send:
            self._receive_address = message.address
        if message.is_send or packet.immediate is not None:
            self.received.append(Received(message.octets, packet.immediate))

    def _refuse(self, code: Nak, why: str) -> None:
        self._refusal, self._ack_is_due = code, True
        self.failure = why

    def answer(self) -> Packet | None:
        """The acknowledgement that is due, if one is. What follows a read waits until that is served."""
        if self._refusal is not None and self._ack_is_due:
            self._ack_is_due = self._nak_is_due = False
            return self._acknowledge(self._expected, self._refusal)
        if self._nak_is_due:
            self._nak_is_due = self._ack_is_due = False
            return self._acknowledge(self._expected, Nak.SEQUENCE_ERROR)
        if self._ack_is_due and not self._reads:
            self._ack_is_due = False
            return self._acknowledge(self._expected - 1, None)
        return None

    def _acknowledge(self, number: int, nak: Nak | None) -> Packet:
        aeth = Aeth(self._msn & _MSN_MASK, nak)
        return Packet(Opcode.ACKNOWLEDGE, self.far_qp, psn(number), aeth=aeth)

    def response(self) -> Packet:
        """The next packet of the oldest read; there is one if `has_response`."""
        serving = self._reads[0]
        length = min(self._settings.mtu, serving.left)
        is_last = serving.left == length
        if serving.is_first:
            opcode = Opcode.READ_RESPONSE_ONLY if is_last else Opcode.READ_RESPONSE_FIRST
        else:
            opcode = Opcode.READ_RESPONSE_LAST if is_last else Opcode.READ_RESPONSE_MIDDLE
        aeth = None if opcode == Opcode.READ_RESPONSE_MIDDLE else Aeth(self._msn & _MSN_MASK)
        try:
            payload = serving.region.read(serving.address, length)
        except MemoryFault as fault:
            self._reads.clear()
            self._refuse(Nak.REMOTE_OPERATIONAL_ERROR, str(fault))
            return self.answer() or self._acknowledge(self._expected, Nak.REMOTE_OPERATIONAL_ERROR)
        made = Packet(opcode, self.far_qp, psn(serving.number), payload, aeth=aeth)
        if serving.number >= self._served:
            self._served = serving.number + 1
            self.fresh += 1
        serving.address += length
        serving.left -= length
        serving.number += 1
        serving.is_first = False
        if is_last:
            self._reads.popleft()
        return made
