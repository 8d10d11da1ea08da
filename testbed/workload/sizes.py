"""Published distributions of flow sizes, from `sizes.toml`, which names their sources."""

from __future__ import annotations

import random
import tomllib
from bisect import bisect_left
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from testbed.errors import nearest
from testbed.units import Size
from testbed.workload.transfers import WorkloadError


@dataclass(frozen=True)
class Distribution:
    """A cumulative distribution; between two of its points sizes are spread evenly."""

    name: str
    source: str
    octets: tuple[int, ...]
    percent: tuple[float, ...]

    def __post_init__(self) -> None:
        points = list(zip(self.octets, self.percent, strict=True))
        if len(points) < 2 or points != sorted(points) or self.percent[0] != 0 or self.percent[-1] != 100:
            raise WorkloadError(f"distribution {self.name}: rows rise from 0 to 100 percent, with sizes that rise too")

    def at(self, part: float) -> Size:
        """The size that this part of flows, from 0 to 1, does not exceed; at least one octet."""
        percent = part * 100
        place = max(1, min(bisect_left(self.percent, percent), len(self.percent) - 1))
        low, high = self.percent[place - 1], self.percent[place]
        inside = (percent - low) / (high - low) if high > low else 1.0
        octets = self.octets[place - 1] + inside * (self.octets[place] - self.octets[place - 1])
        return Size.from_bytes(max(1, round(octets)))

    def draw(self, dice: random.Random) -> Size:
        """A random size."""
        return self.at(dice.random())

    @property
    def mean(self) -> Size:
        """The mean of all sizes."""
        total = 0.0
        for place in range(1, len(self.octets)):
            share = (self.percent[place] - self.percent[place - 1]) / 100
            total += share * (self.octets[place] + self.octets[place - 1]) / 2
        return Size.from_bytes(round(total))


@cache
def distributions() -> dict[str, Distribution]:
    """Return all of them, by name."""
    read = tomllib.loads(Path(__file__).with_name("sizes.toml").read_text(encoding="utf-8"))
    return {
        name: Distribution(name, one["source"], *map(tuple, zip(*one["rows"], strict=True)))
        for name, one in read.items()
    }


def distribution(name: str) -> Distribution:
    """Return one of the published distributions."""
    found = distributions()
    if name not in found:
        raise WorkloadError(f"there is no distribution {name!r}; {nearest(name, found)}")
    return found[name]
