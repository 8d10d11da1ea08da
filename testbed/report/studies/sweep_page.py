"""The report of a sweep: each figure over the grid, as heat maps and as curves with 95 % intervals, and as a table.

It reads `summary.csv`, the means over the seeds (`testbed/lab/studies/sweep_tables.py`). The pictures are SVG and take
no script. A figure that is the same everywhere is in the table alone.
"""

from __future__ import annotations

import csv
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from testbed.errors import UsageError
from testbed.lab.results.folder import ReportError
from testbed.lab.results.foreign import ForeignError, ForeignFolder
from testbed.lab.studies.sweep_tables import FAILED, OWN_COLUMNS, SUMMARY
from testbed.report.pages.axes import chart, grid, key, linear, short
from testbed.report.pages.markup import Html, folded, heading, table, text
from testbed.units import Duration, Length, Rate, Size, written

_MOST_FIGURES, _MOST_LINES, _MOST_CELLS, _MOST_MAPS = 60, 6, 400, 6
_MOST_MEANS = 500_000
_WIDTH, _HEIGHT, _LEFT, _TOP, _BOTTOM = 560, 220, 84, 14, 40
_HEATS = 5


@dataclass(frozen=True)
class Mean:
    """The mean of a figure at one point of the grid."""

    point: tuple[str, ...]
    """The values of the parameters, in the order of the grid."""
    runs: int
    mean: float
    half_width: float
    """The half width of the 95 % interval; NaN with one run."""
    least: float
    most: float

    @property
    def low(self) -> float:
        return self.mean - (0 if math.isnan(self.half_width) else self.half_width)

    @property
    def high(self) -> float:
        return self.mean + (0 if math.isnan(self.half_width) else self.half_width)


@dataclass(frozen=True)
class Study:
    """The means that a sweep found."""

    name: str
    parameters: tuple[str, ...]
    figures: dict[str, list[Mean]]
    failed: int

    @property
    def varying(self) -> list[str]:
        """The figures that are not the same in all runs."""
        every = self.figures.items()
        return [name for name, means in every if len({one for m in means for one in (m.least, m.most)}) > 1]

    def values(self, place: int) -> list[str]:
        """Return the values of a parameter, in the order of the grid."""
        return list(dict.fromkeys(mean.point[place] for means in self.figures.values() for mean in means))


def is_sweep(path: Path) -> bool:
    return ForeignFolder(path).has(SUMMARY)


def read(folder: Path) -> Study:
    """Read the summary of a sweep."""
    files = ForeignFolder(folder)
    figures: dict[str, list[Mean]] = {}
    rows = csv.DictReader(line for _, line in files.lines(SUMMARY))
    try:
        parameters = tuple(name for name in rows.fieldnames or () if name not in OWN_COLUMNS)
        for number, row in enumerate(rows):
            numbers = [float(row[name]) for name in ("mean", "half width of 95 %", "least", "most")]
            point = tuple(row[name] for name in parameters)
            if any(math.isinf(number) for number in numbers) or math.isnan(numbers[0]):
                raise ValueError("a mean that is not a number")
            figures.setdefault(row["figure"], []).append(Mean(point, int(row["runs"]), *numbers))
            if number > _MOST_MEANS:
                raise ValueError(f"there are more than {_MOST_MEANS} rows")
    except ForeignError:
        raise
    except (csv.Error, KeyError, TypeError, ValueError) as error:
        line = f"{folder / SUMMARY}: line {rows.line_num}"
        raise ReportError(f"{line} is of no summary of a sweep: {error}") from None
    failed = sum(1 for _ in files.lines(FAILED)) - 1 if files.has(FAILED) else 0
    return Study(folder.resolve().name, parameters, figures, max(0, failed))


