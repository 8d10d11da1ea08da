"""The use of a buffer: cells by kind, of groups, queues and pools, with watermarks and counters."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from testbed.switch.buffer.settings import GroupSettings, QueueSettings


class DropReason(enum.StrEnum):
    HEADROOM = "headroom"  # lossless, and the group's headroom is full: the configuration is wrong
    HEADROOM_POOL = "headroom pool"  # lossless, and the pool is empty: only if headroom was overbooked
    THRESHOLD = "threshold"  # lossy, over the group's threshold
    SHARED_POOL = "shared pool"  # lossy, and the shared pool has not enough left
    QUEUE_THRESHOLD = "queue threshold"  # over the threshold of its egress queue, lossless or not
    EGRESS_POOL = "egress pool"  # the egress pool has not enough left


Key = tuple[int, int]
"""A port, with a priority or a queue."""


class Signal(enum.StrEnum):
    """The signal to send upstream for the group's priority, out of the group's port."""

    XOFF = "xoff"
    XON = "xon"


@dataclass(frozen=True)
class Cells:
    """Numbers of cells of each kind."""

    guaranteed: int = 0
    shared: int = 0
    headroom: int = 0

    @property
    def total(self) -> int:
        return self.guaranteed + self.shared + self.headroom

    def __add__(self, other: Cells) -> Cells:
        return Cells(self.guaranteed + other.guaranteed, self.shared + other.shared, self.headroom + other.headroom)

    def __sub__(self, other: Cells) -> Cells:
        return self + Cells(-other.guaranteed, -other.shared, -other.headroom)

    def highest(self, other: Cells) -> Cells:
        """Return the larger number of each kind."""
        return Cells(
            max(self.guaranteed, other.guaranteed), max(self.shared, other.shared), max(self.headroom, other.headroom)
        )


@dataclass(frozen=True)
class Watermark:
    """The most cells that were in use since the watermark was last cleared."""

    cells: Cells
    total: int


@dataclass
class Use:
    """The cells in use of a group, queue or pool, and the most that were."""

    used: Cells = field(default_factory=Cells)
    high_water: Cells = field(default_factory=Cells)
    most_cells: int = 0

    def note(self) -> None:
        self.high_water = self.high_water.highest(self.used)
        self.most_cells = max(self.most_cells, self.used.total)

    def watermark(self, clear: bool) -> Watermark:
        found = Watermark(self.high_water, self.most_cells)
        if clear:
            self.high_water, self.most_cells = self.used, self.used.total
        return found


@dataclass
class PoolUse(Use):
    """The use of a pool. In an egress pool reserved cells are `guaranteed`."""

    size: Cells = field(default_factory=Cells)

    @property
    def free(self) -> int:
        return self.size.shared - self.used.shared


@dataclass
class QueueUse(Use):
    settings: QueueSettings = field(default_factory=QueueSettings)
    admitted_frames: int = 0
    admitted_cells: int = 0
    dropped_frames: int = 0
    dropped_cells: int = 0


@dataclass
class GroupUse(Use):
    settings: GroupSettings = field(default_factory=GroupSettings)
    xoff: bool = False
    xoffs: int = 0
    xons: int = 0
    admitted_frames: int = 0
    admitted_cells: int = 0
    released_frames: int = 0
    released_cells: int = 0
    dropped_frames: dict[DropReason, int] = field(default_factory=lambda: dict.fromkeys(DropReason, 0))
    dropped_cells: dict[DropReason, int] = field(default_factory=lambda: dict.fromkeys(DropReason, 0))
    trimmed_frames: int = 0
    trimmed_cells: int = 0

    def stop(self) -> None:
        """Make the group XOFF."""
        self.xoff = True
        self.xoffs += 1

    def go(self) -> None:
        """Make the group XON."""
        self.xoff = False
        self.xons += 1


@dataclass
class PortUse:
    """The lossless groups of a port together, where ports are paused as a whole."""

    groups: int = 0
    headroom: int = 0
    """The most cells that the groups may have in headroom together."""
    used_shared: int = 0
    used_headroom: int = 0
    most_shared: int = 0
    most_headroom: int = 0
    paused: bool = False
    pauses: int = 0
    resumes: int = 0
