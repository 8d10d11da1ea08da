"""What this port recommends to its peer in ETS, and whether it can be sent yet (decision 0107).

A recommendation may have to wait for what the peer announces: the draft names the number of traffic classes and
the assignment of priorities to groups. While it waits the draft's TLV has RV 0; the published format has no RV, so the
TLV is left out.
"""

from __future__ import annotations

from dataclasses import dataclass

from testbed.dcbx.settings import EtsAdmin, Recommend, Shares
from testbed.frames.dcbx.values import DcbxTlvs, EtsRecommendation, Table


@dataclass(frozen=True, slots=True)
class Advice:
    """None: nothing can be recommended now."""

    table: EtsRecommendation | None
    why: str


def advise(ets: EtsAdmin, peer: DcbxTlvs | None) -> Advice:
    """`peer` is what the peer sends, if there is one."""
    if ets.recommend is None:
        return Advice(None, "this port is not set to recommend")
    if isinstance(ets.recommend, Recommend) and not ets.recommend.wait:
        return Advice(ets.recommend.table, "local setting")
    if peer is None or peer.ets is None:
        return Advice(None, "held back until the peer's ETS Configuration is known")
    wrong = peer.ets.ets.problem()
    if wrong:
        return Advice(None, f"held back: the peer's ETS Configuration is wrong, {wrong}")
    if isinstance(ets.recommend, Shares):
        bandwidth = of_shares(ets.recommend.percent, peer.ets.ets.assignment)
        if bandwidth is None:
            return Advice(None, "held back: the peer has no priority with a share in a priority group")
        return Advice(EtsRecommendation(bandwidth), "worked out from the shares and the peer's priority groups")
    needed, there = _classes_needed(ets.recommend.table), peer.traffic_classes
    if there is not None and needed > there:
        return Advice(None, f"held back: the table needs {needed} traffic classes, and the peer has {there}")
    return Advice(ets.recommend.table, "local setting, and it fits the peer")


def of_shares(percent: Table, assignment: Table) -> Table | None:
    """Percents of priorities as percents of the groups they are in; None if no group gets any.

    Priorities outside of groups (strict, AVB) are not governed by bandwidth. What was meant for them goes to the groups
    in proportion, so that the sum stays 100: rounded down, and the rest by the largest remainders, lower groups first.
    """
    wanted = [0] * 8
    for share, group in zip(percent, assignment, strict=True):
        if group < 8:
            wanted[group] += share
    total = sum(wanted)
    if total == 0:
        return None
    bandwidth = [100 * want // total for want in wanted]
    by_remainder = sorted(range(8), key=lambda group: (-(100 * wanted[group] % total), group))
    for group in by_remainder[: 100 - sum(bandwidth)]:
        bandwidth[group] += 1
    return tuple(bandwidth)


def _classes_needed(table: EtsRecommendation) -> int:
    """The draft numbers its groups freely, so there it is how many get bandwidth; else the highest class and one."""
    if table.assignment is None:
        return sum(share > 0 for share in table.bandwidth)
    used = [number for number, share in enumerate(table.bandwidth) if share]
    return max(*table.assignment, *used) + 1
