"""Small charts of results for cards: bars, curves, and lanes over time.

A chart is drawn from a `Chart`, which is plain data: what a picture shows can be kept, compared and drawn anew without
the result that it came from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tools.drawing import TONES, Drawing

WIDTH = 400
_MARGIN, _HEAD = 16, 40
_ROW = 30
_LANE = 26
_PLOT_HEIGHT = 130
_BAR_FROM, _BAR_TO = 168, 316
"""The ends of the place of bars; labels are before it, values behind."""
_LANE_FROM = 96
_MOST_LETTERS = 27
_TALLEST, _MOST_OF_A_NODE = 108, 5
_NODES = {"host": "box", "switch": "bluebox", "leaf": "bluebox", "router": "amberbox"}


@dataclass(frozen=True)
class Chart:
    """The data of a chart. A row is (label, tone, values): the number of a bar, points of a curve, spans of a lane."""

    kind: str
    title: str
    rows: tuple[tuple[str, str, tuple[Any, ...]], ...]
    unit: str = ""
    axis: str = ""
    """The words below a horizontal axis."""

    def as_json(self) -> dict[str, Any]:
        rows = [[label, tone, *values] for label, tone, values in self.rows]
        return {"kind": self.kind, "title": self.title, "unit": self.unit, "axis": self.axis, "rows": rows}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Chart:
        rows = tuple((label, tone, tuple(values)) for label, tone, *values in content["rows"])
        return cls(content["kind"], content["title"], rows, content["unit"], content["axis"])


def draw(chart: Chart, name: str, network: Mapping[str, Any] | None = None) -> str:
    """Return a chart as SVG, below the drawing of its network; `name` is what its title says to a screen reader."""
    top = 0 if network is None else _network_height(network)
    one = Drawing(WIDTH, top + _HEIGHTS[chart.kind](len(chart.rows)), name, in_words(chart))
    if network is not None:
        _draw_network(one, network, top)
    one.text(_MARGIN, top + 25, chart.title, "bold")
    _KINDS[chart.kind](one, chart, top + _HEAD)
    return one.svg()


def in_words(chart: Chart) -> str:
    """Return what a chart shows, for those who do not see it."""
    if chart.kind == "bars":
        told = ", ".join(f"{label} {written(values[0], chart.unit)}" for label, _, values in chart.rows)
    else:
        told = ", ".join(label for label, _, _ in chart.rows)
    return f"{chart.title}: {told}"


def written(value: float, unit: str) -> str:
    """Return a number with three digits and its unit, in the multiple of the unit that is read most easily."""
    if unit == "ns":
        return _scaled(value / 1e9, "s")
    if unit in ("b/s", "B", "bytes"):
        return _scaled(value, "B" if unit == "bytes" else unit)
    if isinstance(value, float) and not value.is_integer():
        text = f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"
    else:
        text = f"{value:,.0f}".replace(",", "\N{NO-BREAK SPACE}")
    return f"{text} {unit}".strip()


def _scaled(value: float, unit: str) -> str:
    if not value:
        return f"0 {unit}"
    for factor, prefix in ((1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""), (1e-3, "m"), (1e-6, "u")):
        if unit == "s" and factor > 1:
            continue
        if abs(value) >= factor * 0.9995:
            return f"{_digits(value / factor)} {prefix}{unit}"
    return f"{_digits(value / 1e-9)} n{unit}"


def _digits(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 99.95 else f"{value:.3g}"


def _network_height(network: Mapping[str, Any]) -> int:
    rows: float = 1 + max(y for _, y, _ in network["nodes"].values())
    return round(min(_TALLEST, 18 + 30 * rows))


def _draw_network(one: Drawing, network: Mapping[str, Any], height: float) -> None:
    """Draw nodes and cables small, on a band of their own."""
    nodes = network["nodes"]
    columns, rows = (1 + max(node[axis] for node in nodes.values()) for axis in (0, 1))
    wide = min(76.0, (WIDTH - 2 * _MARGIN) / columns)
    high = (height - 18) / rows
    left = (WIDTH - wide * columns) / 2
    at = {
        name: (round(left + wide * (x + 0.5), 1), round(9 + high * (y + 0.5), 1)) for name, (x, y, _) in nodes.items()
    }
    one.area(0, 0, WIDTH, height)
    for ends in network["cables"]:
        if all(end in at for end in ends):
            one.line(at[ends[0]], at[ends[1]])
    half_x, half_y = round(min(15.0, wide * 0.4), 1), round(min(10.0, high * 0.42), 1)
    for name, (x, y) in at.items():
        kind = _NODES.get(nodes[name][2], "box")
        one.box(x - half_x, y - half_y, half_x * 2, half_y * 2, kind)
        if len(name) <= _MOST_OF_A_NODE and half_y > 7:
            one.text(x, y + 4, name, "tiny", "middle")


def _bars(one: Drawing, chart: Chart, top: float) -> None:
    largest = max((abs(values[0]) for _, _, values in chart.rows), default=0) or 1
    for row, (label, tone, values) in enumerate(chart.rows):
        y = top + row * _ROW
        one.text(_BAR_FROM - 8, y + 16, label, "small", "end")
        width = (_BAR_TO - _BAR_FROM) * abs(values[0]) / largest
        if values[0]:
            one.box(_BAR_FROM, y, round(max(2.0, width), 1), 22, f"{tone}box")
        else:
            one.line((_BAR_FROM, y), (_BAR_FROM, y + 22), kind=f"{tone}line")
        one.text(round(_BAR_FROM + width + 7, 1), y + 16, written(values[0], chart.unit), f"{tone} small")


def _curves(one: Drawing, chart: Chart, top: float) -> None:
    left, right, floor = 66, WIDTH - _MARGIN, top + _PLOT_HEIGHT
    longest = max(len(values) for _, _, values in chart.rows)
    largest = max(max(values) for _, _, values in chart.rows) or 1
    for part in (0.0, 0.5, 1.0):
        y = floor - part * _PLOT_HEIGHT
        one.line((left, y), (right, y), kind="line" if not part else "line dashed")
        one.text(left - 6, y + 4, written(largest * part, chart.unit), "soft small", "end")
    for row, (label, tone, values) in enumerate(chart.rows):
        step = (right - left) / max(1, longest - 1)
        points = [
            (round(left + step * place, 1), round(floor - _PLOT_HEIGHT * value / largest, 1))
            for place, value in enumerate(values)
        ]
        one.line(*points, kind=f"{tone}line")
        y = floor + 42 + row * 18
        one.line((left, y - 4), (left + 22, y - 4), kind=f"{tone}line")
        one.text(left + 30, y, label, "small")
    one.text((left + right) / 2, floor + 20, chart.axis, "soft small", "middle")


def _lanes(one: Drawing, chart: Chart, top: float) -> None:
    """Draw a lane for each row; its values are starts and ends by turns, in thousandths of the axis."""
    left, right = _LANE_FROM, WIDTH - _MARGIN
    for row, (label, tone, values) in enumerate(chart.rows):
        y = top + row * _LANE
        one.text(left - 8, y + 14, label, "small", "end")
        one.box(left, y, right - left, 18)
        spans = [
            (round(left + (right - left) * start / 1000, 2), round(max(0.4, (right - left) * (end - start) / 1000), 2))
            for start, end in zip(values[::2], values[1::2], strict=True)
        ]
        one.bars(f"{tone}solid", y + 1, 16, spans)
    one.text(left, top + _LANE * len(chart.rows) + 10, "0", "soft small")
    one.text(right, top + _LANE * len(chart.rows) + 10, chart.axis, "soft small", "end")


_HEIGHTS: Mapping[str, Callable[[int], int]] = {
    "bars": lambda rows: _HEAD + _ROW * rows + 8,
    "curves": lambda rows: _HEAD + _PLOT_HEIGHT + 36 + 18 * rows,
    "lanes": lambda rows: _HEAD + _LANE * rows + 20,
}
_KINDS = {"bars": _bars, "curves": _curves, "lanes": _lanes}


def problems(chart: Chart) -> Sequence[str]:
    """Return what would not be readable in a chart."""
    found = [
        f"{label!r} is longer than its place" for label, _, _ in chart.rows
        if len(label) > (_MOST_LETTERS if chart.kind == "bars" else 13 if chart.kind == "lanes" else 60)
    ]  # fmt: skip
    found += [f"{tone!r} is no tone" for _, tone, _ in chart.rows if tone not in TONES]
    return found + ([f"{chart.title!r} is longer than the picture"] if len(chart.title) > 51 else [])