def body(study: Study) -> str:
    """Return the body of the report."""
    varying = study.varying
    runs = max((mean.runs for means in study.figures.values() for mean in means), default=0)
    points = len({mean.point for means in study.figures.values() for mean in means})
    parts: list[str] = [
        f"<header>{heading(1, study.name)}",
        f'<p class="note">{points} combinations of {text(", ".join(study.parameters) or "no parameter")}, up to {runs} '
        f"seed{'' if runs == 1 else 's'} each. Bars and bands are 95 % intervals of the mean.</p></header><main>",
    ]
    if study.failed:
        parts.append(f'<p class="bad">{study.failed} runs did not end by themselves; {FAILED} has them.</p>')
    for name in varying[:_MOST_FIGURES]:
        parts.append(heading(2, name))
        parts += pictures(study, name)
        parts.append(folded("Numbers", _numbers(study, [name])))
    if len(varying) > _MOST_FIGURES:
        parts.append(f'<p class="note">{len(varying) - _MOST_FIGURES} more figures are in {SUMMARY}.</p>')
    same = [name for name in study.figures if name not in varying]
    if same:
        parts += [heading(2, "The same in all runs"), _numbers(study, same)]
    return "\n".join([*parts, "</main>"])


def _numbers(study: Study, names: Sequence[str]) -> Html:
    rows = [
        [name, *mean.point, mean.runs, value_text(mean.mean, name),
         "-" if math.isnan(mean.half_width) else f"± {value_text(mean.half_width, name)}",
         value_text(mean.least, name), value_text(mean.most, name)]
        for name in names
        for mean in study.figures[name]
    ]  # fmt: skip
    head = ("figure", *study.parameters, "runs", "mean", "95 %", "least", "most")
    return table(f"Numbers of {', '.join(names)[:80]}", head, rows, most=2000)


def pictures(study: Study, name: str) -> list[str]:
    """Return the drawings of a figure: heat maps of two parameters, and curves over the last."""
    means = {mean.point: mean for mean in study.figures[name]}
    spread = [place for place in range(len(study.parameters)) if len(study.values(place)) > 1]
    if not spread:
        return []
    out = []
    if len(spread) >= 2:
        out += _heat_maps(study, name, means, spread)
    out.append(_curves(study, name, means, spread[-1]))
    return [f'<div class="results">{"".join(out)}</div>']


def _heat_maps(study: Study, name: str, means: dict[tuple[str, ...], Mean], spread: list[int]) -> list[str]:
    """Return a map of the first two parameters for each combination of the others."""
    down, across = spread[0], spread[1]
    rows, columns = study.values(down), study.values(across)
    if len(rows) * len(columns) > _MOST_CELLS:
        return [f'<p class="note">{len(rows)} by {len(columns)} values are too many for a map.</p>']
    others = list(dict.fromkeys(_without(point, down, across) for point in means))
    low, high = min(m.mean for m in means.values()), max(m.mean for m in means.values())
    return [_heat_map(study, name, (down, across), other, (low, high)) for other in others[:_MOST_MAPS]]


def _without(point: tuple[str, ...], *places: int) -> tuple[str, ...]:
    return tuple("" if place in places else value for place, value in enumerate(point))


def _heat_map(
    study: Study,
    name: str,
    places: tuple[int, int],
    other: tuple[str, ...],
    span: tuple[float, float],
) -> str:
    down, across = places
    low, high = span
    means = {mean.point: mean for mean in study.figures[name]}
    rows = []
    for value in study.values(down):
        cells = []
        for beside in study.values(across):
            point = tuple(value if at == down else beside if at == across else one for at, one in enumerate(other))
            mean = means.get(point)
            if mean is None:
                cells.append("<td>-</td>")
                continue
            heat = 0 if high == low else min(_HEATS - 1, int((mean.mean - low) / (high - low) * _HEATS))
            cells.append(f'<td class="heat heat-{heat}">{text(value_text(mean.mean, name))}</td>')
        rows.append(f'<tr><th scope="row">{text(value, 40)}</th>{"".join(cells)}</tr>')
    head = "".join(f'<th scope="col">{text(value, 40)}</th>' for value in study.values(across))
    fixed = ", ".join(f"{study.parameters[at]}={value}" for at, value in enumerate(other) if value)
    title = f"{name} by {study.parameters[down]} (down) and {study.parameters[across]} (across)"
    caption = text(f"{title}{'; ' if fixed else ''}{fixed}")
    return (
        f'<div><p class="note">{caption}</p><div class="wide" tabindex="0" role="region" aria-label="{caption}">'
        f'<table class="heats">'
        f"<thead><tr><td></td>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div></div>"
    )


