"""The responder of an unreliable service: it takes the messages of an unreliable connection (UC), or datagrams (UD).

Nothing is acknowledged or refused: what cannot be taken is dropped, and counted by its reason. Of an unreliable
connection a message is whole, or it is dropped: when the PSN is not the one that comes next, the message that is coming
in is given up, and so is all that comes until the first packet of another one, whose PSN is then right (InfiniBand,
9.8.2.2). A message that is given up leaves its receive to the next one.

A datagram needs the Q_Key of its queue pair. Its payload is put behind 40 octets of its receive, which verbs keep for a
global routing header, and which count in the octets that were received; over RoCE nothing is written there.

Runs in C: `testbed/lab/um/linux/xoff_roce_user.c`.
"""

from __future__ import annotations

from typing import Any

from testbed.frames.roce import FIRSTS, LASTS, MAXIMUM_MESSAGE, SENDS, Packet, Path, Service
from testbed.frames.roce_run import PacketRun
from testbed.roce.memory import MemoryFault, Region
from testbed.roce.responder import Message, Received, Responder
from testbed.roce.sequence import sequence
from testbed.roce.services.receives import Receives

GRH_OCTETS = 40
"""The octets before a datagram in its receive."""


class UnreliableResponder(Responder):
    """The responder of one queue pair of an unreliable connection."""

    service = Service.UC

    def __init__(self, *arguments: Any, q_key: int = 0, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self._q_key = q_key
        self._receives = self._receives or Receives(self._nic)
        self._drops = False
        """True until the first packet of another message comes."""
        self._begin_number = 0
        self._message_octets = 0

    def expect(self, number: int) -> None:
        super().expect(number)
        self._begin_number = number

    def place_by_number(self, message: int) -> None:
        """Put sends where their numbers say: all have this many octets, but for the last one, and some may be lost."""
        self._message_octets = message

    def take_run(self, path: Path, run: PacketRun) -> int:
        return 0

    def on_request(self, packet: Packet, now_ns: int) -> None:
        if self.failure:
            return
        number = sequence(packet.psn, self._expected)
        self.counters.out_of_order += number > self._expected
        if packet.opcode in FIRSTS:
            if self._message is not None:
                self._give_up(incomplete=True)
            self._drops, self._expected = False, number
            if not self._begin_message(packet, now_ns):
                self._drops = True
                return
        elif self._drops or self._message is None or number != self._expected:
            self._give_up(incomplete=not self._drops)
            self.counters.dropped += 1
            self._drops = True
            return
        self._take_packet(packet, now_ns)

    def _give_up(self, *, incomplete: bool) -> None:
        """Drop the message that is coming in, if one is; the next send has its receive."""
        message, self._message = self._message, None
        self.counters.incomplete += incomplete
        if message is not None:
            message.region.begin_again(message.address - message.octets)
            if message.is_send:
                self._of_receives.put_back()

    @property
    def _of_receives(self) -> Receives:
        assert self._receives is not None
        return self._receives

    def _take_receive(self, now_ns: int) -> bool:
        """Take a receive for a message, or count the message as one without."""
        if self.receive_into is None or self._of_receives.free(now_ns) <= 0:
            self.counters.no_receive += 1
            return False
        self.counters.limit_events += self._of_receives.take(now_ns)
        return True

    def _place(self, number: int) -> int:
        """Return the address of the receive for a message that begins with a packet."""
        if not self._message_octets:
            return self._receive_address
        packets = max(1, -(-self._message_octets // self._settings.mtu))
        return max(0, (number - self._begin_number) // packets * self._message_octets)

    def _begin_message(self, packet: Packet, now_ns: int) -> bool:
        if packet.opcode in SENDS:
            if not self._take_receive(now_ns):
                return False
            assert self.receive_into is not None
            address = self._place(self._expected)
            self._message = Message(self.receive_into, address, None, is_send=True, first=self._expected)
            return True
        assert packet.reth is not None
        address, r_key, length = packet.reth
        region = self._memory.get(r_key)
        if region is None or address + length > region.size or length > MAXIMUM_MESSAGE:
            self.counters.no_access += 1
            return False
        self._message = Message(region, address, length, is_send=False, first=self._expected)
        return True

    def _take_packet(self, packet: Packet, now_ns: int) -> None:
        message, length, mtu = self._message, len(packet.payload), self._settings.mtu
        assert message is not None
        is_last = packet.opcode in LASTS
        fits = length <= mtu if is_last else length == mtu
        fits = fits and message.is_send is (packet.opcode in SENDS)
        if message.left is not None:
            message.left -= length
            fits = fits and (message.left == 0 if is_last else message.left > 0)
        if not fits or not _write(message.region, message.address, packet.payload):
            self.counters.too_long += 1
            self._give_up(incomplete=False)
            self._drops = not is_last
            return
        message.address += length
        message.octets += length
        self._expected += 1
        if is_last:
            self._end_message(packet, message, now_ns)

    def _end_message(self, packet: Packet, message: Message, now_ns: int) -> None:
        self._message = None
        if message.is_send:
            self._receive_address = message.address
        elif packet.immediate is not None and not self._take_receive(now_ns):
            return
        if message.is_send or packet.immediate is not None:
            self._of_receives.post_again(now_ns)
            self.counters.received += 1
            self.received.append(Received(message.octets, packet.immediate))
        self._msn += 1
        self.counters.messages += 1
        message.region.has_come(message.octets)


class DatagramResponder(UnreliableResponder):
    """The responder of one queue pair of datagrams."""

    service = Service.UD

    def on_request(self, packet: Packet, now_ns: int) -> None:
        if self.failure:
            return
        assert packet.deth is not None
        number, length = sequence(packet.psn, self._expected), len(packet.payload)
        if packet.deth.q_key != self._q_key:
            self.counters.other_keys += 1
            return
        self.far_qp = packet.deth.source_qp
        self._expected = max(self._expected, number + 1)
        if length > self._settings.mtu:
            self.counters.too_long += 1
            return
        if not self._take_receive(now_ns):
            return
        region, room = self.receive_into, 0 if self._message_octets else GRH_OCTETS
        assert region is not None
        address = self._place(number) + room
        if not _write(region, address, packet.payload):
            self.counters.too_long += 1
            self._of_receives.put_back()
            return
        self._receive_address = address + length
        self._of_receives.post_again(now_ns)
        self.counters.received += 1
        self.counters.messages += 1
        self.received.append(Received(GRH_OCTETS + length, packet.immediate, packet.deth.source_qp))
        region.has_come(length)


def _write(region: Region, address: int, octets: bytes) -> bool:
    """Put octets into memory; False if it has no room for them."""
    if address + len(octets) > region.size:
        return False
    try:
        if octets:
            region.write(address, octets)
    except MemoryFault:
        return False
    return True
