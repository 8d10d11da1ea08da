"""The events of a PFC port, and the counters that are summed up from them.

An event is a plain tuple (now_ns, kind, mask, value). Making one is all that a port does while a queue waits to be
stopped; counting comes later, when events are drained or counters are asked for. As the events are the only source
of the counters, the two cannot contradict each other.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from testbed.switch.pfc import PRIORITIES_IN

Event = tuple[int, int, int, int]
"""An event: now_ns, a PfcEvent, the priorities as a bit mask, and a value that depends on the kind."""


class PfcEvent(enum.IntEnum):
    """The kinds of events. The comment says what the value is, where it is not 0."""

    XOFF_RECEIVED = 0  # obeyed: quanta
    XON_RECEIVED = 1  # obeyed, whether or not there was a pause
    PAUSE_EXPIRED = 2  # a received pause is over, of one priority: by how many ns `expire` was called late
    PAUSE_CANCELLED = 3  # a received pause is over, because PFC was switched off for the priority, or the link was lost
    PAUSE_RESTORED = 4  # a pause taken over from the previous agent, of one priority: ns left
    XOFF_SENT = 5  # quanta
    XOFF_REFRESHED = 6  # quanta
    XON_SENT = 7
    CONGESTED = 8  # the buffer crossed its threshold, whatever was sent
    RELIEVED = 9
    IGNORED = 10  # a frame, or its part for these priorities: an Ignored
    STORM_DETECTED = 11  # of one priority: ns for which it was paused
    STORM_ENDED = 12  # of one priority: ns for which PFC was off


class Ignored(enum.IntEnum):
    """The reason why a frame was ignored, whole or for some of its priorities."""

    TOO_SHORT = 0  # these four are the codec's reasons
    NOT_MAC_CONTROL = 1
    WRONG_DESTINATION = 2
    UNKNOWN_OPCODE = 3
    GLOBAL_PAUSE = 4  # it would stop the whole link; PFC and PAUSE do not mix on one
    NOT_ENABLED = 5  # from here on: for a priority, not for the frame
    STORM = 6


_IGNORED = int(PfcEvent.IGNORED)
_OF_PRIORITIES = (Ignored.NOT_ENABLED, Ignored.STORM)
_STARTS = frozenset({PfcEvent.XOFF_RECEIVED, PfcEvent.PAUSE_RESTORED})
_ENDS = frozenset({PfcEvent.XON_RECEIVED, PfcEvent.PAUSE_EXPIRED, PfcEvent.PAUSE_CANCELLED, PfcEvent.STORM_DETECTED})


class PfcCounters:
    """Sums over events for each priority: how often they happened, and for how long its transmission was paused."""

    __slots__ = ("_counts", "_frames_ignored", "_ignored", "_paused_ns", "_paused_since")

    def __init__(self) -> None:
        self._counts = [[0] * 8 for _ in PfcEvent]  # by PfcEvent; the one of IGNORED stays 0
        self._frames_ignored = {reason: 0 for reason in Ignored if reason not in _OF_PRIORITIES}
        self._ignored = {reason: [0] * 8 for reason in _OF_PRIORITIES}
        self._paused_ns = [0] * 8
        self._paused_since: dict[int, int] = {}

    def add(self, events: Iterable[Event]) -> None:
        """Count these events, which come after all that were counted before."""
        for now_ns, kind, mask, value in events:
            if kind == _IGNORED:
                self._add_ignored(Ignored(value), mask)
                continue
            count = self._counts[kind]
            for priority in PRIORITIES_IN[mask]:
                count[priority] += 1
                if kind in _STARTS:
                    self._paused_since.setdefault(priority, now_ns)
                elif kind in _ENDS and priority in self._paused_since:
                    self._paused_ns[priority] += now_ns - self._paused_since.pop(priority)

    @property
    def paused_since(self) -> Mapping[int, int]:
        """The moment at which each pause began that goes on, by priority."""
        return self._paused_since

    def add_sums(
        self, counts: Mapping[PfcEvent, Sequence[int]], paused_since: Mapping[int, int], paused_ns: Sequence[int]
    ) -> None:
        """Add what was counted elsewhere: events and the time of ended pauses of each priority, and how pauses are."""
        for kind, of_kind in counts.items():
            self._counts[kind] = [before + more for before, more in zip(self._counts[kind], of_kind, strict=True)]
        self._paused_since = dict(paused_since)
        self._paused_ns = [before + more for before, more in zip(self._paused_ns, paused_ns, strict=True)]

    def count(self, kind: PfcEvent, priority: int) -> int:
        """Return how often this happened to the priority."""
        return self._counts[kind][priority]

    def ignored(self, reason: Ignored, priority: int | None = None) -> int:
        """Return how many frames were ignored for the reason, or how many times the priority's part of one."""
        return self._frames_ignored[reason] if priority is None else self._ignored[reason][priority]

    def paused_ns(self, priority: int, now_ns: int) -> int:
        """Return the time for which the priority's own transmission was paused in all, a pause under way included."""
        return self._paused_ns[priority] + now_ns - self._paused_since.get(priority, now_ns)

    def frames(self) -> dict[str, int]:
        """Return the ignored frames by reason, as plain data."""
        return {reason.name.lower(): count for reason, count in self._frames_ignored.items()}

    def priority(self, priority: int, now_ns: int) -> dict[str, Any]:
        """Return all counters of a priority, as plain data."""
        counts = {kind.name.lower(): self._counts[kind][priority] for kind in PfcEvent if kind is not PfcEvent.IGNORED}
        ignored = {reason.name.lower(): count[priority] for reason, count in self._ignored.items()}
        return {**counts, "ignored": ignored, "paused_ns": self.paused_ns(priority, now_ns)}

    def _add_ignored(self, reason: Ignored, mask: int) -> None:
        if reason in self._frames_ignored:
            self._frames_ignored[reason] += 1
        else:
            for priority in PRIORITIES_IN[mask]:
                self._ignored[reason][priority] += 1
