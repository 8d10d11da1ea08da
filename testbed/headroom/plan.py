"""One pool for bridge buffer and headroom: how much of it each port gets, and from which fill on PAUSE is sent.

This is the proposal's trade (decision 0114): headroom that a short cable does not need is buffer for bursts. All
numbers are cells, so that any model of a buffer can use the plan. For each lossless group (a priority of a port):

    headroom = what was computed + one largest frame      that frame finds the threshold, and lies in headroom whole
    XOFF     = one largest frame + an even part of the bridge buffer that is left

    pool     = headroom of all + XOFF of all + what is kept for lossy traffic + a remainder of the division

The frame that finds the threshold came before PAUSE is asked for, so the delay value does not have it; decision 0115.
As thresholds do not overlap, a group reaches its own before the pool is empty.

If the pool cannot hold all, as many groups as possible stay lossless: those that need least, and of equal ones the
lower port, then the lower priority. The others get nothing, are not called lossless, and are named with the numbers.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from testbed.headroom.calculation import HeadroomError

_PRIORITIES = range(8)


@dataclass(frozen=True)
class Demand:
    """What one group needs to lose nothing."""

    port: int
    priority: int
    headroom: int  # `Headroom.cells`, whichever model it comes from
    frame: int  # the cells of the largest frame of the priority

    @property
    def needed(self) -> int:
        """Headroom, the frame that finds the threshold, and room for a frame below it."""
        return self.headroom + 2 * self.frame


@dataclass(frozen=True)
class Share:
    """What one group gets. Without `lossless` it gets nothing, and PFC has to be off for it."""

    port: int
    priority: int
    lossless: bool
    headroom: int = 0
    xoff: int = 0  # cells of bridge buffer that it may fill; the frame that does not fit triggers PAUSE


@dataclass(frozen=True)
class Plan:
    """The whole pool, divided."""

    pool: int
    shares: tuple[Share, ...]  # one for each demand, by port and priority
    refusals: tuple[str, ...]  # a line for each group that is not lossless

    @property
    def headroom(self) -> int:
        return sum(share.headroom for share in self.shares)

    @property
    def bridge(self) -> int:
        """What is left for bursts, of lossy traffic too."""
        return self.pool - self.headroom

    def share(self, port: int, priority: int) -> Share:
        for share in self.shares:
            if (share.port, share.priority) == (port, priority):
                return share
        raise HeadroomError(f"port {port} priority {priority} is not in this plan; it asked for nothing")


def divide(pool: int, demands: Iterable[Demand], lossy: int = 0) -> Plan:
    """Divide a pool of so many cells; `lossy` of them stay bridge buffer for traffic without PFC."""
    wanted = sorted(demands, key=lambda demand: (demand.port, demand.priority))
    _check(pool, wanted, lossy)
    left = pool - lossy
    lossless: set[Demand] = set()
    for demand in sorted(wanted, key=lambda demand: demand.needed):  # stable: ties stay in order
        if demand.needed > left:
            break
        left -= demand.needed
        lossless.add(demand)
    part = left // len(lossless) if lossless else 0
    shares = tuple(
        Share(demand.port, demand.priority, True, demand.headroom + demand.frame, demand.frame + part)
        if demand in lossless
        else Share(demand.port, demand.priority, False)
        for demand in wanted
    )
    refusals = tuple(_refusal(demand, pool, left) for demand in wanted if demand not in lossless)
    return Plan(pool, shares, refusals)


def _refusal(demand: Demand, pool: int, left: int) -> str:
    return (
        f"port {demand.port} priority {demand.priority} is not lossless: it needs {demand.needed} cells "
        f"({demand.headroom} of headroom and 2 frames of {demand.frame}), "
        f"and of the pool's {pool} only {left} are left; "
        f"{demand.needed - left} are missing; enlarge the pool, shorten the cable, or turn PFC off elsewhere"
    )


def _check(pool: int, wanted: list[Demand], lossy: int) -> None:
    for name, value in (("pool", pool), ("lossy", lossy)):
        if type(value) is not int or value < 0:
            raise HeadroomError(f"{name} is {value!r}; it is a whole number of cells")
    if lossy > pool:
        raise HeadroomError(f"{lossy} cells are to be kept for lossy traffic, and the pool has {pool}")
    seen: set[tuple[int, int]] = set()
    for demand in wanted:
        where = f"port {demand.port} priority {demand.priority}"
        if demand.priority not in _PRIORITIES:
            raise HeadroomError(f"{where}: there are priorities 0 to 7")
        if (demand.port, demand.priority) in seen:
            raise HeadroomError(f"{where} has two demands; give one for each")
        seen.add((demand.port, demand.priority))
        if type(demand.headroom) is not int or demand.headroom < 0:
            raise HeadroomError(f"{where}: headroom is {demand.headroom!r}; it is a whole number of cells")
        if type(demand.frame) is not int or demand.frame < 1:
            raise HeadroomError(f"{where}: a frame of {demand.frame!r} cells is invalid; it has at least 1")
