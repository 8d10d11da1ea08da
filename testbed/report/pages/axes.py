"""Axes of charts, with round ticks, and texts of one unit and as many digits as tell ticks apart; keys and frames."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from testbed.report.pages.markup import Html, text

_TIMES = (("s", 1e9), ("ms", 1e6), ("us", 1e3), ("ns", 1.0))
_POWERS = (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3), ("", 1.0))
_SCALED = ("b/s", "B")


@dataclass(frozen=True)
class Axis:
    """The ticks of an axis, and the unit that all of their texts have."""

    unit: str
    values: tuple[float, ...]
    texts: tuple[str, ...]


def ticks(low: float, high: float, count: int) -> tuple[float, ...]:
    """Return round values from low to high, with steps of 1, 2 or 5 times a power of ten, about `count` of them."""
    rough = (high - low) / max(1, count)
    if not (math.isfinite(rough) and rough > 0):
        return (low,)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next((n * power for n in (1, 2, 5, 10) if n * power >= rough * 0.999), 10 * power)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return tuple(number * step + 0.0 for number in range(first, min(last, first + 1000) + 1))


def linear(low: float, high: float, unit: str, count: int) -> Axis:
    """Return an axis from low to high, of values in a unit of Xoff's figures."""
    shown, factor = unit_of(max(abs(low), abs(high)), unit)
    marks = ticks(low / factor, high / factor, count)
    step = marks[1] - marks[0] if len(marks) > 1 else abs(marks[0]) or 1.0
    digits = max(0, -math.floor(math.log10(step) + 1e-9)) if step < 1 else 0
    return Axis(shown, tuple(one * factor for one in marks), tuple(f"{one:,.{min(digits, 12)}f}" for one in marks))


def logarithmic(low: float, high: float, unit: str) -> Axis:
    """Return an axis of powers of ten, each with its own prefix; of 1, 2 and 5 of them where there are few."""
    first, last = math.floor(math.log10(low) + 1e-9), math.ceil(math.log10(high) - 1e-9)
    steps = (1, 2, 5) if last - first <= 2 else (1,)
    marks = [n * 10.0**power for power in range(first, last + 1) for n in steps]
    kept = tuple(one for one in marks if low * 0.999 <= one <= high * 1.001)
    return Axis("", kept, tuple(short(one, unit) for one in kept))


def short(value: float, unit: str, digits: int = 3) -> str:
    """Return a value with its unit and at least three digits, never with an exponent."""
    shown, factor = unit_of(abs(value), unit)
    scaled = value / factor
    if not math.isfinite(scaled):
        return f"{scaled} {shown}".strip()
    places = 0 if scaled == 0 else max(0, digits - 1 - math.floor(math.log10(abs(scaled)) + 1e-9))
    digits_of = f"{scaled:,.{min(places, 12)}f}"
    return f"{digits_of.rstrip('0').rstrip('.') if '.' in digits_of else digits_of} {shown}".strip()


def unit_of(largest: float, unit: str) -> tuple[str, float]:
    """Return the unit that values up to a largest one are shown in, and how many of the given one it has."""
    if unit == "ns":
        return next(((name, factor) for name, factor in _TIMES if largest >= factor), _TIMES[-1])
    if unit in _SCALED:
        prefix, factor = next(((name, factor) for name, factor in _POWERS if largest >= factor), _POWERS[-1])
        return prefix + unit, factor
    return unit, 1.0


def swatch(kind: str) -> Html:
    """Return the mark of a curve or an area in a key: a line for a limit, else a box."""
    shape = '<path class="limit" d="M0 5H14"/>' if kind == "limit" else f'<rect class="{kind}" width="14" height="10"/>'
    return Html(f'<svg viewBox="0 0 14 10" aria-hidden="true">{shape}</svg>')


def key(kind: str, words: str, most: int = 60) -> Html:
    """Return a swatch with what it stands for."""
    return Html(f'<span class="key">{swatch(kind)}{text(words, most)}</span>')


def grid(axis: Axis, texts: Iterable[str], y: Callable[[float], float], left: float, right: float) -> list[str]:
    """Return the lines of a chart's axis up, with the texts at their left ends."""
    out = []
    for value, words in zip(axis.values, texts, strict=True):
        out.append(f'<path class="grid" d="M{left} {y(value):.1f}H{right}"/>')
        out.append(f'<text x="{left - 6}" y="{y(value) + 4:.1f}" text-anchor="end">{text(words, 24)}</text>')
    return out


def chart(
    title: str, parts: Iterable[str], keys: Iterable[str], size: tuple[int, int], *, about: str = "", label: str = ""
) -> Html:
    """Return a drawing of this width and height, below its title and its keys."""
    told = f' <span class="about">{text(about)}</span>' if about else ""
    return Html(
        f"<figure><figcaption>{text(title)}{told}<br>{''.join(keys)}</figcaption>"
        f'<svg class="curves" viewBox="0 0 {size[0]} {size[1]}" role="img" aria-label="{text(label or title)}">'
        f"{''.join(parts)}</svg></figure>"
    )
