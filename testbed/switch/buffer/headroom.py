"""Policies for headroom: who may use how much of it for the frames that still come in after PAUSE.

| policy | headroom of a switch | a frame finds none if |
|---|---|---|
| `HeadroomPerGroup` | the sum of what all groups need | its group has used up its part |
| `SharedHeadroomPool` | that sum by an over-subscription ratio (SONiC) | its group has used up its part, or all have |
| `DynamicSharedHeadroom` | for each port what its neediest group needs (DSH) | its port has used up its part |

With `DynamicSharedHeadroom` (Shan et al.) a group sends PAUSE earlier, so that the shared pool has room for what its
port may still get. Only if a port as a whole has no room any longer, all of its groups are paused, and headroom holds
what then comes in: a line's worth, and not that of each group. `charging` has the rules.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from testbed.errors import UsageError, listed

Key = tuple[int, int]


class HeadroomPolicyError(UsageError):
    """A policy for headroom does not exist, or its settings are invalid."""


@dataclass(frozen=True)
class HeadroomPolicy(ABC):
    """A policy. The headrooms of groups are those of lossless groups in one ingress pool, by (port, priority)."""

    name: ClassVar[str]
    """The names that users write: `Buffer(headroom="dsh")`."""
    pauses_ports: ClassVar[bool] = False
    """True if a port is paused as a whole when it has no room."""
    overbooks: ClassVar[bool] = False
    """True if the pool may be smaller than the sum of its groups' headrooms, which then is no error."""
    cells: int | None = None
    """The headroom of each lossless group. With None it is what the port's cable needs."""

    def __post_init__(self) -> None:
        if self.cells is not None and (type(self.cells) is not int or self.cells < 0):
            raise HeadroomPolicyError(f"cells is {self.cells!r}; headroom is a whole number of cells from 0 on")
        if self.cells == 0 and (self.overbooks or self.pauses_ports):
            raise HeadroomPolicyError(
                f"cells is 0, the headroom of each group, so {type(self).__name__} would have nothing to share and all "
                "that comes in after PAUSE would be dropped; leave cells out for what the cables need"
            )

    @abstractmethod
    def pool(self, headrooms: Mapping[Key, int]) -> int:
        """Return the cells of a pool's headroom where no number is given."""

    def shared_by(self, group: Key) -> Hashable:
        """Return the unit that a group shares its headroom with: groups of one unit have it together."""
        return group

    def promised(self, headrooms: Mapping[Key, int]) -> dict[Hashable, int]:
        """Return the headroom of each unit."""
        by_unit: defaultdict[Hashable, int] = defaultdict(int)
        for group, cells in headrooms.items():
            by_unit[self.shared_by(group)] = max(by_unit[self.shared_by(group)], cells)
        return by_unit


@dataclass(frozen=True)
class HeadroomPerGroup(HeadroomPolicy):
    """Static headroom: each lossless group has its own, used or not."""

    name = "per group"

    def pool(self, headrooms: Mapping[Key, int]) -> int:
        return sum(headrooms.values())


@dataclass(frozen=True)
class SharedHeadroomPool(HeadroomPolicy):
    """SONiC's shared headroom pool: groups have a limit each, and the pool has less than all of them together."""

    name = "shared pool"
    overbooks = True
    over_subscribe: Fraction | int | str = 2
    """The sum of all headrooms by that of the pool: `over_subscribe_ratio` of SONiC."""

    def __post_init__(self) -> None:
        super().__post_init__()
        try:
            ratio = Fraction(self.over_subscribe) if type(self.over_subscribe) is not float else Fraction(0)
        except (ValueError, ZeroDivisionError, TypeError):
            ratio = Fraction(0)
        if ratio < 1:
            raise HeadroomPolicyError(
                f"over_subscribe is {self.over_subscribe!r}; it is a number from 1 on, whole or as text ('5/2')"
            )
        object.__setattr__(self, "over_subscribe", ratio)

    def pool(self, headrooms: Mapping[Key, int]) -> int:
        """Return the sum by the ratio, rounded up, but no less than one group may need."""
        whole = -(-sum(headrooms.values()) // Fraction(self.over_subscribe))
        return max(int(whole), *headrooms.values(), 0)


@dataclass(frozen=True)
class DynamicSharedHeadroom(HeadroomPolicy):
    """DSH: what is in flight to a group goes into the shared pool; a port has headroom for its own line once."""

    name = "dsh"
    pauses_ports = True

    def pool(self, headrooms: Mapping[Key, int]) -> int:
        return sum(self.promised(headrooms).values())

    def shared_by(self, group: Key) -> Hashable:
        return group[0]


PER_GROUP = HeadroomPerGroup()
POLICIES: dict[str, type[HeadroomPolicy]] = {
    one.name: one for one in (HeadroomPerGroup, SharedHeadroomPool, DynamicSharedHeadroom)
}


def policy_of(headroom: object) -> HeadroomPolicy:
    """Return a policy from what a user writes: None or a number of cells, a word, or a policy."""
    if headroom is None or type(headroom) is int:
        return HeadroomPerGroup(headroom)
    if isinstance(headroom, HeadroomPolicy):
        return headroom
    if isinstance(headroom, str) and headroom in POLICIES:
        return POLICIES[headroom]()
    raise HeadroomPolicyError(
        f"headroom is {headroom!r}; write a number of cells, or one of {listed(map(repr, POLICIES))}, or a policy such "
        "as DynamicSharedHeadroom(cells=300)"
    )
