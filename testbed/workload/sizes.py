"""Published distributions of flow sizes, from `sizes.toml`, which names their sources; sizes on the wire."""

from __future__ import annotations

import random
import tomllib
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from testbed.errors import UsageError, nearest
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


@dataclass(frozen=True)
class Framing:
    """The packets that a transport makes of data, and what they have on the wire beside it."""

    payload: int
    """The most data of a packet."""
    beside: int
    """The octets of a packet beside its data: headers, FCS, preamble and gap."""
    message: int
    """The most data of a message, which begins with a packet of its own."""
    beside_message: int = 0
    """The further headers of a message's first packet."""
    padded_to: int = 1
    """The octets of which the data of a packet are a multiple, with padding."""

    def on_wire(self, size: Size) -> Size:
        """Return the octets on the wire of a flow."""
        whole, rest = divmod(size.bytes, self.message)
        packets = whole * -(-self.message // self.payload) + -(-rest // self.payload)
        messages = whole + (rest > 0)
        data = size.bytes + -size.bytes % self.padded_to
        return Size.from_bytes(data + packets * self.beside + messages * self.beside_message)

    def mean(self, sizes: Distribution) -> float:
        """Return the mean of the octets on the wire of the flows of a distribution."""
        total = 0.0
        for place in range(1, len(sizes.octets)):
            low, high = (max(1, octets) for octets in sizes.octets[place - 1 : place + 1])
            share = (sizes.percent[place] - sizes.percent[place - 1]) / 100
            total += share * (self._sum(high) - self._sum(low - 1)) / (high - low + 1)
        return total

    def _sum(self, octets: int) -> int:
        """Return the sum of what all sizes up to this one have on the wire."""
        whole, rest = divmod(octets, self.message)
        of_message = -(-self.message // self.payload)
        packets = of_message * (self.message * whole * (whole - 1) // 2 + rest * whole)
        packets += whole * _parts(self.message, self.payload) + _parts(rest, self.payload)
        messages = _parts(octets, self.message)
        data = self.padded_to * _parts(octets, self.padded_to)
        return data + packets * self.beside + messages * self.beside_message


def _parts(octets: int, each: int) -> int:
    """Return the sum of the parts of at most `each` octets that all sizes up to this one are divided into."""
    whole, rest = divmod(octets, each)
    return each * whole * (whole + 1) // 2 + rest * (whole + 1)


def read_distribution(text: str, name: str) -> Distribution:
    """Return the distribution in a table: a size and the part of flows that are at most so large, in each line.

    Sizes are octets, or have a unit as in 10kB. Parts rise to 100 percent, or to 1. Columns are separated by commas or
    spaces; a first line of words and lines with # are left out. If the first part is above zero, so many flows have
    exactly that size.
    """
    rows: list[tuple[int, float, int]] = []
    for number, line in enumerate(text.removeprefix("\ufeff").splitlines(), 1):  # Excel begins UTF-8 with a mark
        words = line.partition("#")[0].replace(",", " ").replace(";", " ").replace("\t", " ").split()
        if not words or (not rows and words[0][:1].isalpha()):
            continue
        rows.append((*_row(words, f"{name}, line {number}"), number))
        if len(rows) > 1:
            (size, part, _), (size_before, part_before, _) = rows[-1], rows[-2]
            if part < part_before or size < size_before:
                what, low, high = (
                    ("the part", part, part_before) if part < part_before else ("the size", size, size_before)
                )
                raise WorkloadError(
                    f"{name}, line {number}: {what} falls from {high:g} to {low:g}; in a cumulative distribution both "
                    "columns rise: a size, and the percentage of flows that are at most so large"
                )
    if len(rows) < 2:
        raise WorkloadError(
            f"{name} has {len(rows)} rows; a distribution has two at the least, as in 1000,0 and 9000,100"
        )
    whole = rows[-1][1]
    if whole not in (1, 100):
        raise WorkloadError(
            f"{name}, line {rows[-1][2]}: the last part is {whole:g}; it is 100 percent, or 1, of all flows"
        )
    points = [(size, part * 100 / whole) for size, part, _ in rows]
    if points[0][1] > 0:
        points.insert(0, (points[0][0], 0.0))
    return Distribution(name, name, tuple(size for size, _ in points), tuple(part for _, part in points))


def _row(words: Sequence[str], where: str) -> tuple[int, float]:
    if len(words) not in (2, 3):  # simulators have a column between the two
        raise WorkloadError(f"{where}: a size and a percentage are expected, and not {' '.join(words)[:60]!r}")
    try:
        size = int(words[0]) if words[0].isdecimal() and len(words[0]) < 40 else Size(words[0]).bytes
    except UsageError:
        raise WorkloadError(f"{where}: {words[0][:40]!r} is not a size, such as 10000 or 10kB") from None
    try:
        part = float(words[-1].removesuffix("%"))
    except ValueError:
        raise WorkloadError(f"{where}: {words[-1][:40]!r} is not a percentage, such as 35 or 0.35") from None
    if not 0 <= part <= 100 or size > 10**12:
        raise WorkloadError(f"{where}: {' '.join(words)[:60]}: parts are 0 to 100, and sizes up to 1TB")
    return size, part


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
    published = distributions()
    if name not in published:
        raise WorkloadError(f"there is no distribution {name!r}; {nearest(name, published)}")
    return published[name]
