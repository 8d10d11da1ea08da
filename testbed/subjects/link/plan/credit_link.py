"""One direction of a link with credits, exact to the octet of its line: the cores of CBFC at both ends, and a cable.

The sender has frames of each virtual channel waiting, and takes turns. The receiver keeps a frame from its last bit on,
and passes it on at a share of the line's rate by channel. Times are octets of the line. Frames have FCS; preamble and
gap come on top. A CC_Update takes the line before frames, a CF_Update comes back beside them.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from functools import partial

from testbed.switch.credits.receiver import CreditReceiver
from testbed.switch.credits.sender import CreditSender
from testbed.switch.credits.settings import CC_OCTETS, LINE_OVERHEAD, SET_OCTETS, Credits
from testbed.units import NEVER

OCTET_PS = 20
"""The time of an octet at 400 Gb/s."""


class CreditLink:
    """The link. `drains` are the shares of the line's rate at which channels leave the receiver, 1 by default."""

    def __init__(
        self,
        credits: Credits,
        delay: int = 100,
        drains: Mapping[int, Fraction | int] | None = None,
        room: int | None = None,
    ) -> None:
        """`delay` is the cable's, one way; `room` are the cells for channels without credits: what has none is lost."""
        self.sender, self.receiver = CreditSender(credits), CreditReceiver(credits)
        self.now = 0
        self.delivered: Counter[int] = Counter()
        """The frames of each channel that have left the receiver."""
        self.octets: Counter[int] = Counter()
        """Their octets on the line."""
        self.dropped: Counter[int] = Counter()
        self.overflows = 0
        """Frames with credits that came to a receiver whose cells were all in use: the sum of the limits."""
        self.waits = 0
        """The times at which a frame had to wait for credits."""
        self.lets_cc = True
        """False: CC_Updates are not sent."""
        self._credits, self._delay, self._room = credits, delay, room
        self._drains = {vc: Fraction(share) for vc, share in (drains or {}).items()}
        self._waiting: dict[int, deque[tuple[int, bool]]] = {}
        self._buffers: dict[int, deque[int]] = {}
        self._leaving: set[int] = set()
        self._best_effort = 0
        self._line_free = 0
        self._turn = 0
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._number = 0
        self._wakes = {NEVER}
        per_vc = sum(credits.limits.values())
        self._cells = per_vc if credits.mode == "per_vc" else credits.total

    def offer(self, vc: int, lengths: Iterable[int], *, corrupt: bool = False) -> None:
        """Have frames of these lengths wait at the sender; corrupt ones do not arrive."""
        self._waiting.setdefault(vc, deque()).extend((length, corrupt) for length in lengths)
        self._at(self.now, self._send)

    def drain(self, vc: int, share: Fraction | int) -> None:
        """Let a channel leave the receiver at another share of the line's rate from now on."""
        self._drains[vc] = Fraction(share)
        self._leave(vc)

    def resume_cc(self) -> None:
        """Send CC_Updates again."""
        self.lets_cc = True
        self._at(self.now, self._send)

    def run(self, until: int) -> None:
        """Let happen what is due until a time."""
        while self._events and self._events[0][0] <= until:
            self.now, _, event = heapq.heappop(self._events)
            event()
        self.now = until

    @property
    def now_ns(self) -> int:
        """The time in nanoseconds, at 400 Gb/s."""
        return self.now * OCTET_PS // 1000

    def rate(self, vc: int, since: int, octets: int) -> float:
        """Return the share of the line that a channel had, since a time at which it had delivered so many octets."""
        return (self.octets[vc] - octets) / (self.now - since)

    def _at(self, time: int, event: Callable[[], None]) -> None:
        self._number += 1
        heapq.heappush(self._events, (time, self._number, event))

    # The sender

    def _send(self) -> None:
        if self.now < self._line_free:
            return
        if self.lets_cc and self.sender.deadline <= self.now:
            used = self.sender.poll(self.now)
            self._occupy(CC_OCTETS)
            self._at(self._line_free + self._delay, lambda: self._take_cc(used))
            return
        order = sorted(self._waiting, key=lambda vc: (vc <= self._turn, vc))
        for vc in order:
            if not self._waiting[vc]:
                continue
            length, corrupt = self._waiting[vc][0]
            if not self.sender.may_send(vc, length):
                self.waits += 1
                continue
            self._waiting[vc].popleft()
            self._turn = vc
            self.sender.sent(vc, length, self.now)
            self._occupy(length + LINE_OVERHEAD)
            if not corrupt:
                self._at(self._line_free + self._delay, partial(self._arrive, vc, length))
            return
        if self.lets_cc and self.sender.deadline != NEVER:
            self._at(self.sender.deadline, self._send)

    def _occupy(self, octets: int) -> None:
        self._line_free = self.now + octets
        self._at(self._line_free, self._send)

    # The receiver

    def _arrive(self, vc: int, length: int) -> None:
        if vc in self._credits.limits:
            self.receiver.arrived(vc, length)
            self.overflows += sum(one.held for one in self.receiver.counters.values()) > self._cells
        else:
            cells = self._credits.of_frame(length)
            if self._room is not None and self._best_effort + cells > self._room:
                self.dropped[vc] += 1
                return
            self._best_effort += cells
        self._buffers.setdefault(vc, deque()).append(length)
        self._leave(vc)
        self._poll()

    def _leave(self, vc: int) -> None:
        share = self._drains.get(vc, 1)
        if vc in self._leaving or not share or not self._buffers.get(vc):
            return
        self._leaving.add(vc)
        octets = self._buffers[vc][0] + LINE_OVERHEAD
        takes = octets if share == 1 else math.ceil(octets / share)
        self._at(self.now + takes, lambda: self._left(vc))

    def _left(self, vc: int) -> None:
        length = self._buffers[vc].popleft()
        self._leaving.discard(vc)
        self.delivered[vc] += 1
        self.octets[vc] += length + LINE_OVERHEAD
        if vc in self._credits.limits:
            self.receiver.freed(vc, length)
        else:
            self._best_effort -= self._credits.of_frame(length)
        self._leave(vc)
        self._poll()

    def _take_cc(self, used: dict[int, int]) -> None:
        self.receiver.receive(used)
        self._poll()

    def _poll(self) -> None:
        freed = self.receiver.poll(self.now)
        if freed:
            self._at(self.now + SET_OCTETS + self._delay, lambda: self._take_cf(freed))
        due = self.receiver.deadline
        if due != NEVER and due not in self._wakes:
            self._wakes.add(due)
            self._at(max(due, self.now), lambda: self._wake(due))

    def _wake(self, due: int) -> None:
        self._wakes.discard(due)
        self._poll()

    def _take_cf(self, freed: list[tuple[int, int]]) -> None:
        if self.sender.receive(freed):
            self._send()
