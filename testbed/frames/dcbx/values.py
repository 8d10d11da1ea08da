"""Values that DCBX negotiates, and that ports and the kernel have too: ETS tables, entries of application tables.

The TLVs that carry them are in `testbed.subjects.dcbx.features`. A priority set is a mask, bit n for priority n, as it
is on the wire. A table is a tuple of eight.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from testbed.frames import FieldError

PRIORITIES = range(8)

AVB = (13, 14)
STRICT = 15
"""The draft's priority assignments that name no priority group."""

Table = tuple[int, ...]

_OCTET = frozenset(range(256))
_HALF_OCTET = frozenset(range(16))


class DcbxVersion(enum.StrEnum):
    """The two formats of DCBX, of which a port speaks one (decision 0100)."""

    PUBLISHED = "published"  # IEEE 802.1Qaz, now 802.1Q annex D
    DRAFT = "draft"  # DCBX framework draft, April 2009

    @property
    def other(self) -> DcbxVersion:
        return DcbxVersion.DRAFT if self is DcbxVersion.PUBLISHED else DcbxVersion.PUBLISHED


class Tsa(enum.IntEnum):
    """Transmission selection algorithms of a traffic class; published format only."""

    STRICT = 0
    CBS = 1
    ETS = 2
    VENDOR = 255


class Selector(enum.Enum):
    """The kind of a protocol ID in the application table; the number on the wire depends on the format."""

    ETHERTYPE = "Ethertype"  # published: Ethertype 0 is the default for everything else
    TCP = "TCP port"  # published: also SCTP
    UDP = "UDP port"  # published: also DCCP
    ANY_PORT = "TCP or UDP port"  # published: also SCTP and DCCP
    OTHER_PORT = "port of neither TCP nor UDP"  # draft only
    DSCP = "DSCP"  # published only


PUBLISHED_SELECTORS = {
    1: Selector.ETHERTYPE,
    2: Selector.TCP,
    3: Selector.UDP,
    4: Selector.ANY_PORT,
    5: Selector.DSCP,
}
"""The selectors by their numbers in the published format, which are the kernel's too."""
DRAFT_SELECTORS = {
    0: Selector.ETHERTYPE,
    1: Selector.TCP,
    2: Selector.UDP,
    3: Selector.ANY_PORT,
    4: Selector.OTHER_PORT,
}
"""The selectors by their numbers in the draft's format."""


@dataclass(frozen=True, slots=True)
class Ets:
    """An ETS table: the traffic class (draft: priority group) of each priority, and the share of each class in
    percent.
    """

    assignment: Table  # priority -> class; draft: also AVB and STRICT
    bandwidth: Table  # class -> percent
    tsa: Table | None = None  # class -> Tsa, in the published format; the draft has none

    def __post_init__(self) -> None:
        check_table("priority assignment", self.assignment, _HALF_OCTET)
        check_table("bandwidth", self.bandwidth, _OCTET)
        if self.tsa is not None:
            check_table("transmission selection", self.tsa, _OCTET)

    @property
    def version(self) -> DcbxVersion:
        return DcbxVersion.DRAFT if self.tsa is None else DcbxVersion.PUBLISHED

    def problem(self) -> str | None:
        """Return the reason why this table is invalid, or None."""
        return assignment_problem(self.assignment, self.tsa) or bandwidth_problem(self.bandwidth, self.tsa)


def assignment_problem(assignment: Table, tsa: Table | None) -> str | None:
    """Return a message about the first value that has no meaning (decision 0103), or None if all have one."""
    defined = _PUBLISHED_CLASSES if tsa else _DRAFT_GROUPS
    if not defined.issuperset(assignment):
        priority = next(priority for priority in PRIORITIES if assignment[priority] not in defined)
        return f"priority {priority} is assigned to {assignment[priority]}, which is not defined"
    if tsa and not _ALGORITHMS.issuperset(tsa):
        number = next(number for number in range(8) if tsa[number] not in _ALGORITHMS)
        return f"class {number} has transmission selection {tsa[number]}, which is not defined"
    return None


def bandwidth_problem(bandwidth: Table, tsa: Table | None) -> str | None:
    """Return why the percents are wrong, or None if their sum is 100; zeros will do where no class uses ETS (0106)."""
    total = sum(bandwidth)
    if total == 100 or (total == 0 and tsa is not None and Tsa.ETS not in tsa):
        return None
    return f"its bandwidths sum to {total}, not 100"


_PUBLISHED_CLASSES = frozenset(range(8))
_DRAFT_GROUPS = frozenset({*range(8), *AVB, STRICT})
_ALGORITHMS = frozenset(Tsa)


@dataclass(frozen=True, slots=True)
class EtsRecommendation:
    """The table that the sender would have its peer operate with. In the draft it is only about bandwidth."""

    bandwidth: Table = (0,) * 8
    assignment: Table | None = None  # published only, with tsa
    tsa: Table | None = None
    valid: bool = True  # RV. Draft only: False: nothing is recommended yet, and the table is reserved

    def __post_init__(self) -> None:
        check_table("recommended bandwidth", self.bandwidth, _OCTET)
        if (self.assignment is None) != (self.tsa is None):
            raise FieldError("a recommendation has both a priority assignment and transmission selection, or neither")
        if self.assignment is not None and self.tsa is not None:
            check_table("recommended priority assignment", self.assignment, _HALF_OCTET)
            check_table("recommended transmission selection", self.tsa, _OCTET)
        if not self.valid and (self.tsa is not None or any(self.bandwidth)):
            raise FieldError("a recommendation with RV 0 is empty: its table is reserved, all zeros")

    @property
    def version(self) -> DcbxVersion:
        return DcbxVersion.DRAFT if self.tsa is None else DcbxVersion.PUBLISHED

    def applied_to(self, ets: Ets) -> Ets:
        """Return the table with which a port that has `ets` operates when it follows the recommendation."""
        return Ets(ets.assignment if self.assignment is None else self.assignment, self.bandwidth, self.tsa)


@dataclass(frozen=True, slots=True)
class AppEntry:
    """The priority that one protocol is to use."""

    priority: int
    selector: Selector
    protocol: int

    def __post_init__(self) -> None:
        check_priority(self.priority)
        if self.protocol >> 16:
            raise FieldError(f"protocol ID {self.protocol} does not fit into 16 bits")


def mask(priorities: Iterable[int]) -> int:
    """Return a set of priorities as a mask."""
    bits = 0
    for priority in priorities:
        check_priority(priority)
        bits |= 1 << priority
    return bits


def priorities(bits: int) -> Iterator[int]:
    """Return the priorities of a mask, lowest first."""
    return (priority for priority in PRIORITIES if bits >> priority & 1)


def check_priority(priority: int) -> None:
    if not 0 <= priority <= 7:
        raise FieldError(f"{priority} is not a priority: there are 0 to 7")


def check_mask(name: str, bits: int) -> None:
    if not 0 <= bits <= 0xFF:
        raise FieldError(f"{name} {bits:#x} is not a set of priorities: it has more than 8 bits")


def check_table(name: str, table: Table, allowed: frozenset[int]) -> None:
    if len(table) != 8:
        raise FieldError(f"a {name} table has 8 entries, not {len(table)}")
    if not allowed.issuperset(table):
        raise FieldError(f"a {name} table holds 0 to {max(allowed)}, and here is {table}")
