"""The numbers that are drawn, before anything is drawn: distributions, percentiles by size, means over time. Pure."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from testbed.workload.statistics import percentile

PERCENTS = (50, 95, 99)
"""The percentiles of a figure of slowdowns."""
MOST_CLASSES = 12
LEAST_IN_CLASS = 20
"""The flows, over all results of a figure, for which a class of sizes is made."""


def distribution(values: Sequence[float]) -> tuple[list[float], list[float]]:
    """Return the steps of a cumulative distribution: each value once, and the part of all that it does not exceed."""
    found = sorted(values)
    xs, ys = list[float](), list[float]()
    for place, value in enumerate(found, 1):
        if xs and xs[-1] == value:
            ys[-1] = place / len(found)
        else:
            xs.append(value)
            ys.append(place / len(found))
    return xs, ys


def size_classes(sizes: Sequence[int]) -> list[int]:
    """Return the upper bounds of classes of sizes that have about as many flows each; equal sizes share a class."""
    found = sorted(sizes)
    count = max(1, min(MOST_CLASSES, len(found) // LEAST_IN_CLASS))
    return sorted({found[-(-len(found) * (place + 1) // count) - 1] for place in range(count)})


@dataclass(frozen=True)
class SizeClass:
    """The slowdowns of flows of about one size."""

    upto: int
    """The largest size of the class."""
    typical: float
    """The geometric mean of the sizes."""
    flows: int
    percentiles: tuple[float, ...]
    """The percentiles `PERCENTS` by nearest rank."""


def slowdown_by_size(flows: Sequence[tuple[int, float]], bounds: Sequence[int]) -> list[SizeClass]:
    """Return the classes that have a flow; a flow is its size and its slowdown."""
    inside: dict[int, list[tuple[int, float]]] = {}
    for size, slowdown in flows:
        inside.setdefault(min(bisect_left(bounds, size), len(bounds) - 1), []).append((size, slowdown))
    return [
        SizeClass(
            bounds[place],
            math.exp(sum(math.log(max(1, size)) for size, _ in found) / len(found)),
            len(found),
            tuple(percentile([slowdown for _, slowdown in found], percent) for percent in PERCENTS),
        )
        for place, found in sorted(inside.items())
    ]


def binned(times: Sequence[float], values: Sequence[float], start: float, end: float, count: int) -> list[float]:
    """Return the means of a value that holds from each time to the next, in `count` equal parts from start to end.

    It is zero before the first time.
    """
    width = (end - start) / count
    sums = [0.0] * count
    for place, (time, value) in enumerate(zip(times, values, strict=True)):
        until = min(times[place + 1] if place + 1 < len(times) else end, end)
        since = max(time, start)
        if not value or until <= since:
            continue
        first, last = int((since - start) / width), min(int((until - start) / width), count - 1)
        for part in range(first, last + 1):
            low, high = start + part * width, start + (part + 1) * width
            sums[part] += value * max(0.0, min(until, high) - max(since, low))
    return [one / width for one in sums]


def summed(tracks: Sequence[tuple[Sequence[float], Sequence[float]]]) -> tuple[list[float], list[float]]:
    """Return the sum of values that each hold from one time to the next."""
    changes: dict[float, float] = {}
    for times, values in tracks:
        before = 0.0
        for time, value in zip(times, values, strict=True):
            changes[time] = changes.get(time, 0.0) + value - before
            before = value
    xs, ys, now = list[float](), list[float](), 0.0
    for time in sorted(changes):
        now += changes[time]
        xs.append(time)
        ys.append(now)
    return xs, ys
