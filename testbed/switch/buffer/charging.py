"""The rules by which a frame is charged to its priority group, and PAUSE and resume are decided: A2 to A4 and D2 of
`model`, and those of DSH, where a port has headroom for all of its groups together.

DSH (Shan et al.: "Dynamic and Shared Headroom") in the words of `model`. Eta is the headroom of the group, T its
threshold, N the number of lossless groups of the port; `port` cells are those of all of them together. For a lossless
group these rules stand in place of A1 to A4 and D2, and a lossy group has those:

     H1 While the port is not paused: the group's unused guaranteed cells take what they can, `rest` is what they
     cannot. If rest is 0, or rest <= free and the port's shared cells + rest <= N x T, the frame is admitted and the
     rest is shared. If the group's shared cells are then more than T - eta (0 if that is negative), the group becomes
     XOFF, which is signalled with this frame. If there is no such room, the port becomes paused: all of its lossless
     groups become XOFF, which is signalled for those that were not. H2 While the port is paused, this frame included, a
     frame is for headroom: dropped as "headroom" if the port's headroom cells + n exceed the largest eta of its groups,
     as "headroom pool" if the pool has less than n left. H3 After a departure by D1 a paused port resumes if its
     headroom is empty, and its shared cells are 0 or + N x xon_offset <= N x T; T is that of the frame's group. H4 A
     group in XOFF whose port is not paused becomes XON after its own departure, and when its port resumes, if its
     shared part is empty, or its shared cells + xon_offset <= T - eta, or its cells outside headroom are at most `xon`.
     `recheck` does H3 and H4 for its group alone.

A group's PAUSE thus comes early enough for what is in flight to find room in the shared pool; in the worst case, in
which all groups of all ports are paused at once, each port has the insurance of its line's worth of headroom.

Runs in C: `testbed/linux/port_program/port.bpf.c`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from testbed.switch.buffer.headroom import HeadroomPolicy
from testbed.switch.buffer.use import Cells, DropReason, GroupUse, Key, PoolUse, PortUse, Signal


class Charge(NamedTuple):
    """The result of an arrival: the cells by kind, or why the frame is dropped."""

    part: Cells | DropReason
    signal: Signal | None = None
    others: tuple[int, ...] = ()
    """The other priorities of the port for which the same signal is due."""


class OwnHeadroom:
    """Rules A1 to A4 and D2: each group has a limit for its headroom, and is paused by itself."""

    def __init__(self, groups: Mapping[Key, GroupUse], pools: Sequence[PoolUse]) -> None:
        self._groups, self._pools = groups, pools

    def admit(self, key: Key, cells: int) -> Charge:
        """Decide where a frame goes. The caller charges it, or counts the drop."""
        group = self._groups[key]
        pool = self._pools[group.settings.pool]
        part = None if group.xoff else _without_headroom(group, pool, cells)
        signal = None
        if part is None:
            if not group.xoff:
                group.stop()
                signal = Signal.XOFF
            part = _in_headroom(group.used.headroom, group.settings.headroom, pool, cells)
        return Charge(part, signal)

    def charged(self, key: Key, cells: Cells) -> None:
        """Note that a frame has been charged."""

    def released(self, key: Key, cells: Cells) -> None:
        """Note that cells have been given back; `resume` follows."""

    def resume(self, key: Key, alone: bool = False) -> tuple[Signal | None, tuple[int, ...]]:
        """Resume a group if it may, or if it is no longer lossless. With it others of its port, unless `alone`."""
        group = self._groups[key]
        used, settings = group.used, group.settings
        below = used.shared + settings.xon_offset <= settings.threshold.limit(self._pools[settings.pool].free)
        low = used.guaranteed + used.shared <= settings.xon
        drained = used.headroom == 0 and (used.shared == 0 or below or low)
        if not group.xoff or (settings.lossless and not drained):
            return None, ()
        group.go()
        return Signal.XON, ()

    def configured(self) -> None:
        """Note that settings of groups, or what they hold by kind, have changed."""

    @property
    def ports(self) -> Mapping[int, PortUse]:
        """The ports that are paused as a whole; none where groups are paused by themselves."""
        return {}


class WithPort(OwnHeadroom):
    """Rules H1 to H4."""

    def __init__(self, groups: Mapping[Key, GroupUse], pools: Sequence[PoolUse]) -> None:
        super().__init__(groups, pools)
        self._ports = {port: PortUse() for port, _ in groups}
        self.configured()

    @property
    def ports(self) -> Mapping[int, PortUse]:
        return self._ports

    def configured(self) -> None:
        for number, port in self._ports.items():
            members = [self._groups[number, priority] for priority in self._lossless(number)]
            port.groups = len(members)
            port.headroom = max((group.settings.headroom for group in members), default=0)
            port.used_shared = sum(group.used.shared for group in members)
            port.used_headroom = sum(group.used.headroom for group in members)

    def admit(self, key: Key, cells: int) -> Charge:
        group = self._groups[key]
        if not group.settings.lossless:
            return super().admit(key, cells)
        port, pool = self._ports[key[0]], self._pools[group.settings.pool]
        others: tuple[int, ...] = ()
        if not port.paused:
            guaranteed = min(cells, group.settings.guaranteed - group.used.guaranteed)
            rest = cells - guaranteed
            limit = group.settings.threshold.limit(pool.free)
            if rest == 0 or (rest <= pool.free and port.used_shared + rest <= port.groups * limit):
                signal = None
                if rest and not group.xoff and group.used.shared + rest + group.settings.headroom > limit:
                    group.stop()
                    signal = Signal.XOFF
                return Charge(Cells(guaranteed, rest), signal)
            port.paused = True
            port.pauses += 1
            others = tuple(self._stop_others(key))
        signal = None
        if not group.xoff:
            group.stop()
            signal = Signal.XOFF
        return Charge(_in_headroom(port.used_headroom, port.headroom, pool, cells), signal, others)

    def charged(self, key: Key, cells: Cells) -> None:
        if self._groups[key].settings.lossless:
            port = self._ports[key[0]]
            port.used_shared += cells.shared
            port.used_headroom += cells.headroom
            port.most_shared = max(port.most_shared, port.used_shared if cells.shared else 0)
            port.most_headroom = max(port.most_headroom, port.used_headroom if cells.headroom else 0)

    def released(self, key: Key, cells: Cells) -> None:
        if self._groups[key].settings.lossless:
            port = self._ports[key[0]]
            port.used_shared -= cells.shared
            port.used_headroom -= cells.headroom

    def resume(self, key: Key, alone: bool = False) -> tuple[Signal | None, tuple[int, ...]]:
        group, port = self._groups[key], self._ports[key[0]]
        if not group.settings.lossless:
            return super().resume(key)
        others: tuple[int, ...] = ()
        if port.paused:
            limit = group.settings.threshold.limit(self._pools[group.settings.pool].free)
            offset = group.settings.xon_offset
            below = port.used_shared == 0 or port.used_shared + port.groups * offset <= port.groups * limit
            if port.used_headroom or not below:
                return None, ()
            port.paused = False
            port.resumes += 1
            if not alone:
                others = tuple(p for p in self._lossless(key[0]) if p != key[1] and self._resumes((key[0], p)))
        return Signal.XON if self._resumes(key) else None, others

    def _resumes(self, key: Key) -> bool:
        """Resume a group whose port is not paused, if it may (H4)."""
        group = self._groups[key]
        used, settings = group.used, group.settings
        if not group.xoff:
            return False
        limit = settings.threshold.limit(self._pools[settings.pool].free)
        below = used.shared == 0 or used.shared + settings.headroom + settings.xon_offset <= limit
        if not below and used.guaranteed + used.shared > settings.xon:
            return False
        group.go()
        return True

    def _stop_others(self, key: Key) -> list[int]:
        port, own = key
        stopped = [p for p in self._lossless(port) if p != own and not self._groups[port, p].xoff]
        for priority in stopped:
            self._groups[port, priority].stop()
        return stopped

    def _lossless(self, port: int) -> list[int]:
        return [priority for priority in range(8) if self._groups[port, priority].settings.lossless]


def rules_of(policy: HeadroomPolicy) -> type[OwnHeadroom]:
    """Return the rules of a policy. A shared pool has those of headroom per group: its pool only is smaller."""
    return WithPort if policy.pauses_ports else OwnHeadroom


def _without_headroom(group: GroupUse, pool: PoolUse, cells: int) -> Cells | DropReason | None:
    """Admit or drop a frame outside of headroom (A2 and A3). None if it is lossless and has to go to headroom."""
    guaranteed = min(cells, group.settings.guaranteed - group.used.guaranteed)
    rest = cells - guaranteed
    free = pool.free
    if rest == 0 or (rest <= free and group.used.shared + rest <= group.settings.threshold.limit(free)):
        return Cells(guaranteed, rest)
    if group.settings.lossless:
        return None
    return DropReason.SHARED_POOL if rest > free else DropReason.THRESHOLD


def _in_headroom(used: int, limit: int, pool: PoolUse, cells: int) -> Cells | DropReason:
    """Admit a frame into headroom, or drop it (A4, H2)."""
    if used + cells > limit:
        return DropReason.HEADROOM
    if pool.used.headroom + cells > pool.size.headroom:
        return DropReason.HEADROOM_POOL
    return Cells(headroom=cells)
