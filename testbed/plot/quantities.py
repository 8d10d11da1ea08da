"""Quantities on axes: the unit that suits their range, round ticks, and as many digits as the eye uses."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

LOG_FROM = 30
"""The ratio of the largest to the smallest value from which an axis is logarithmic by itself."""
_PREFIXES = {
    "ns": (("ns", 1.0), ("µs", 1e3), ("ms", 1e6), ("s", 1e9)),
    "b/s": (("b/s", 1.0), ("kb/s", 1e3), ("Mb/s", 1e6), ("Gb/s", 1e9), ("Tb/s", 1e12)),
    "B": (("B", 1.0), ("kB", 1e3), ("MB", 1e6), ("GB", 1e9)),
    "m": (("m", 1.0), ("km", 1e3)),
}


@dataclass(frozen=True)
class Quantity:
    """The quantity of an axis: its name and the unit in which its values are."""

    name: str
    unit: str = ""

    def scaled(self, most: float) -> tuple[str, float]:
        """Return the unit for values up to `most`, and how many of the values' own unit it has."""
        found = _PREFIXES.get(self.unit, ((self.unit, 1.0),))
        fitting = [one for one in found if abs(most) >= one[1]] or [found[0]]
        return fitting[-1]

    def label(self, most: float) -> str:
        """Return the label of a linear axis."""
        unit, _ = self.scaled(most)
        return f"{self.name} ({unit})" if unit else self.name

    def written(self, value: float) -> str:
        """Return one value with its unit, as a tick of a logarithmic axis has it."""
        unit, divisor = self.scaled(value * (1 + 1e-9))
        return f"{_number(value / divisor)} {unit}".strip()


def wants_log(values: list[float]) -> bool:
    """Return whether values span so much that a linear axis would show the largest only."""
    above = [value for value in values if value > 0]
    return len(above) == len(values) and bool(above) and max(above) / min(above) >= LOG_FROM


def linear(axis: Any, axes: Any, quantity: Quantity, most: float) -> None:
    """Give a matplotlib axis round ticks in the unit that suits values up to `most`."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    _, divisor = quantity.scaled(most)
    axis.set_major_locator(MaxNLocator(nbins=6 if axis is axes.xaxis else 5, steps=[1, 2, 2.5, 5, 10]))
    axis.set_major_formatter(FuncFormatter(lambda value, _: _number(value / divisor)))
    axis.set_label_text(quantity.label(most))


def logarithmic(axis: Any, axes: Any, quantity: Quantity, least: float, most: float) -> None:
    """Make an axis logarithmic, with a unit at each tick; where there are few decades 2 and 5 of each have a label."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter

    (axes.set_xscale if axis is axes.xaxis else axes.set_yscale)("log")
    low, high = math.floor(math.log10(least) + 1e-9), math.ceil(math.log10(most) - 1e-9)
    decades = range(low, high + 1)
    factors = (1, 2, 5) if high - low <= 2 else (1,)
    every = -(-len(decades) // 8)
    axis.set_major_locator(FixedLocator([factor * 10.0**decade for decade in decades[::every] for factor in factors]))
    axis.set_minor_locator(FixedLocator([factor * 10.0**decade for decade in decades for factor in range(2, 10)]))
    axis.set_major_formatter(FuncFormatter(lambda value, _: quantity.written(value)))
    axis.set_minor_formatter(NullFormatter())
    axis.set_label_text(quantity.name)


def _number(value: float) -> str:
    """Return a tick's number: at most four digits, no exponent where people write none."""
    text = f"{value:.4g}"
    return f"{value:.0f}" if "e+" in text and abs(value) < 1e7 else text
