"""The scheduling of a port's eight queues: strict ones in an order, and shares of the rest for the others.

It comes from a port's own shares, from a negotiated ETS table, or from the lanes of a QoS policy. All take one form: a
queue for each local priority, and for each queue a level (0 is served first) and a weight within its level.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from testbed.frames.dcbx.values import STRICT, Ets, Tsa
from testbed.net.fabric.port import Port

SHARED = 6
"""The level of the queues that share the line, at ports where other queues can become strict later."""
_QUEUES = range(8)
_WHOLE = 1_000_000


@dataclass(frozen=True)
class Scheduling:
    """The scheduling of one port."""

    queue_of: tuple[int, ...]
    """The queue of each local priority."""
    strict: frozenset[int]
    levels: tuple[int, ...]
    weights: tuple[int, ...]
    """The weight of each queue, in hundredths of a percent. A queue without a share has the least weight of the others;
    one that no priority uses has the most, so that frames in it leave soon."""

    @classmethod
    def of_port(cls, port: Port) -> Scheduling:
        """Return the scheduling of a port's settings: a queue for each priority, the highest strict one first."""
        strict = sorted(port.strict, reverse=True)
        # With DCBX there may be a table of ETS later, and with virtual lanes a policy.
        shared = SHARED if port.dcbx or port.vls else min(len(strict), 7)
        return cls._made(tuple(_QUEUES), strict, port.weights(), shared)

    @classmethod
    def of_lanes(cls, strict: Sequence[int], weighted: Mapping[int, Fraction]) -> Scheduling:
        """Return the scheduling of virtual lanes; lane n is queue n.

        Strict ones are served in their order. A lane that is neither strict nor weighted gets what the others leave.
        """
        weights = {vl: max(1, round(part * _WHOLE)) for vl, part in weighted.items()}
        return cls._made(tuple(_QUEUES), list(strict), weights, SHARED)

    @classmethod
    def of_ets(cls, ets: Ets) -> Scheduling:
        """Return the scheduling of an ETS table; traffic class n is queue n.

        In the published standard's tables strict classes come first, the highest of them before the others. A class
        with the credit-based shaper is strict here, as there is no such shaper; a class with a vendor's algorithm,
        which is unknown, has its bandwidth. In a draft's tables each priority that is assigned to AVB (13, 14) or is
        strict (15) has a queue that no group uses; AVB comes first. A class with a bandwidth of 0 gets what all others
        leave.

        The level of the classes that share is always the same, because the kernel does not move a class that holds
        frames to another level. That leaves six levels above them, so the strict classes from the sixth on take turns.
        """
        return cls._draft(ets) if ets.tsa is None else cls._published(ets, ets.tsa)

    @classmethod
    def _published(cls, ets: Ets, tsa: tuple[int, ...]) -> Scheduling:
        strict = [queue for queue in reversed(_QUEUES) if tsa[queue] in (Tsa.STRICT, Tsa.CBS)]
        used = set(ets.assignment)
        weights = {queue: ets.bandwidth[queue] * 100 for queue in _QUEUES if queue not in strict}
        return cls._made(ets.assignment, [queue for queue in strict if queue in used], weights, SHARED)

    @classmethod
    def _draft(cls, ets: Ets) -> Scheduling:
        groups = {group for group in ets.assignment if group in _QUEUES}
        free = [queue for queue in _QUEUES if queue not in groups]
        queue_of = list(ets.assignment)
        alone = [priority for priority in _QUEUES if ets.assignment[priority] not in _QUEUES]
        for priority in sorted(alone, key=lambda priority: priority not in free):  # its own queue, if that is free
            queue_of[priority] = priority if priority in free else free[0]
            free.remove(queue_of[priority])
        order = sorted(alone, key=lambda priority: (ets.assignment[priority] == STRICT, -priority))
        weights = {group: ets.bandwidth[group] * 100 for group in groups}
        return cls._made(tuple(queue_of), [queue_of[priority] for priority in order], weights, SHARED)

    @classmethod
    def _made(cls, queue_of: tuple[int, ...], strict: list[int], weights: dict[int, int], shared: int) -> Scheduling:
        """Return the scheduling with these queues; `shared` is the level of those that share what strict ones leave."""
        used = set(queue_of)
        lowest_strict = shared - 1 if used - set(strict) else 7
        levels = [0] * 8
        for queue in _QUEUES:
            if queue in strict:
                levels[queue] = min(strict.index(queue), lowest_strict)
            else:
                levels[queue] = shared if weights.get(queue) or queue not in used else min(shared + 1, 7)
        given = [weights[queue] for queue in used if weights.get(queue)] or [1]
        left = {True: min(given), False: max(given)}
        return cls(
            queue_of,
            frozenset(strict),
            tuple(levels),
            tuple((queue in used and weights.get(queue)) or left[queue in used] for queue in _QUEUES),
        )
