"""The sizes of a flow's frames, their rate, and the flow's end.

Times are in picoseconds of the lab's time. Rates in bits, and percentages of the line, are on the lab's scale, as the
line is; frames per second, and all times, are the lab's.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import cycle, repeat

from testbed.subjects.snappi.reading import Item

PS = 10**12
PREAMBLE, GAP = 8, 12
"""The octets on the line before a frame, and after it."""
SMALLEST = 64
"""The octets of the smallest frame with its FCS. Smaller sizes, as in mixes of IP packets, are padded to it."""
_AROUND = 18
"""The octets of a frame that the MTU does not count. Each VLAN tag adds four."""
PREDEFINED = {
    "imix": ((64, 7), (570, 4), (1518, 1)),
    "ipsec_imix": ((90, 58.67), (92, 2), (594, 23.66), (1418, 15.67)),
    "ipv6_imix": ((60, 58.67), (496, 2), (594, 23.66), (1518, 15.67)),
    "standard_imix": ((58, 58.67), (62, 2), (594, 23.66), (1518, 15.67)),
    "tcp_imix": ((90, 58.67), (92, 2), (594, 23.66), (1518, 15.67)),
}
_UNITS = {"bps": 1, "kbps": 10**3, "mbps": 10**6, "gbps": 10**9}
_TIMES = {"nanoseconds": 1000, "microseconds": 10**6}


@dataclass(frozen=True)
class Sizes:
    """The sizes of a flow's frames with FCS: in turn, or at random by weights."""

    sizes: tuple[int, ...] | range = (64,)
    weights: tuple[float, ...] = ()
    is_random: bool = False

    def each(self, seed: int) -> Iterator[int]:
        if self.is_random:
            draw = random.Random(seed)
            if not self.weights:
                return (draw.choice(self.sizes) for _ in repeat(None))
            return (draw.choices(self.sizes, self.weights)[0] for _ in repeat(None))
        return cycle(self.sizes) if len(self.sizes) > 1 else repeat(self.sizes[0])


@dataclass(frozen=True)
class Pace:
    """A rate: `units` in a second, of frames, of octets of frames, or of octets on the line."""

    units: Fraction
    counts: str
    """The unit: `frames`, `octets` or `line`."""

    def weight(self, size: int) -> int:
        """Return the number of units of a frame."""
        return 1 if self.counts == "frames" else size if self.counts == "octets" else size + PREAMBLE + GAP

    def after_ps(self, units: int) -> int:
        """Return the time after which so many units have passed."""
        return units * PS * self.units.denominator // self.units.numerator


@dataclass(frozen=True)
class Span:
    """The end of a flow, after a number of frames, after a time, or never; and its division into bursts."""

    frames: int | None = None
    lasts_ps: int | None = None
    delay_ps: int = 0
    gap: int = GAP
    """The least number of octets between two frames."""
    burst: int | None = None
    between_ps: int = 0
    """The time from the end of a burst to the next one."""


@dataclass(frozen=True)
class TestPortLine:
    """The line of a test port."""

    bps: int
    """The rate of the line in the lab's time."""
    scale: int = 1
    """The factor by which the rates of the configuration are divided."""
    mtu: int = 9216
    is_bridged: bool = False
    """True if a learning switch is at the other end."""

    def largest(self, tags: int) -> int:
        """Return the octets of the largest frame with so many VLAN tags."""
        return self.mtu + _AROUND + 4 * tags

    def octets_ps(self, octets: int) -> int:
        return octets * 8 * PS // self.bps


def read_sizes(flow: Item, largest: int) -> Sizes:
    with flow.item("size") as item:
        chosen = item.choice("fixed", "fixed", "increment", "random", "weight_pairs")
        if chosen == "fixed":
            return Sizes((max(SMALLEST, item.integer("fixed", 64, 1, largest)),))
        if chosen == "weight_pairs":
            with item.item("weight_pairs") as pairs:
                return _weighted(pairs, largest)
        if not chosen:
            return Sizes()
        first, last = ("start", "end") if chosen == "increment" else ("min", "max")
        with item.item(chosen) as bounds:
            low = bounds.integer(first, 64, 1, largest)
            high = bounds.integer(last, 1518, 1, largest)
            step = bounds.integer("step", 1, 1) if chosen == "increment" else 1
            if low > high:
                bounds.error(first, f"it is {low}, above {last}, which is {high}")
                return Sizes()
        sizes: range | tuple[int, ...] = range(low, high + 1, step)
        if low < SMALLEST:
            sizes = tuple(max(SMALLEST, size) for size in sizes)
        return Sizes(sizes, is_random=chosen == "random")


def _weighted(item: Item, largest: int) -> Sizes:
    if item.choice("predefined", "predefined", "custom") == "predefined":
        pairs = PREDEFINED[item.one_of("predefined", PREDEFINED, "imix")]
        return Sizes(tuple(max(size, SMALLEST) for size, _ in pairs), tuple(weight for _, weight in pairs), True)
    sizes, weights = [], []
    for pair in item.items("custom"):
        sizes.append(max(SMALLEST, pair.integer("size", 64, 1, largest)))
        weights.append(float(pair.number("weight", 1)))
    if not sum(weights):
        item.error("custom", "a pair with a weight above 0 is expected")
        return Sizes()
    return Sizes(tuple(sizes), tuple(weights), True)


def read_pace(flow: Item, line: TestPortLine) -> Pace:
    with flow.item("rate") as item:
        chosen = item.choice("pps", "pps", "percentage", *_UNITS)
        if chosen == "pps":
            return Pace(Fraction(item.integer("pps", 1000, 1)), "frames")
        if chosen == "percentage":
            percent = item.number("percentage", 100)
            if not 0 < percent <= 100:
                item.error("percentage", f"it is {float(percent):g}; above 0, and at most 100, is possible")
                percent = Fraction(100)
            return Pace(percent * line.bps / 800, "line")
        if not chosen:
            return Pace(Fraction(1000), "frames")
        bits = item.integer(chosen, 10**9 // _UNITS[chosen], 1) * _UNITS[chosen]
        if bits > line.bps * line.scale:
            item.error(chosen, f"it is more than the line, which has {line.bps * line.scale} b/s")
        return Pace(Fraction(bits, 8 * line.scale), "octets")


def read_span(flow: Item, line: TestPortLine) -> Span:
    with flow.item("duration") as item:
        chosen = item.choice("continuous", "fixed_packets", "fixed_seconds", "burst", "continuous")
        if not chosen:
            return Span()
        with item.item(chosen) as inner:
            gap = inner.integer("gap", GAP)
            if chosen == "burst":
                bursts, packets = inner.integer("bursts", 0), inner.integer("packets", 1, 1)
                between = _time(inner, "inter_burst_gap", line, 12)
                return Span(bursts * packets or None, gap=gap, burst=packets, between_ps=between)
            delay = _time(inner, "delay", line, 0)
            if chosen == "fixed_packets":
                return Span(inner.integer("packets", 1, 1), delay_ps=delay, gap=gap)
            if chosen == "fixed_seconds":
                return Span(lasts_ps=int(inner.number("seconds", 1) * PS), delay_ps=delay, gap=gap)
            return Span(delay_ps=delay, gap=gap)


def _time(item: Item, name: str, line: TestPortLine, octets: int) -> int:
    with item.item(name) as inner:
        chosen = inner.choice("bytes", "bytes", *_TIMES)
        if chosen in _TIMES:
            return int(inner.number(chosen, octets * 8 if chosen == "nanoseconds" else octets * 0.008) * _TIMES[chosen])
        return int(inner.number("bytes", octets) * 8 * PS / line.bps)
