"""Deadlocks of PFC: paused queues that wait for each other in a circle (decision 0295).

Two relations say what waits for what at one moment. A paused queue waits for the priority groups, at the other end of
its cable, whose congestion has paused it. A group waits for the queues in which its frames lie. A queue is stuck if a
group that pauses it stays congested even when all frames have left that can leave: those in queues that are not stuck.
The stuck queues are the largest set for which this holds, so no order of events resumes one of them: only a watchdog,
a lost link or other settings do. Each stuck queue waits for a stuck one, hence there is a circle if there are any.

A queue that a host pauses, however long, is not stuck, since the host may resume it: a storm is no deadlock. Nothing
here looks at time or at a network; the relations come in as mappings.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

Place = tuple[int, int]
"""A port's slot, with the number of a queue or of a priority group."""


@dataclass(frozen=True)
class Waits:
    """The relations of waiting between queues and groups."""

    paused: Mapping[Place, Collection[Place]]
    """The congested groups that have paused each paused queue; none for a queue that something else has paused."""
    held: Mapping[Place, Mapping[Place, int]]
    """The cells that each group has in each queue."""
    stays_congested: Callable[[Place, Mapping[Place, int]], bool]
    """A function that returns True if a group would stay congested if each group had only these cells left. With fewer
    left, it never does sooner."""


def deadlocks(waits: Waits) -> list[tuple[Place, ...]]:
    """Return a circle of each deadlock: every queue waits for the next one, the last for the first, which is the
    lowest.

    Circles that share a queue, or wait for each other, are one deadlock; of these the shortest through its lowest queue
    is given.
    """
    after = _after(waits)
    reached = {queue: set(_reached(after, queue)) for queue in after}
    found, done = [], set[Place]()
    for queue in sorted(after):
        if queue not in done and queue in reached[queue]:
            done |= {other for other in reached[queue] if queue in reached[other]}
            found.append(_circle(after, queue))
    return found


def stuck(waits: Waits) -> frozenset[Place]:
    """Return all queues that wait for a circle, those of the circle included."""
    return frozenset(_after(waits))


def _after(waits: Waits) -> dict[Place, set[Place]]:
    """Return the stuck queues that each stuck queue waits for."""
    queues = set(waits.paused)
    while True:
        left = {
            group: sum(cells for queue, cells in held.items() if queue in queues) for group, held in waits.held.items()
        }
        stays = {group for group, cells in left.items() if cells and waits.stays_congested(group, left)}
        still = {queue for queue in queues if any(group in stays for group in waits.paused[queue])}
        if still == queues:
            break
        queues = still
    return {
        queue: {
            other
            for group in waits.paused[queue]
            if group in stays
            for other, cells in waits.held[group].items()
            if cells and other in queues
        }
        for queue in queues
    }


def _reached(after: Mapping[Place, Iterable[Place]], start: Place) -> Iterator[Place]:
    """Yield all queues that `start` waits for, next ones first."""
    seen, ways = set[Place](), [start]
    for queue in ways:
        for other in sorted(after[queue]):
            if other not in seen:
                seen.add(other)
                ways.append(other)
                yield other


def _circle(after: Mapping[Place, Iterable[Place]], start: Place) -> tuple[Place, ...]:
    """Return a shortest way from `start` back to it."""
    ways: list[tuple[Place, ...]] = [(start,)]
    seen = set[Place]()
    for way in ways:
        for other in sorted(after[way[-1]]):
            if other == start:
                return way
            if other not in seen:
                seen.add(other)
                ways.append((*way, other))
    raise AssertionError("the queue is on no circle")  # the caller has found that it is


@dataclass(frozen=True)
class Deadlock:
    """One deadlock, from the look that found it on."""

    number: int
    """The number of the deadlock, from 1 on, in the order in which they were found."""
    circle: tuple[Place, ...]
    since_ns: int


class DeadlockWatch:
    """A watch that compares each look at a network with the one before."""

    def __init__(self) -> None:
        self._lasting: list[Deadlock] = []
        self._found = 0

    def look(self, waits: Waits, now_ns: int) -> tuple[list[Deadlock], list[Deadlock]]:
        """Return the deadlocks that are new, and those that are broken: at least one queue of the circle can resume.

        One that has grown, because other queues have come to wait in its circle, stays the same.
        """
        still = stuck(waits)
        broken = [one for one in self._lasting if not still.issuperset(one.circle)]
        self._lasting = [one for one in self._lasting if one not in broken]
        known = {queue for one in self._lasting for queue in one.circle}
        new = []
        for circle in deadlocks(waits):
            if not known.intersection(circle):
                self._found += 1
                new.append(Deadlock(self._found, circle, now_ns))
        self._lasting += new
        return new, broken
