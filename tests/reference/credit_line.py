"""One direction of a cable with its receiver, frame by frame and exact to the picosecond: with credits, or with PFC.

The cores of `testbed.switch.credits` run at both ends. The receiver passes frames on at the same rate, with their first
bit, unless its way out is blocked. A cell is free when the last bit of its frame has left. Nothing is random but what a
test loses.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from testbed.switch.credits.law import PFC_OCTETS, Link
from testbed.switch.credits.receiver import CreditReceiver
from testbed.switch.credits.sender import CreditSender
from testbed.switch.credits.settings import CC_OCTETS, LINE_OVERHEAD, SET_OCTETS, Credits
from testbed.units import NEVER

VC = 3


@dataclass
class Line:
    """A sender that always has frames, the cable, and a receiver with a buffer of so many cells."""

    link: Link
    buffer: int
    credits: Credits | None = None
    """Without credits there is PFC, with `xoff` cells below the threshold; the rest of the buffer is headroom."""
    xoff: int = 0
    blocked: Callable[[int], int] = lambda now: now
    """A function of a moment: when the way out is free again, or that moment itself if it is free."""
    loses: Callable[[str, int], bool] = lambda kind, number: False
    """A function that says whether the nth message of a kind is lost: "frame", "cf", "cc"."""
    first_at: int = 0
    count: int | None = None
    """The frames that there are to send; None: there is always one."""
    sent: int = 0
    lost: int = 0
    dropped: int = 0
    delivered: int = 0
    idle_ps: int = 0
    """How long the line stood still between the first frame and the last."""
    out_idle_ps: int = 0
    """How long the way out stood still between its first frame and its last, though it was not blocked."""
    most: int = 0
    """The most cells in the buffer."""

    _events: list[tuple[int, int, int, Callable[[int], None]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._number = 0
        self._numbers = {"frame": 0, "cf": 0, "cc": 0}
        self._line_free = 0
        self._last_end: int | None = None
        self._out_end: int | None = None
        self._queue: deque[int] = deque()
        self._leaves: int | None = None
        self._held = 0
        self._paused = self._xoff_told = False
        self._timers: dict[str, int] = {}
        if self.credits:
            self.sender, self.receiver = CreditSender(self.credits), CreditReceiver(self.credits)

    def run(self, until: int, stop_sending: int | None = None) -> Line:
        """Let the sender send from `first_at` on, and return at `until`."""
        self._stop = until if stop_sending is None else stop_sending
        self._at(self.first_at, 5, self._try)
        while self._events and self._events[0][0] <= until:
            now, _, _, action = heapq.heappop(self._events)
            action(now)
        return self

    def _at(self, when: int, order: int, action: Callable[[int], None]) -> None:
        """At one moment cells come free first, then messages arrive, then frames begin."""
        self._number += 1
        heapq.heappush(self._events, (when, order, self._number, action))

    def _is_lost(self, kind: str) -> bool:
        self._numbers[kind] += 1
        return self.loses(kind, self._numbers[kind])

    def _octets(self, now: int) -> int:
        return now // self.link.octet_ps

    # The sender

    def _try(self, now: int) -> None:
        if now < self._line_free or now >= self._stop or self._paused or self.sent == self.count:
            return
        if self.credits and (used := self.sender.poll(self._octets(now))):
            self._line_free = now + CC_OCTETS * self.link.octet_ps
            if not self._is_lost("cc"):
                arrives = now + self.link.delay.ps
                self._at(arrives, 2, lambda at: self._cc(at, used))
            self._last_end = self._line_free
            self._at(self._line_free, 5, self._try)
            return
        if self.credits and not self.sender.may_send(VC, self.link.frame):
            if self.sender.deadline != NEVER:
                self._at(max(self.sender.deadline * self.link.octet_ps, now + 1), 5, self._try)
            return
        if self._last_end is not None:
            self.idle_ps += now - self._last_end
        if self.credits:
            self.sender.sent(VC, self.link.frame, self._octets(now))
        self.sent += 1
        self._line_free = self._last_end = now + self.link.frame_ps
        if self._is_lost("frame"):
            self.lost += 1
        else:
            self._at(now + self.link.delay.ps, 2, self._arrives)
        self._at(self._line_free, 5, self._try)

    def _cf(self, now: int, said: list[tuple[int, int]]) -> None:
        self.sender.receive(said)
        self._at(now, 5, self._try)

    def _pause(self, now: int, stop: bool) -> None:
        self._paused = stop
        self._at(now, 5, self._try)

    # The receiver

    def _arrives(self, now: int) -> None:
        cells = self.link.cells
        if self._held + cells > self.buffer:
            self.dropped += 1
            return
        self._held += cells
        self.most = max(self.most, self._held)
        if self.credits:
            self.receiver.arrived(VC, self.link.frame)
            self._tell(now)
        elif self._held > self.xoff and not self._xoff_told:
            self._xoff_told = True
            self._send_pfc(now, True)
        self._queue.append(now + (self.link.frame_ps if self.link.whole else 0))
        self._forward(now)

    def _forward(self, now: int) -> None:
        if self._leaves is not None or not self._queue:
            return
        begins = self.blocked(max(now, self._queue[0]))
        if begins > now:
            self._at(begins, 3, self._forward)
            return
        if self._out_end is not None:
            self.out_idle_ps += now - self.blocked(self._out_end)
        self._queue.popleft()
        self._leaves = self._out_end = now + self.link.frame_ps
        self._at(self._leaves, 0, self._left)

    def _left(self, now: int) -> None:
        self._leaves = None
        self.delivered += 1
        self._held -= self.link.cells
        if self.credits:
            self.receiver.freed(VC, self.link.frame)
            self._tell(now)
        elif self._xoff_told and self._held <= self.xoff:
            self._xoff_told = False
            self._send_pfc(now, False)
        self._at(now, 4, self._forward)

    def _cc(self, now: int, used: dict[int, int]) -> None:
        self.receiver.receive(used)
        self._tell(now)

    def _tell(self, now: int) -> None:
        due = self.receiver.deadline
        if due != NEVER:
            self._at(max(due * self.link.octet_ps, now), 1, self._send_cf)

    def _send_cf(self, now: int) -> None:
        said = self.receiver.poll(self._octets(now))
        if said:
            arrives = now + SET_OCTETS * self.link.octet_ps + self.link.delay.ps
            if not self._is_lost("cf"):
                self._at(arrives, 2, lambda at: self._cf(at, said))
            self._tell(now)

    def _send_pfc(self, now: int, stop: bool) -> None:
        waits = ((self.link.longest or self.link.frame) + LINE_OVERHEAD) * self.link.octet_ps
        arrives = now + waits + PFC_OCTETS * self.link.octet_ps + self.link.delay.ps + self.link.reaction.ps
        self._at(arrives, 2, lambda at: self._pause(at, stop))


def blocks(begin: int, end: int) -> Callable[[int], int]:
    """Return a way out that is blocked from one moment to another."""
    return lambda now: end if begin <= now < end else now


def stats(line: Line) -> dict[str, Any]:
    """Return what a failed assertion is to show."""
    return {
        name: getattr(line, name) for name in ("sent", "lost", "dropped", "delivered", "idle_ps", "out_idle_ps", "most")
    }
