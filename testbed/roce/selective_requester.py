"""The requester of selective repeat: it sends lost packets alone again, and keeps read responses that come early.

IRN's limit of a bandwidth-delay product is its window; a read asks for as much as that has room for. Its timer is short
while few packets are under way, so that the loss of the last packets of a message does not cost the long one.

Runs in C: `testbed/lab/um/linux/xoff_roce_user.c`.
"""

from __future__ import annotations

from testbed.frames.roce import Nak, Packet
from testbed.roce.counters import Counters
from testbed.roce.nic import PLAIN, Jitter, NicTiming
from testbed.roce.order import Order
from testbed.roce.requester import Posted, Requester, octets_of
from testbed.roce.selective import Scoreboard, numbers
from testbed.roce.sequence import sequence
from testbed.roce.settings import Settings, Timing
from testbed.units import NEVER


class SelectiveRequester(Requester):
    """Works of one queue pair, with selective repeat."""

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
        super().__init__(far_qp, first, settings, timing, nic=nic, jitter=jitter, order=order, counters=counters)
        self._window = self._most_window = min(settings.window, nic.bdp_packets)
        self._board = Scoreboard()
        self._early: dict[int, bytes] = {}
        """Read responses that have come behind a missing one."""
        self._placed = first
        """All read responses before it have been placed."""
        self._gap_ns, self._gap_end = NEVER, 0
        """The moment at which responses that are missing before `_gap_end` are asked for again."""

    def connected(self, far_qp: int, first: int) -> None:
        super().connected(far_qp, first)
        self._placed = first

    @property
    def deadline_ns(self) -> int:
        return min(self.timer_ns, self._gap_ns)

    @property
    def ready_ns(self) -> int:
        if not self.failure and self._board.lost(self._oldest) is not None:
            return self._resume_ns
        return super().ready_ns

    def _may_read(self, posted: Posted) -> bool:
        # Not one packet at a time, whenever the window moves by one.
        return super()._may_read(posted) and self._room() >= min(posted.end - self._next, self._window // 2)

    def _read_until(self, posted: Posted) -> int:
        return min(posted.end, self._next + self._room())

    def _room(self) -> int:
        return self._window - (self._next - self._oldest)

    def _must_ask(self, number: int) -> bool:
        """One that is sent again asks for an acknowledgement, and so do the last that the window has room for, and one
        beside which none is under way: the next may be further off than the short timer."""
        return number < self._highest or number == self._oldest or number + 1 - self._oldest >= self._window

    def _retransmit_ns(self) -> int:
        is_low = self._highest - self._oldest <= self._nic.low_packets
        return self._nic.low_ns if is_low else self._nic.high_ns

    @property
    def _shortest_timer_ns(self) -> int:
        return min(self._nic.low_ns, self._nic.high_ns)

    def packet(self, now_ns: int) -> Packet:
        number = self._board.lost(self._oldest)
        if number is None:
            return super().packet(now_ns)
        posted = next(one for one in self._works if number < one.end)
        until = self._board.lost_until(number, posted.end) if posted.is_answered else number + 1
        self._board.sent_again(until)
        self.counters.retransmitted += 1
        made = self._question(posted, number, until) if posted.is_answered else self._data(posted, number, now_ns)
        if self.timer_ns == NEVER:
            self.timer_ns = now_ns + self._retransmit_ns()
        return made

    # What comes from the far end

    def on_ack(self, wire_psn: int, now_ns: int) -> None:
        last = sequence(wire_psn, self._oldest)
        if last < self._highest:
            self._heard(last + 1, [], now_ns)

    def on_nak(self, wire_psn: int, code: Nak, now_ns: int, arrived: bytes = b"") -> None:
        wanted = sequence(wire_psn, self._oldest)
        if code is not Nak.SEQUENCE_ERROR:
            super().on_nak(wire_psn, code, now_ns)
        elif self._oldest <= wanted < self._highest:
            self._heard(wanted, numbers(wanted, arrived), now_ns, is_missing=True)

    def _advance(self, until: int, now_ns: int) -> None:
        self._heard(until, [], now_ns)

    def _send_from(self, number: int) -> None:
        self._board.lose_again(number, number + 1)

    def _heard(self, until: int, behind: list[int], now_ns: int, *, is_missing: bool = False) -> None:
        """All before `until` has arrived, and some of those behind it; `is_missing`: it has not itself. Reads complete
        by their responses alone, which say more than that a request has arrived.
        """
        was_whole, overdue, board = self._board.lost(self._oldest) is None, 0, self._board
        end = min(max([until + is_missing, *behind]), self._highest)
        for posted in self._works:
            if posted.first > end:
                break
            if not posted.is_answered:
                board.arrived.update(range(max(self._oldest, posted.first), min(until, posted.end)))
                board.arrived.update(
                    one for one in behind if posted.first <= one < posted.end and self._oldest < one < self._highest
                )
            elif posted.first < until:
                overdue = min(until, posted.end)
        if is_missing:
            board.lose(end)
        self._move_over(now_ns)
        if overdue > self._oldest:
            self._miss(overdue, now_ns)
        self._begin_repair(was_whole)

    def _move_over(self, now_ns: int) -> None:
        oldest = self._board.advance(self._oldest)
        if oldest > self._oldest:
            self._move(oldest, now_ns)

    def _begin_repair(self, was_whole: bool) -> None:
        if was_whole and self._board.lost(self._oldest) is not None:
            self.counters.went_back += 1
            self._timed = None  # Karn: the round trip of a packet that was sent twice has no meaning

    def on_read_response(self, packet: Packet, now_ns: int) -> bool:
        """Keep a response, and place all that are next, in the order of the reads."""
        number, board = sequence(packet.psn, self._oldest), self._board
        posted = next((one for one in self._works if number < one.end), None)
        if posted is None or not posted.is_answered or not self._oldest <= number < self._highest:
            return False
        if number in board.arrived or number < posted.first:
            return False
        if posted.work.operation.is_atomic is (packet.original is None):
            return False  # it answers something else
        self._order.arrive(number)
        was_whole, has_placed = board.lost(self._oldest) is None, False
        board.arrived.add(number)
        self.counters.kept += number != self._next_response()
        self._early[number] = octets_of(packet)
        while (place := self._next_response()) in self._early:
            reading = next(one for one in self._works if place < one.end)
            if not self._place(reading, place, self._early.pop(place)):
                return False
            self._placed, has_placed = place + 1, True
        if not self._early:
            self._gap_ns = NEVER
        elif has_placed and self._gap_ns != NEVER:
            self._gap_ns = now_ns + self._nic.reorder_ns
        self._move_over(now_ns)
        if self._early:
            self._miss(number, now_ns)
        self._begin_repair(was_whole)
        return True

    def _next_response(self) -> int:
        """The number of the response that is placed next."""
        for posted in self._works:
            if posted.is_answered and posted.end > self._placed:
                return max(posted.first, self._placed)
        return -1

    def _miss(self, end: int, now_ns: int) -> None:
        """Responses before `end` have not come, and something behind them has."""
        self._gap_end = max(self._gap_end, end)
        if self._gap_ns == NEVER:
            self._gap_ns = now_ns + self._nic.reorder_ns
        self._ask_for_missing(now_ns)

    def _ask_for_missing(self, now_ns: int) -> None:
        if self._gap_ns <= now_ns:
            self._gap_ns = NEVER
            self._board.lose(min(self._gap_end, self._highest))

    # Time

    def on_timer(self, now_ns: int) -> None:
        if self._gap_ns <= now_ns and not self.failure:
            was_whole = self._board.lost(self._oldest) is None
            self._ask_for_missing(now_ns)
            self._begin_repair(was_whole)
        super().on_timer(now_ns)

    def _time_out(self) -> None:
        self._board.lose_again(self._oldest, self._next)
        self.counters.went_back += 1
        self._timed = None

    def fail(self, why: str) -> None:
        super().fail(why)
        self._gap_ns = NEVER
