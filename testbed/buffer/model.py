"""The switch's ingress buffer, frame by frame: the reference that any faster realisation has to agree with.

It implements "PAUSE generation" and "PFC thresholds" of the PFC/ECN article by decisions 0114 and 0130 to 0133.
Integers only, no clock: the caller reports each frame that comes or leaves, the model returns where its cells went and
whether PAUSE (XOFF) or resume (XON) is due. It sends nothing and knows no pause times and no queues.

Words. A frame takes n = length / cell size cells, rounded up. `free` is the shared pool less all shared cells in use.
A group's threshold T is its static cells (0 while free is 0), or alpha x free rounded down.

     Arrival, where `free` and T are those before the frame: A1 In XOFF the whole frame is for headroom: go to A4. A2
     The group's unused guaranteed cells take what they can of n; `rest` is what they cannot. A3 If rest is 0, or rest
     <= free and the group's shared cells + rest <= T, the frame is admitted: the rest is shared. If not, a lossy frame
     is dropped whole: "shared pool" if rest > free, else "threshold". A lossless group becomes XOFF, which is signalled
     with this frame, and the whole frame is for headroom (guaranteed is untouched). A4 Headroom: dropped as "headroom"
     if the group's headroom cells + n exceed its limit, else as "headroom pool" if the pool has less than n left, else
     admitted. Departure of a frame of n cells: D1 Cells go back from the group's headroom first, then shared, then
     guaranteed: headroom has to be empty for the next round trip, shared cells are what other groups wait for, and
     guaranteed cells are the group's own. It does not matter which of them this frame was charged to, so nothing need
     be remembered per frame. D2 Then a group in XOFF becomes XON, which is signalled, if its headroom is empty and
     either its shared part is empty, or its shared cells + xon_offset <= T (T after the frame; it is 0 while the pool
     is exhausted). Why an empty shared part suffices: the group has nothing more to give back, so it would wait for
     others for ever, and its guaranteed cells with it. Hence a group that drains resumes by its own departures. A group
     that lost the frame that made it XOFF and holds nothing else has no departures; `recheck` resumes it.

A dynamic threshold also moves when others come and go. XOFF then comes with the group's next frame (0131); XON with
its next departure, or when `recheck` is called, which is meant for the moment before PAUSE is sent again.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from testbed.buffer.settings import BufferBusyError, BufferModelError, BufferSettings, GroupSettings


class DropReason(enum.StrEnum):
    HEADROOM = "headroom"  # lossless, and the group's headroom is full: the configuration is wrong
    HEADROOM_POOL = "headroom pool"  # lossless, and the pool is empty: only if headroom was overbooked
    THRESHOLD = "threshold"  # lossy, over the group's threshold
    SHARED_POOL = "shared pool"  # lossy, and the shared pool has not enough left


class Signal(enum.StrEnum):
    """What has to be sent upstream, for the group's priority, out of the group's port."""

    XOFF = "xoff"
    XON = "xon"


@dataclass(frozen=True)
class Cells:
    """How many cells of each kind."""

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
        """The larger of the two in each kind."""
        return Cells(
            max(self.guaranteed, other.guaranteed), max(self.shared, other.shared), max(self.headroom, other.headroom)
        )


@dataclass(frozen=True)
class Admission:
    """What became of an arriving frame: `cells` it was given (none if dropped)."""

    cells: Cells
    dropped: DropReason | None = None
    signal: Signal | None = None


@dataclass(frozen=True)
class Release:
    """What a departing frame gave back."""

    cells: Cells
    signal: Signal | None = None


@dataclass(frozen=True)
class Resumed:
    """A group that new settings turned from XOFF to XON."""

    port: int
    priority: int


@dataclass
class _Group:
    settings: GroupSettings
    used: Cells = field(default_factory=Cells)
    high_water: Cells = field(default_factory=Cells)
    most_cells: int = 0
    xoff: bool = False
    xoffs: int = 0
    xons: int = 0
    admitted_frames: int = 0
    admitted_cells: int = 0
    released_frames: int = 0
    released_cells: int = 0
    dropped_frames: dict[DropReason, int] = field(default_factory=lambda: dict.fromkeys(DropReason, 0))
    dropped_cells: dict[DropReason, int] = field(default_factory=lambda: dict.fromkeys(DropReason, 0))


class BufferModel:
    """One buffer over all ports of a switch. The rules are in the module's docstring."""

    def __init__(self, settings: BufferSettings) -> None:
        self._settings = settings
        self._groups = {key: _Group(group) for key, group in settings.all_groups().items()}
        self._used = Cells()
        self._high_water = Cells()
        self._most_cells = 0
        self._size = _sizes(settings)

    @property
    def settings(self) -> BufferSettings:
        return self._settings

    @property
    def free_shared(self) -> int:
        return self._size.shared - self._used.shared

    def threshold(self, port: int, priority: int) -> int:
        """T of a group at this moment, in cells of the shared pool."""
        return self._group(port, priority).settings.threshold.limit(self.free_shared)

    def is_xoff(self, port: int, priority: int) -> bool:
        return self._group(port, priority).xoff

    def used(self, port: int, priority: int) -> Cells:
        return self._group(port, priority).used

    def admit(self, port: int, priority: int, length: int) -> Admission:
        """A frame of `length` bytes came in by `port`."""
        group = self._group(port, priority)
        cells = self._settings.cells(length)
        charge: Cells | DropReason | None = None if group.xoff else self._without_headroom(group, cells)
        signal = None
        if charge is None:
            if not group.xoff:
                group.xoff, signal = True, Signal.XOFF
                group.xoffs += 1
            charge = self._headroom(group, cells)
        if isinstance(charge, DropReason):
            group.dropped_frames[charge] += 1
            group.dropped_cells[charge] += cells
            return Admission(Cells(), charge, signal)
        group.admitted_frames += 1
        group.admitted_cells += cells
        group.used += charge
        group.high_water = group.high_water.highest(group.used)
        group.most_cells = max(group.most_cells, group.used.total)
        self._used += charge
        self._note_high_water()
        return Admission(charge, None, signal)

    def release(self, port: int, priority: int, length: int) -> Release:
        """A frame of `length` bytes that came in by `port` has left the switch, or was thrown away inside it."""
        group = self._group(port, priority)
        cells = self._settings.cells(length)
        if cells > group.used.total or group.released_frames == group.admitted_frames:
            frames = group.admitted_frames - group.released_frames
            raise BufferModelError(
                f"port {port} priority {priority}: {cells} cells were to be released, but its {frames} frames hold "
                f"{group.used.total}; each admitted frame is released once, with the length it was admitted with"
            )
        headroom = min(cells, group.used.headroom)
        shared = min(cells - headroom, group.used.shared)
        given_back = Cells(cells - headroom - shared, shared, headroom)
        group.released_frames += 1
        group.released_cells += cells
        group.used -= given_back
        self._used -= given_back
        return Release(given_back, self._resume(group))

    def recheck(self, port: int, priority: int) -> Signal | None:
        """XON if the group may resume by now, because others made room (D2); to be asked before PAUSE is repeated."""
        return self._resume(self._group(port, priority))

    def configure(self, settings: BufferSettings) -> tuple[Resumed, ...]:
        """Change settings while frames are inside: all or nothing, and no frame, cell or counter is lost.

        Cells outside headroom are divided anew, guaranteed first. BufferBusyError if a pool would then hold more than
        its new size, or if headroom that one group has to give up still holds cells that others are promised:
        `give_up`, let it drain, try again. A group above its new threshold or headroom limit keeps what it holds
        and gets no more; XOFF comes with its next frame (0131). A group that turns lossy resumes at once, and its
        headroom drains. Cell size and ports are the switch's own and cannot change.
        """
        if (settings.cell_bytes, settings.ports) != (self._settings.cell_bytes, self._settings.ports):
            raise BufferModelError("cell size and ports cannot be changed in use; make a new buffer")
        new = settings.all_groups()
        divided = {key: _divided(group.used, new[key].guaranteed) for key, group in self._groups.items()}
        used = sum(divided.values(), start=Cells())
        size = _sizes(settings)
        headroom = used.headroom
        if not settings.missing_headroom:  # overbooked headroom promises nothing
            headroom = sum(max(new[key].headroom, group.used.headroom) for key, group in self._groups.items())
        for name, needs, has in (("shared", used.shared, size.shared), ("headroom", headroom, size.headroom)):
            if needs > has:
                raise BufferBusyError(
                    f"the {name} pool would have {has} cells and needs {needs}: "
                    f"{needs - has} have to drain before these settings can be used"
                )
        self._size, self._used = size, used
        for key, group in self._groups.items():
            group.used = divided[key]
            group.high_water = group.high_water.highest(group.used)
        self._note_high_water()
        return self._set(settings, new)

    def give_up(self, settings: BufferSettings) -> tuple[Resumed, ...]:
        """Of other settings those of groups that lose headroom, while the pools stay as they are. For when `configure`
        is refused: such a group takes no more, so that what it holds beyond its new limit drains.
        """
        old = self._settings.all_groups()
        losers = {
            key: replace(new, guaranteed=old[key].guaranteed)
            for key, new in settings.all_groups().items()
            if new.headroom < old[key].headroom
        }
        return self._set(replace(self._settings, headroom_pool=self._size.headroom, groups=old | losers), losers)

    def _set(self, settings: BufferSettings, changed: Mapping[tuple[int, int], GroupSettings]) -> tuple[Resumed, ...]:
        self._settings = settings
        for key, group in changed.items():
            self._groups[key].settings = group
        return tuple(Resumed(*key) for key in changed if self._resume(self._groups[key]))

    def snapshot(self) -> dict[str, Any]:
        """Every counter as plain data, the same for the same history: pools, then groups that were ever used."""
        pools = {
            name: {
                "size": getattr(self._size, name),
                "used": getattr(self._used, name),
                "high_water": getattr(self._high_water, name),
            }
            for name in ("guaranteed", "shared", "headroom")
        }
        return {
            "cell_bytes": self._settings.cell_bytes,
            "buffer": {"size": self._settings.total, "used": self._used.total, "high_water": self._most_cells},
            **pools,
            "missing_headroom": self._settings.missing_headroom,
            "groups": [
                {
                    "port": port,
                    "priority": priority,
                    "lossless": group.settings.lossless,
                    "xoff": group.xoff,
                    "threshold": group.settings.threshold.limit(self.free_shared),
                    "used": asdict(group.used),
                    "high_water": asdict(group.high_water) | {"total": group.most_cells},
                    "admitted": {"frames": group.admitted_frames, "cells": group.admitted_cells},
                    "released": {"frames": group.released_frames, "cells": group.released_cells},
                    "dropped": {
                        reason.value: {"frames": group.dropped_frames[reason], "cells": group.dropped_cells[reason]}
                        for reason in DropReason
                    },
                    "xoffs": group.xoffs,
                    "xons": group.xons,
                }
                for (port, priority), group in self._groups.items()
                if group.admitted_frames or any(group.dropped_frames.values())
            ],
        }

    def _group(self, port: int, priority: int) -> _Group:
        group = self._groups.get((port, priority))
        if group is None:
            self._settings.check_port(port)
            raise BufferModelError(f"priority {priority!r} does not exist; there are 0 to 7")
        return group

    def _without_headroom(self, group: _Group, cells: int) -> Cells | DropReason | None:
        """A2 and A3. None: a lossless frame that has to go to headroom."""
        guaranteed = min(cells, group.settings.guaranteed - group.used.guaranteed)
        rest = cells - guaranteed
        free = self.free_shared
        if rest == 0 or (rest <= free and group.used.shared + rest <= group.settings.threshold.limit(free)):
            return Cells(guaranteed, rest)
        if group.settings.lossless:
            return None
        return DropReason.SHARED_POOL if rest > free else DropReason.THRESHOLD

    def _headroom(self, group: _Group, cells: int) -> Cells | DropReason:
        """A4."""
        if group.used.headroom + cells > group.settings.headroom:
            return DropReason.HEADROOM
        if self._used.headroom + cells > self._size.headroom:
            return DropReason.HEADROOM_POOL
        return Cells(headroom=cells)

    def _resume(self, group: _Group) -> Signal | None:
        """D2, and a group that is no longer lossless sends no XOFF."""
        below = group.used.shared + group.settings.xon_offset <= group.settings.threshold.limit(self.free_shared)
        drained = group.used.headroom == 0 and (group.used.shared == 0 or below)
        if not group.xoff or (group.settings.lossless and not drained):
            return None
        group.xoff = False
        group.xons += 1
        return Signal.XON

    def _note_high_water(self) -> None:
        self._high_water = self._high_water.highest(self._used)
        self._most_cells = max(self._most_cells, self._used.total)


def _sizes(settings: BufferSettings) -> Cells:
    return Cells(settings.guaranteed_cells, settings.shared_cells, settings.headroom_cells)


def _divided(used: Cells, guaranteed: int) -> Cells:
    """The same number of cells, with `guaranteed` of them at most in the group's own part."""
    held = used.guaranteed + used.shared
    return Cells(min(held, guaranteed), max(0, held - guaranteed), used.headroom)
