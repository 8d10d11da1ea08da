"""Orders to a switch: flow entries, groups and frames, as plain data. `openflow` makes messages of it."""

from __future__ import annotations

from dataclasses import dataclass

QUEUES, SOURCES, WAYS = 0, 1, 2  # tables
TO_CONTROLLER = -1  # in place of a port


@dataclass(frozen=True)
class Rule:
    """A flow entry; `match` is in OpenFlow's names. One with the same table, priority and match is replaced."""

    table: int
    priority: int
    match: tuple[tuple[str, object], ...] = ()
    queue: int | None = None
    outputs: tuple[int, ...] = ()
    group: int | None = None
    goto: int | None = None
    is_learned: bool = False
    """True for the rule of a station at its own port, which the next controller has to remove to learn it anew."""

    @property
    def key(self) -> tuple[object, ...]:
        return "rule", self.table, self.priority, self.match


@dataclass(frozen=True)
class Group:
    """Equal ways: each flow goes by one of the ports, by the switch's hash, among those that have a carrier."""

    number: int
    ports: tuple[int, ...]
    seed: int

    @property
    def key(self) -> tuple[object, ...]:
        return "group", self.number


@dataclass(frozen=True)
class Replace:
    """Give a group that the switch has other ports."""

    group: Group


@dataclass(frozen=True)
class Remove:
    """Remove a flow entry, or a group with all entries that lead to it."""

    what: Rule | Group


@dataclass(frozen=True)
class ForgetSources:
    """Remove what a controller before this one has learned of stations at the switch's own ports."""


@dataclass(frozen=True)
class Send:
    """Send a frame of the controller's own out of a port."""

    output: int
    frame: bytes


Order = Rule | Group | Replace | Remove | ForgetSources | Send
Orders = list[tuple[int, Order]]
"""Orders, each with the number of the switch that it is for."""
