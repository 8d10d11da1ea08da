"""The half of a queue pair that asks: it sends writes, reads, sends and atomic operations, and brings each to its end.

Works are sent in order. An acknowledgement completes all up to its PSN. After a NAK of a sequence error, a gap in read
responses or the retransmission timer the requester sends again what `Recovery` says: everything from the oldest packet
that is missing (go-back-N), from the first packet of its message (go-back-0), or what is missing alone (selective
repeat, which is `testbed.roce.selective_requester`). Numbers are `sequence`s, which do not wrap.

Runs in C: `testbed/lab/um/linux/xoff_roce_user.c`.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace

from testbed.frames.roce import AtomicEth, Nak, Opcode, Packet, Reth, head_of
from testbed.frames.roce_run import Heads
from testbed.roce.counters import Counters
from testbed.roce.memory import WORD_OCTETS, MemoryFault
from testbed.roce.nic import NO_RNR_LIMIT, PLAIN, RNR_UNITS, Jitter, NicTiming, Recovery
from testbed.roce.order import Order
from testbed.roce.sequence import psn, sequence
from testbed.roce.settings import Settings, Timing
from testbed.roce.work import AddressHandle, Operation, Work
from testbed.units import NEVER


@dataclass
class Posted:
    """A work with its sequence numbers; used by requesters alone."""

    number: int
    work: Work
    first: int
    packets: int
    ready_ns: int
    """The moment from which on its packets may be sent, after the doorbell."""
    is_answered: bool
    """True if responses of its own complete it."""

    @property
    def end(self) -> int:
        return self.first + self.packets


_FIRST = {Operation.WRITE: Opcode.WRITE_FIRST, Operation.SEND: Opcode.SEND_FIRST}
_ATOMIC = {Operation.COMPARE_SWAP: Opcode.COMPARE_SWAP, Operation.FETCH_ADD: Opcode.FETCH_ADD}
_MIDDLE, _LAST, _ONLY = 1, 2, 4
"""The numbers to add to the opcode of a first packet; one more for immediate data."""
_INVALIDATES = {_LAST: Opcode.SEND_LAST_INVALIDATE, _ONLY: Opcode.SEND_ONLY_INVALIDATE}


@dataclass(frozen=True)
class Completed:
    """A work is at its end."""

    number: int
    at_ns: int


@dataclass(frozen=True)
class Run:
    """Full packets in the middle of a message; `testbed.frames.roce_run.seal` makes them."""

    heads: Heads
    payload: bytes
    crcs: bytes
    """The CRCs of each payload, as in `Region.crcs`."""


def octets_of(response: Packet) -> bytes:
    """Return what a response puts into the memory of who has asked."""
    return response.payload if response.original is None else response.original.to_bytes(WORD_OCTETS, "little")


class Requester:
    """Works of one queue pair."""

    def __init__(
        self,
        far_qp: int,
        first: int,
        settings: Settings,
        timing: Timing,
        *,
        nic: NicTiming = PLAIN,
        jitter: Jitter | None = None,
        order: Order | None = None,
        counters: Counters | None = None,
    ) -> None:
        """`order` counts the read responses."""
        self._far_qp = far_qp
        self.sent_to: AddressHandle | None = None
        """The address handle of the datagram that was made last; None: the far end of the queue pair."""
        self._settings, self._timing, self._nic = settings, timing, nic
        self._jitter = jitter or Jitter(0, 0)
        self._window = self._most_window = settings.window
        self._works: deque[Posted] = deque()
        self._cursor = 0
        """The place in `_works` of the work that `_next` belongs to."""
        self._count = 0
        self._first = self._oldest = self._next = self._highest = self._end = first
        """The oldest that is not acknowledged, the next to send, the first never sent, the first without a work."""
        self._order = order or Order(first)
        self._went_back_to = -1
        self._since_ack = 0
        self._asked_ns = 0
        """The moment of the last request for an acknowledgement."""
        self._timed: tuple[int, int] | None = None  # sequence and moment of a packet whose round trip is measured
        self.timer_ns = NEVER
        self._tries = self._rnr_tries = 0
        self._doorbell_ns = self._resume_ns = 0
        """The moments at which the last doorbell takes effect, and at which the wait after an RNR NAK ends."""
        self.counters = counters or Counters()
        self.failure = ""
        self.completed: list[Completed] = []
        self.round_trips: list[int] = []

    @property
    def idle(self) -> bool:
        """Is every work complete?"""
        return not self._works

    @property
    def unsent(self) -> int:
        """Packets that wait to be sent."""
        return self._end - self._next

    @property
    def oldest(self) -> int:
        """The number of the first packet that is not acknowledged."""
        return self._oldest

    @property
    def next(self) -> int:
        """The number of the packet that is sent next."""
        return self._next

    def limit(self, packets: int) -> None:
        """Let no more packets be under way, and no more than the settings allow."""
        self._window = min(packets, self._most_window)

    @property
    def outstanding(self) -> int:
        return len(self._works)

    @property
    def deadline_ns(self) -> int:
        """The moment at which `on_timer` has something to do."""
        return self.timer_ns

    @property
    def ready_ns(self) -> int:
        """The moment from which on a packet may be sent; 0: at once, NEVER: there is none, or the window or the reads
        under way leave no room for it.
        """
        if self.failure:
            return NEVER
        if self._next >= self._end or self._next - self._oldest >= self._window:
            return NEVER
        posted = self._works[self._cursor]
        if posted.is_answered and not self._may_read(posted):
            return NEVER
        return max(self._resume_ns, posted.ready_ns)

    def _may_read(self, posted: Posted) -> bool:
        return self._reads_before(posted) < self._nic.reads

    def _read_until(self, posted: Posted) -> int:
        """The end of what the next request of a read asks for."""
        return posted.end

    def connected(self, far_qp: int, first: int) -> None:
        """The peer is known, and the number of the packet that it awaits; nothing has been sent yet."""
        self._far_qp = far_qp
        by = first - self._first
        self._first = self._oldest = self._next = self._highest = first
        self._end += by
        self._works = deque(replace(one, first=one.first + by) for one in self._works)

    def post(self, work: Work, now_ns: int = 0) -> int:
        """Take a work on; its number is in its completion."""
        packets = max(1, -(-work.length // self._settings.mtu))
        if self._nic.doorbell_ns:
            self._doorbell_ns = max(self._doorbell_ns, now_ns + self._jitter.delay(self._nic.doorbell_ns))
        posted = Posted(self._count, work, self._end, packets, self._doorbell_ns, work.operation.is_answered)
        self._works.append(posted)
        self._end += packets
        self._count += 1
        return self._count - 1

    def packet(self, now_ns: int) -> Packet:
        """The next packet, which is then sent."""
        posted = self._works[self._cursor]
        number = self._next
        if number == self._oldest:
            self._asked_ns = now_ns
        if posted.is_answered:
            self._next = self._read_until(posted)
            made = self._question(posted, number, self._next)
        else:
            self._next = number + 1
            made = self._data(posted, number, now_ns)
        if self._next == posted.end:
            self._cursor += 1
        if number < self._highest:
            self.counters.retransmitted += 1
        elif made.ack_request and self._timed is None:
            self._timed = number, now_ns
        self.counters.fresh += max(0, self._next - self._highest)
        self._highest = max(self._highest, self._next)
        if self.timer_ns == NEVER:
            self.timer_ns = now_ns + self._retransmit_ns()
        return made

    def _retransmit_ns(self) -> int:
        return self._timing.retransmit_ns

    @property
    def _shortest_timer_ns(self) -> int:
        return self._timing.retransmit_ns

    def run(self, now_ns: int, most: int) -> Run | None:
        """The next packets, if they are full ones in the middle of a write or send that are sent for the first time:
        what a flow mostly is. They are then sent. None: `packet` has the next.
        """
        number, window = self._next, self._settings.window
        if not self._nic.is_plain or self._resume_ns > now_ns:
            return None
        if not self._works or number != self._highest or number == self._oldest or self.failure:
            return None
        posted = self._works[min(self._cursor, len(self._works) - 1)]
        many = min(most, posted.end - 1 - number, self._oldest + window - number)
        is_slow = now_ns - self._asked_ns >= self._timing.retransmit_ns // 8
        if many < 1 or number <= posted.first or posted.is_answered or is_slow:
            return None
        every, since = self._settings.ack_every, self._since_ack
        asking = range(every - 1 - since, many, every)
        self._since_ack = (since + many) % every
        if since + many >= every:
            self._asked_ns = now_ns
            if self._timed is None:
                self._timed = number + every - 1 - since, now_ns
        self._next = self._highest = number + many
        self.counters.fresh += many
        if self.timer_ns == NEVER:
            self.timer_ns = now_ns + self._timing.retransmit_ns
        work, mtu = posted.work, self._settings.mtu
        start = work.local_address + (number - posted.first) * mtu
        head = head_of(Opcode(_FIRST[work.operation] + _MIDDLE), self._far_qp)
        payload = work.local.read(start, many * mtu)
        return Run(Heads(head, psn(number), many, asking), payload, work.local.crcs(start, payload, mtu))

    def _data(self, posted: Posted, number: int, now_ns: int) -> Packet:
        work, place, mtu = posted.work, number - posted.first, self._settings.mtu
        start = place * mtu
        is_first, is_last = place == 0, place == posted.packets - 1
        kind = (_ONLY if is_first else _LAST) if is_last else (0 if is_first else _MIDDLE)
        immediate = work.immediate if is_last else None
        self._since_ack += 1
        # At a low rate packets are so far apart that the timer would not wait for `ack_every` of them.
        is_slow = now_ns - self._asked_ns >= self._shortest_timer_ns // 8
        ack = is_last or is_slow or self._since_ack >= self._settings.ack_every or self._must_ask(number)
        if ack:
            self._since_ack, self._asked_ns = 0, now_ns
        has_reth = is_first and work.operation is Operation.WRITE
        invalidate = work.invalidate if is_last else None
        opcode = Opcode(_FIRST[work.operation] + kind + (immediate is not None))
        return Packet(
            opcode if invalidate is None else _INVALIDATES[kind],
            self._far_qp,
            psn(number),
            work.local.read(work.local_address + start, min(mtu, work.length - start)) if work.length else b"",
            reth=Reth(work.remote_address, work.r_key, work.length) if has_reth else None,
            immediate=immediate,
            ack_request=ack,
            invalidate=invalidate,
        )

    def _must_ask(self, number: int) -> bool:
        return False

    def _question(self, posted: Posted, number: int, until: int) -> Packet:
        """An atomic operation, or a request for the packets of a read from a number on, before another."""
        work, mtu = posted.work, self._settings.mtu
        if work.operation.is_atomic:
            atomic = AtomicEth(work.remote_address, work.r_key, work.data, work.compare)
            return Packet(_ATOMIC[work.operation], self._far_qp, psn(number), atomic=atomic, ack_request=True)
        start = (number - posted.first) * mtu
        length = min(work.length - start, (until - number) * mtu)
        reth = Reth(work.remote_address + start, work.r_key, length)
        return Packet(Opcode.READ_REQUEST, self._far_qp, psn(number), reth=reth, ack_request=True)

    def _reads_before(self, posted: Posted) -> int:
        """Reads and atomic operations that have been asked for and are not complete."""
        before = itertools.takewhile(lambda one: one is not posted, self._works)
        return sum(one.is_answered for one in before)

    # What comes from the far end

    def on_ack(self, wire_psn: int, now_ns: int) -> None:
        """Everything up to this PSN has arrived there."""
        last = sequence(wire_psn, self._oldest)
        if last >= self._highest:
            return  # what has not been sent cannot be acknowledged
        self._advance(last + 1, now_ns)
        if self._oldest <= last:  # a read is before, whose response is lost
            self._go_back(self._oldest)

    def on_nak(self, wire_psn: int, code: Nak, now_ns: int, arrived: bytes = b"") -> None:
        """The far end misses a packet, or refuses one; all before it has arrived. `arrived`: the bitmap of a selective
        acknowledgement.
        """
        wanted = sequence(wire_psn, self._oldest)
        begins_again = self._nic.recovery is Recovery.GO_BACK_0 and code is Nak.SEQUENCE_ERROR and bool(self._works)
        least = self._works[0].first if begins_again else self._oldest
        if not least <= wanted < self._highest:
            return
        self._advance(wanted, now_ns)
        if code is Nak.SEQUENCE_ERROR:
            self._went_back_to = -1
            self._go_back(wanted)  # a read before it has reached the far end, which serves it
        else:
            self.fail(f"the far end refuses packet {wire_psn}: {code.name.lower().replace('_', ' ')}")

    def on_rnr(self, wire_psn: int, code: int, now_ns: int) -> None:
        """The far end has no receive for a packet, and asks to wait."""
        wanted = sequence(wire_psn, self._oldest)
        if not self._oldest <= wanted < self._highest:
            return
        self.counters.rnr_naks += 1
        self._advance(wanted, now_ns)
        if self._nic.rnr_retries != NO_RNR_LIMIT and self._rnr_tries >= self._nic.rnr_retries:
            self.fail(f"the far end has no receive for packet {wire_psn} after {self._rnr_tries} retries")
            return
        self._rnr_tries += 1
        self._resume_ns = now_ns + RNR_UNITS[code] * self._nic.rnr_unit_ns
        self.timer_ns = NEVER
        self._timed = None
        self._send_from(wanted)

    def _send_from(self, number: int) -> None:
        """Send a packet again that was refused for now, and what has been refused behind it."""
        self._next = min(self._next, number)
        self._went_back_to = -1
        self._find_cursor()

    def on_read_response(self, packet: Packet, now_ns: int) -> bool:
        """Part of what a read asked for, or what was there before an atomic operation; False if it is not taken."""
        number = sequence(packet.psn, self._oldest)
        posted = next((one for one in self._works if one.is_answered), None)
        if posted is None or not posted.first <= number < min(posted.end, self._highest):
            return False
        if posted.work.operation.is_atomic is (packet.original is None):
            return False  # it answers something else
        self._order.arrive(number)
        wanted = max(self._oldest, posted.first)
        if number > wanted:
            self._advance(posted.first, now_ns)
            self._go_back(wanted)
        if number != max(self._oldest, posted.first):
            return False
        if not self._place(posted, number, octets_of(packet)):
            return False
        self._oldest = number  # what stands before the read is acknowledged by its response
        self._move(number + 1, now_ns)
        return True

    def _place(self, posted: Posted, number: int, octets: bytes) -> bool:
        """Put a response into the memory; False if it does not fit."""
        start = (number - posted.first) * self._settings.mtu
        if len(octets) != min(self._settings.mtu, posted.work.length - start):
            self.fail(f"read response {psn(number)} has {len(octets)} octets")
            return False
        try:
            posted.work.local.write(posted.work.local_address + start, octets)
        except MemoryFault as fault:
            self.fail(f"read response {psn(number)}: {fault}")
            return False
        return True

    def on_timer(self, now_ns: int) -> None:
        """The retransmission timer, and the time that a gap in responses may last."""
        if now_ns < self.timer_ns or self.failure:
            return
        self._tries += 1
        if self._tries > self._settings.retries:
            self.fail(f"no acknowledgement after {self._settings.retries} retransmissions")
            return
        self.counters.timeouts += 1
        self._time_out()
        self.timer_ns = now_ns + self._retransmit_ns()

    def _time_out(self) -> None:
        self._went_back_to = -1
        self._go_back(self._oldest)

    def fail(self, why: str) -> None:
        """Nothing more is sent; what is not complete stays so."""
        self.failure = self.failure or why
        self.timer_ns = NEVER

    def _advance(self, until: int, now_ns: int) -> None:
        """All before `until` has arrived, but reads and atomic operations, which complete by their responses alone."""
        for posted in self._works:
            if posted.first >= until:
                break
            if posted.is_answered:
                until = max(self._oldest, posted.first)
                break
        if until > self._oldest:
            self._move(until, now_ns)

    def _move(self, until: int, now_ns: int) -> None:
        self._oldest = until
        self._next = max(self._next, until)
        self._tries, self._rnr_tries, self._went_back_to = 0, 0, -1
        if self._timed is not None and self._timed[0] < until:
            self.round_trips.append(now_ns - self._timed[1])
            self._timed = None
        while self._works and self._works[0].end <= until:
            self.completed.append(Completed(self._works.popleft().number, now_ns))
            self.counters.completed += 1
            self._cursor -= 1
        self._find_cursor()
        self.timer_ns = now_ns + self._retransmit_ns() if self._oldest < self._highest else NEVER

    def _go_back(self, number: int) -> None:
        if self._nic.recovery is Recovery.GO_BACK_0:
            number = self._first_of_message(number)
        if self._went_back_to == number or self._next <= number:
            return
        self._went_back_to = number
        self.counters.went_back += 1
        self._next = number
        self._timed = None  # Karn: the round trip of a packet that was sent twice has no meaning
        self._find_cursor()

    def _first_of_message(self, number: int) -> int:
        """Begin the message of a packet again, and return its first packet."""
        posted = next((one for one in self._works if number < one.end), None)
        if posted is None:
            return number
        if posted.work.operation is Operation.READ and self._oldest > posted.first:
            posted.work.local.begin_again(posted.work.local_address)
        self._oldest = min(self._oldest, posted.first)
        return posted.first

    def _find_cursor(self) -> None:
        """The work of `_next`, near the cursor: after a step forward, or back by what is outstanding."""
        cursor = max(0, min(self._cursor, len(self._works)))
        while cursor > 0 and (cursor == len(self._works) or self._works[cursor].first > self._next):
            cursor -= 1
        while cursor < len(self._works) and self._works[cursor].end <= self._next:
            cursor += 1
        self._cursor = cursor

    def take_completed(self) -> Iterator[Completed]:
        """Return the works that have been completed since the last call."""
        found, self.completed = self.completed, []
        return iter(found)
