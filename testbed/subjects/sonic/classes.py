"""Traffic classes of a port: SONiC has 16, and the lab's switch 8.

A class decides the priority group and the queue, so a class from 8 on is merged into one of the lower eight
with the same group and queue. Published files of dual-ToR switches use class 8 that way.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from testbed.subjects.sonic.tables import MapKind, Tables

LAB_CLASSES = range(8)


@dataclass(frozen=True)
class Classes:
    """The maps of a port in eight classes; None if the port names no map."""

    dscp: Mapping[int, int] | None
    dot1p: Mapping[int, int] | None
    groups: Mapping[int, int] | None
    queues: Mapping[int, int] | None
    left_over: frozenset[int] = frozenset()
    """The classes from 8 on for which none of the eight was left. Their frames get class 0."""


def classes_of(tables: Tables, port: str) -> Classes:
    dscp, dot1p, groups, queues = (
        tables.map_of(port, kind)
        for kind in (MapKind.DSCP_TO_TC, MapKind.DOT1P_TO_TC, MapKind.TC_TO_PG, MapKind.TC_TO_QUEUE)
    )
    used = {*(dscp or {}).values(), *(dot1p or {}).values()}
    higher = sorted(used - set(LAB_CLASSES))
    if not higher:
        return Classes(dscp, dot1p, groups, queues)

    def way(tc: int) -> tuple[int, int]:
        return _way(groups, tc), _way(queues, tc)

    ways = {tc: way(tc) for tc in LAB_CLASSES}
    free = [tc for tc in LAB_CLASSES if tc not in used and tc != 0]
    merged = {}
    for tc in higher:
        same = next((lower for lower in LAB_CLASSES if ways[lower] == way(tc)), None)
        if same is None and free:
            same = free.pop()
            ways[same] = way(tc)
        if same is not None:
            merged[tc] = same

    def lower(classes: Mapping[int, int] | None) -> Mapping[int, int] | None:
        if classes is None:
            return None
        return {value: tc if tc in LAB_CLASSES else merged.get(tc, 0) for value, tc in classes.items()}

    return Classes(
        lower(dscp),
        lower(dot1p),
        {tc: group for tc, (group, _) in ways.items()},
        {tc: queue for tc, (_, queue) in ways.items()},
        frozenset(higher) - frozenset(merged),
    )


def _way(chosen: Mapping[int, int] | None, tc: int) -> int:
    """Return the target of a class: without a map its own number, with a map 0 if the map lacks it."""
    if chosen is None:
        return tc if tc in LAB_CLASSES else 0
    return chosen.get(tc, 0)
