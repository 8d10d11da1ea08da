"""The equal ways of one switch, which follow the links of its ports.

A way whose port has lost its carrier leaves its groups after a time, as a device needs to notice; until then frames
that hash to it are lost. It comes back as soon as the port has a carrier again. The port program's memory has the ways
that have left, and a successor of an agent that died takes them over from there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from testbed.linux.port_program.ways_tables import WaysTables
from testbed.switch.ways.model import table
from testbed.switch.ways.settings import Ways
from testbed.units import NEVER


@dataclass(frozen=True)
class WaysPlan:
    """A group of equal ways: its number in the port program, and the slots of the ports, in the group's order."""

    number: int
    settings: Ways
    weights: tuple[int, ...]
    slots: tuple[int, ...]
    gone_after_ns: int

    def put(self, tables: WaysTables, lost: frozenset[int] = frozenset()) -> None:
        """Put the group's table into the port program, without the ways by these slots."""
        is_there = [slot not in lost for slot in self.slots]
        slots = [slot if here else None for slot, here in zip(self.slots, is_there, strict=True)]
        tables.set_table(self.number, table(self.settings, self.weights, is_there), slots)


class LostWays:
    """The ports of a switch that have left its groups, and those that will."""

    def __init__(self, plans: Sequence[WaysPlan], tables: WaysTables) -> None:
        self._plans, self._tables = plans, tables
        self._wait_ns = {slot: plan.gone_after_ns for plan in plans for slot in plan.slots}
        self._lost: frozenset[int] = frozenset()
        self._due_ns: dict[int, int] = {}
        self.deadline_ns = NEVER
        """The time at which the next port leaves."""

    def take_over(self) -> None:
        """Take over the ports that have left while another agent ran."""
        self._lost = frozenset(
            slot
            for plan in self._plans
            for slot, way in zip(plan.slots, self._tables.counters(plan.number), strict=True)
            if not way.is_there
        )

    def follow(self, slot: int, has_link: bool, now_ns: int) -> bool:
        """Note the state of a port's link; return True if the port is back in its groups."""
        if slot not in self._wait_ns:
            return False
        if not has_link:
            if slot not in self._lost:
                self._due_ns.setdefault(slot, now_ns + self._wait_ns[slot])
                self._set_deadline()
            return False
        self._due_ns.pop(slot, None)
        self._set_deadline()
        if slot not in self._lost:
            return False
        self._put(self._lost - {slot}, slot)
        return True

    def expire(self, now_ns: int) -> list[int]:
        """Take the ports whose time is over out of their groups, and return their slots."""
        due = [slot for slot, due_ns in self._due_ns.items() if due_ns <= now_ns]
        for slot in due:
            del self._due_ns[slot]
            self._put(self._lost | {slot}, slot)
        self._set_deadline()
        return due

    def _set_deadline(self) -> None:
        self.deadline_ns = min(self._due_ns.values(), default=NEVER)

    def _put(self, lost: frozenset[int], changed: int) -> None:
        self._lost = lost
        for plan in self._plans:
            if changed in plan.slots:
                plan.put(self._tables, lost)