def _curves(study: Study, name: str, means: dict[tuple[str, ...], Mean], across: int) -> str:
    """Return a drawing of the figure over one parameter, with a line for each combination of the others."""
    values = study.values(across)
    places = _places(values)
    lines: dict[tuple[str, ...], list[tuple[float, Mean]]] = {}
    for point, mean in means.items():
        lines.setdefault(_without(point, across), []).append((places[values.index(point[across])], mean))
    shown = dict(itertools.islice(lines.items(), _MOST_LINES))
    low = min(0.0, *(mean.low for line in shown.values() for _, mean in line))
    high = max(mean.high for line in shown.values() for _, mean in line) * 1.05 or 1.0
    axis = linear(low, high, _unit(name), 5)

    def y(value: float) -> float:
        return _TOP + (_HEIGHT - _TOP - _BOTTOM) * (1 - (value - low) / ((high - low) or 1.0))

    out = grid(axis, (f"{words} {axis.unit}".strip() for words in axis.texts), y, _LEFT, _WIDTH - 8)
    for tick, x in zip(values, places, strict=True):
        out.append(f'<text x="{x:.1f}" y="{_HEIGHT - _BOTTOM + 16}" text-anchor="middle">{text(tick, 16)}</text>')
    out.append(f'<text x="{(_LEFT + _WIDTH) / 2}" y="{_HEIGHT - 6}" text-anchor="middle">'
               f"{text(study.parameters[across], 60)}</text>")  # fmt: skip
    for number, line in enumerate(shown.values(), 1):
        line.sort(key=lambda one: one[0])
        path = "L".join(f"{x:.1f} {y(mean.mean):.1f}" for x, mean in line)
        out.append(f'<path class="c{number}" d="M{path}"/>')
        for x, mean in line:
            exact = text(
                f"{value_text(mean.mean, name)}, 95 %: {value_text(mean.low, name)} to {value_text(mean.high, name)}"
            )
            out.append(
                f"<g><title>{exact}</title>"
                f'<path class="c{number}" d="M{x - 4:.1f} {y(mean.low):.1f}h8m-4 0V{y(mean.high):.1f}m-4 0h8"/>'
                f'<circle class="s{number}" cx="{x:.1f}" cy="{y(mean.mean):.1f}" r="3.2"/></g>'
            )
    keys: list[str] = [
        key(f"s{number}", ", ".join(f"{study.parameters[at]}={value}" for at, value in enumerate(other) if value), 80)
        for number, other in enumerate(shown, 1)
        if any(other)
    ]
    if len(lines) > len(shown):
        keys.append(f'<span class="note">and {len(lines) - len(shown)} more, in the numbers</span>')
    return chart(f"{name} over {study.parameters[across]}", out, keys, (_WIDTH, _HEIGHT))


def _places(values: list[str]) -> list[float]:
    """Return the places of values on an axis: in proportion if all are numbers or quantities, else side by side."""
    found = [_number(value) for value in values]
    numbers = [number for number in found if number is not None]
    left, right = _LEFT + 24.0, _WIDTH - 32.0
    if len(numbers) == len(values) and max(numbers) > min(numbers):
        low, high = min(numbers), max(numbers)
        return [left + (right - left) * (number - low) / (high - low) for number in numbers]
    return [left + (right - left) * at / max(1, len(values) - 1) for at in range(len(values))]


def _number(value: str) -> float | None:
    try:
        number = float(value)
        return number if math.isfinite(number) else None
    except ValueError:
        pass
    for kind, unit in ((Rate, "bps"), (Length, "mm"), (Duration, "ps"), (Size, "bytes")):
        try:
            return float(getattr(kind(value), unit))
        except (UsageError, ValueError):
            continue
    return None


def value_text(value: float, name: str) -> str:
    """Return a mean with the unit of its figure, which is in the figure's name in brackets."""
    unit = _unit(name)
    if unit in ("b/s", "ns", "B", "m") and value >= 1:
        return written(round(value), unit)
    return short(value, unit, 4) if abs(value) < 1e15 else f"{value:.4g} {unit}".strip()


def _unit(name: str) -> str:
    """Return the unit of a figure, which is in its name in brackets."""
    return name.rpartition(" [")[2].removesuffix("]") if name.endswith("]") else ""
