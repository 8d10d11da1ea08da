"""The switch's buffer, frame by frame: the reference that any faster realisation has to agree with.

It implements "PAUSE generation" and "PFC thresholds" of the PFC/ECN article by decisions 0114 and 0130 to 0133.
`charging` has the code of A2 to A4 and D2, and other rules for them, of headroom that a port's groups share.
Integers only, no clock: the caller reports each frame that comes or leaves, the model returns where its cells went and
whether PAUSE (XOFF) or resume (XON) is due. It sends nothing and has no pause times and no queues.

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
     is exhausted), or its cells outside headroom are at most `xon`. Why an empty shared part suffices: the group has
     nothing more to give back, so it would wait for others for ever, and its guaranteed cells with it. Hence a group
     that drains resumes by its own departures. A group that lost the frame that made it XOFF and holds nothing else
     has no departures; `recheck` resumes it.

With several ingress pools `free` and the headroom pool are those of the group's pool. With egress pools (0286) a frame
is tested against its queue before all of this, and where it is refused nothing else changes:

     Q1 The queue's unused reserved cells take what they can of n; `rest` is what they cannot. Q2 If rest is 0, or rest
     <= the free part of the egress pool and the queue's shared cells + rest <= T of the queue, there is room. If not,
     the frame is dropped: "egress pool" if rest is more than what is free, else "queue threshold". Q3 What is admitted
     is charged to the queue too. When it leaves, cells go back from the queue's shared part first, then from the
     reserved one.

With trimming (`testbed.switch.trimming`) a lossy frame that finds no room may live on as a rest: what is left of it is
a frame of its own, with another group and queue, and is admitted or dropped by the same rules. The frame then counts as
trimmed, not as dropped:

     S1 A frame that is refused, by whichever rule, and has a `Rest`, is trimmed if its group is lossy. S2 Its rest is
     admitted as a frame of the same port and of the rest's priority and queue. S3 A rest that is refused is dropped: it
     has no rest. So frames that came in are those admitted, those trimmed and those dropped, and each that was trimmed
     is a rest that was admitted or dropped.

A dynamic threshold also moves when others come and go. XOFF then comes with the group's next frame (0131); XON with
its next departure, or when `recheck` is called, which is meant for the moment before PAUSE is sent again.

Runs in C: `testbed/linux/port_program/port.bpf.c`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from testbed.switch.buffer.charging import rules_of
from testbed.switch.buffer.settings import BufferBusyError, BufferModelError, BufferSettings, GroupSettings, Pool
from testbed.switch.buffer.use import Cells, DropReason, GroupUse, Key, PoolUse, QueueUse, Signal, Use, Watermark


@dataclass(frozen=True)
class Rest:
    """The rest of a frame if it were trimmed: its priority, its length, and the queue that it would wait in."""

    priority: int
    length: int
    queue: Key | None = None


@dataclass(frozen=True)
class Admission:
    """The result of an arrival: the `cells` that the frame was given (none if it was dropped)."""

    cells: Cells
    dropped: DropReason | None = None
    signal: Signal | None = None
    others: tuple[int, ...] = ()
    """The other priorities of the port that become XOFF with this frame, because all of the port is paused."""
    rest: Admission | None = None
    """The outcome of the rest, if the frame was trimmed; `dropped` then says why."""


@dataclass(frozen=True)
class Release:
    """The cells that a departing frame gave back."""

    cells: Cells
    signal: Signal | None = None
    others: tuple[int, ...] = ()
    """The other priorities of the port that become XON, because the port as a whole was paused and resumes."""


@dataclass(frozen=True)
class Resumed:
    """A group that new settings turned from XOFF to XON."""

    port: int
    priority: int


class BufferModel:
    """One buffer over all ports of a switch. The rules are in the module's docstring."""

    def __init__(self, settings: BufferSettings) -> None:
        self._settings = settings
        self._groups = {key: GroupUse(settings=group) for key, group in settings.all_groups().items()}
        self._queues = {key: QueueUse(settings=queue) for key, queue in settings.queues.items()}
        self._pools = [PoolUse(size=Cells(*settings.pool_cells(number))) for number in range(len(settings.pools))]
        sizes = (settings.egress_cells(number) for number in range(len(settings.egress_pools)))
        self._egress = [PoolUse(size=Cells(*size)) for size in sizes]
        self._rules = rules_of(settings.policy)(self._groups, self._pools)

    @property
    def settings(self) -> BufferSettings:
        return self._settings

    @property
    def free_shared(self) -> int:
        """The free shared cells of ingress pool 0."""
        return self._pools[0].free

    def threshold(self, port: int, priority: int) -> int:
        """Return T of a group at this moment, in cells of the shared pool."""
        return self._limit(self._group(port, priority))

    def is_xoff(self, port: int, priority: int) -> bool:
        return self._group(port, priority).xoff

    def used(self, port: int, priority: int) -> Cells:
        return self._group(port, priority).used

    def admit(
        self, port: int, priority: int, length: int, queue: Key | None = None, rest: Rest | None = None
    ) -> Admission:
        """Admit or drop a frame of `length` bytes that came in by `port` and is to wait in `queue` of an egress
        port. With a `rest` it is trimmed instead of dropped, if it is lossy.
        """
        verdict = self._admit(port, priority, length, queue)
        group = self._groups[port, priority]
        if verdict.dropped is None or rest is None or group.settings.lossless:
            return verdict
        cells = self._settings.cells(length)
        group.dropped_frames[verdict.dropped] -= 1
        group.dropped_cells[verdict.dropped] -= cells
        group.trimmed_frames += 1
        group.trimmed_cells += cells
        if queue in self._queues and verdict.dropped in (DropReason.QUEUE_THRESHOLD, DropReason.EGRESS_POOL):
            self._queues[queue].dropped_frames -= 1
            self._queues[queue].dropped_cells -= cells
        return replace(verdict, rest=self._admit(port, rest.priority, rest.length, rest.queue))

    def _admit(self, port: int, priority: int, length: int, queue: Key | None) -> Admission:
        group = self._group(port, priority)
        waits = self._queues.get(queue) if queue is not None else None
        cells = self._settings.cells(length)
        part: Cells | DropReason = Cells() if waits is None else self._room(waits, cells)
        if waits is not None and isinstance(part, DropReason):
            waits.dropped_frames += 1
            waits.dropped_cells += cells
            return self._dropped(group, cells, part, None)
        pool = self._pools[group.settings.pool]
        charge, signal, others = self._rules.admit((port, priority), cells)
        if isinstance(charge, DropReason):
            return self._dropped(group, cells, charge, signal, others)
        group.admitted_frames += 1
        group.admitted_cells += cells
        _charge(charge, group, pool)
        self._rules.charged((port, priority), charge)
        if waits is not None and isinstance(part, Cells):
            waits.admitted_frames += 1
            waits.admitted_cells += cells
            _charge(part, waits, self._egress[waits.settings.pool])
        return Admission(charge, None, signal, others)

    def release(self, port: int, priority: int, length: int, queue: Key | None = None) -> Release:
        """Take back the cells of a frame of `length` bytes that came in by `port` and has left the switch, or was
        thrown away inside it; `queue` is the one that it was admitted with.
        """
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
        pool = self._pools[group.settings.pool]
        group.used -= given_back
        pool.used -= given_back
        waits = self._queues.get(queue) if queue is not None else None
        if waits is not None:
            shared = min(cells, waits.used.shared)
            part = Cells(min(cells - shared, waits.used.guaranteed), shared)
            waits.used -= part
            self._egress[waits.settings.pool].used -= part
        self._rules.released((port, priority), given_back)
        return Release(given_back, *self._rules.resume((port, priority)))

    def recheck(self, port: int, priority: int) -> Signal | None:
        """Return XON if the group may resume by now, because others made room (D2). Call this before PAUSE is
        repeated.
        """
        self._group(port, priority)
        return self._rules.resume((port, priority), alone=True)[0]

    def group_watermark(self, port: int, priority: int, clear: bool = False) -> Watermark:
        """Return the watermark of a priority group; with `clear` it begins anew, with what is in use now."""
        return self._group(port, priority).watermark(clear)

    def queue_watermark(self, port: int, queue: int, clear: bool = False) -> Watermark:
        return self._queues[port, queue].watermark(clear)

    def pool_watermark(self, pool: int, egress: bool = False, clear: bool = False) -> Watermark:
        return (self._egress if egress else self._pools)[pool].watermark(clear)

    def configure(self, settings: BufferSettings) -> tuple[Resumed, ...]:
        """Change settings while frames are inside: all or nothing, and no frame, cell or counter is lost.

        Cells outside headroom are divided anew, guaranteed first. BufferBusyError if a pool would then hold more than
        its new size, or if headroom that one group has to give up still holds cells that others are promised:
        `give_up`, let it drain, try again. A group above its new threshold or headroom limit keeps what it holds
        and gets no more; XOFF comes with its next frame (0131). A group that turns lossy resumes at once, and its
        headroom drains. Cell size and ports are the switch's own and cannot change.
        """
        if _of_the_switch(settings) != _of_the_switch(self._settings):
            raise BufferModelError(
                "cell size, ports, pools of groups and egress queues cannot be changed in use, nor whether ports are "
                "paused as a whole; make a new buffer"
            )
        new = settings.all_groups()
        divided = {key: _divided(group.used, new[key].guaranteed) for key, group in self._groups.items()}
        used = [
            sum((cells for key, cells in divided.items() if new[key].pool == number), start=Cells())
            for number in range(len(self._pools))
        ]
        for number, in_use in enumerate(used):
            size = Cells(*settings.pool_cells(number))
            headroom = self._owed(settings, number)
            for name, needs, has in (("shared", in_use.shared, size.shared), ("headroom", headroom, size.headroom)):
                if needs > has:
                    raise BufferBusyError(
                        f"the {name} pool would have {has} cells and needs {needs}: "
                        f"{needs - has} have to drain before these settings can be used"
                    )
        for number, pool in enumerate(self._pools):
            pool.size, pool.used = Cells(*settings.pool_cells(number)), used[number]
            pool.note()
        for key, group in self._groups.items():
            group.used = divided[key]
            group.high_water = group.high_water.highest(group.used)
        return self._set(settings, new)

    def _owed(self, settings: BufferSettings, pool: int) -> int:
        """Return the headroom that a pool with other settings holds and has promised."""
        policy, groups = settings.policy, settings.all_groups()
        held: defaultdict[Hashable, int] = defaultdict(int)
        promised: defaultdict[Hashable, int] = defaultdict(int)
        for key, group in groups.items():
            if group.pool == pool:
                unit = policy.shared_by(key) if group.lossless else key
                held[unit] += self._groups[key].used.headroom
                promised[unit] = max(promised[unit], group.headroom)
        if sum(promised.values()) > settings.pool_cells(pool)[2]:  # overbooked headroom promises nothing
            return sum(held.values())
        return sum(max(most, held[unit]) for unit, most in promised.items())

    def give_up(self, settings: BufferSettings) -> tuple[Resumed, ...]:
        """Apply, of other settings, those of groups that lose headroom, while the pools stay as they are. This is for
        settings that `configure` refuses: such a group takes no more, so that what it holds beyond its new limit
        drains.
        """
        old = self._settings.all_groups()
        losers = {
            key: replace(new, guaranteed=old[key].guaranteed)
            for key, new in settings.all_groups().items()
            if new.headroom < old[key].headroom
        }
        kept = [replace(one, headroom_pool=pool.size.headroom) for one, pool in self._all_pools()]
        settings = replace(
            self._settings, headroom_pool=kept[0].headroom_pool, more_pools=tuple(kept[1:]), groups=old | losers
        )
        return self._set(settings, losers)

    def _all_pools(self) -> list[tuple[Pool, PoolUse]]:
        return list(zip(self._settings.pools, self._pools, strict=True))

    def _set(self, settings: BufferSettings, changed: Mapping[tuple[int, int], GroupSettings]) -> tuple[Resumed, ...]:
        self._settings = settings
        for key, group in changed.items():
            self._groups[key].settings = group
        self._rules.configured()
        return tuple(
            Resumed(*key)
            for key in changed
            if self._groups[key].xoff and self._rules.resume(key, alone=True)[0] is Signal.XON
        )

    def snapshot(self) -> dict[str, Any]:
        """Return every counter as plain data, the same for the same history: pools, then groups that were ever used.

        The first three keys are ingress pool 0; other pools and queues are there if the switch has any.
        """
        counters: dict[str, Any] = {
            "cell_bytes": self._settings.cell_bytes,
            **_pool_as_json(self._pools[0], self._settings.total),
            "missing_headroom": self._settings.missing_headroom,
            "groups": [
                {
                    "port": port,
                    "priority": priority,
                    "lossless": group.settings.lossless,
                    "xoff": group.xoff,
                    "threshold": self._limit(group),
                    "used": asdict(group.used),
                    "high_water": asdict(group.high_water) | {"total": group.most_cells},
                    "admitted": {"frames": group.admitted_frames, "cells": group.admitted_cells},
                    "released": {"frames": group.released_frames, "cells": group.released_cells},
                    "dropped": {
                        reason.value: {"frames": group.dropped_frames[reason], "cells": group.dropped_cells[reason]}
                        for reason in DropReason
                    },
                    **(
                        {"trimmed": {"frames": group.trimmed_frames, "cells": group.trimmed_cells}}
                        if group.trimmed_frames
                        else {}
                    ),
                    "xoffs": group.xoffs,
                    "xons": group.xons,
                }
                for (port, priority), group in self._groups.items()
                if group.admitted_frames or group.xoffs or group.trimmed_frames or any(group.dropped_frames.values())
            ],
        }
        if len(self._pools) > 1:
            counters["more_pools"] = [_pool_as_json(state, pool.total) for pool, state in self._all_pools()[1:]]
        if self._rules.ports:
            counters["ports"] = [{"port": port, **asdict(use)} for port, use in self._rules.ports.items()]
        if self._egress:
            totals = zip(self._egress, self._settings.egress_pools, strict=True)
            counters["egress_pools"] = [_pool_as_json(state, total) for state, total in totals]
            counters["queues"] = [
                {
                    "port": port,
                    "queue": number,
                    "used": asdict(queue.used),
                    "high_water": asdict(queue.high_water) | {"total": queue.most_cells},
                    "admitted": {"frames": queue.admitted_frames, "cells": queue.admitted_cells},
                    "dropped": {"frames": queue.dropped_frames, "cells": queue.dropped_cells},
                }
                for (port, number), queue in self._queues.items()
                if queue.admitted_frames or queue.dropped_frames
            ]
        return counters

    def _group(self, port: int, priority: int) -> GroupUse:
        group = self._groups.get((port, priority))
        if group is None:
            self._settings.check_port(port)
            raise BufferModelError(f"priority {priority!r} does not exist; there are 0 to 7")
        return group

    def _limit(self, group: GroupUse) -> int:
        return group.settings.threshold.limit(self._pools[group.settings.pool].free)

    def _dropped(
        self,
        group: GroupUse,
        cells: int,
        reason: DropReason,
        signal: Signal | None,
        others: tuple[int, ...] = (),
    ) -> Admission:
        group.dropped_frames[reason] += 1
        group.dropped_cells[reason] += cells
        return Admission(Cells(), reason, signal, others)

    def _room(self, queue: QueueUse, cells: int) -> Cells | DropReason:
        """Return the reason for which a frame has no room in its queue (Q1 and Q2), or None."""
        reserved = min(cells, queue.settings.reserved - queue.used.guaranteed)
        rest = cells - reserved
        free = self._egress[queue.settings.pool].free
        if rest == 0 or (rest <= free and queue.used.shared + rest <= queue.settings.threshold.limit(free)):
            return Cells(reserved, rest)
        return DropReason.EGRESS_POOL if rest > free else DropReason.QUEUE_THRESHOLD


def _charge(cells: Cells, *places: Use) -> None:
    for place in places:
        place.used += cells
        place.note()


def _of_the_switch(settings: BufferSettings) -> tuple[object, ...]:
    """Return the settings that cannot change in use."""
    pools = {key: group.pool for key, group in settings.all_groups().items()}
    return (
        settings.cell_bytes, settings.ports, pools, len(settings.pools), settings.egress_pools, dict(settings.queues),
        settings.policy.pauses_ports,
    )  # fmt: skip


def _pool_as_json(pool: PoolUse, total: int) -> dict[str, Any]:
    kinds = {
        name: {
            "size": getattr(pool.size, name),
            "used": getattr(pool.used, name),
            "high_water": getattr(pool.high_water, name),
        }
        for name in ("guaranteed", "shared", "headroom")
    }
    return {"buffer": {"size": total, "used": pool.used.total, "high_water": pool.most_cells}, **kinds}


def _divided(used: Cells, guaranteed: int) -> Cells:
    """Return the same number of cells, with `guaranteed` of them at most in the group's own part."""
    held = used.guaranteed + used.shared
    return Cells(min(held, guaranteed), max(0, held - guaranteed), used.headroom)
