"""Curves of sweeps: the means of figures over a parameter, with the 95 % intervals over seeds."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from testbed.errors import UsageError, listed, nearest
from testbed.lab.results.foreign import ForeignFolder
from testbed.lab.studies.sweep_tables import SUMMARY
from testbed.plot.canvas import Canvas
from testbed.plot.groups import short
from testbed.plot.quantities import Quantity, linear, logarithmic, wants_log
from testbed.plot.style import COLOURS, marked
from testbed.report.studies.sweep_page import Mean, Study, is_sweep
from testbed.report.studies.sweep_page import read as read_study
from testbed.units import Duration, Length, Rate, Size

__all__ = ["SUMMARY", "is_sweep", "sweep"]

MOST_PANELS, MOST_VALUES, MOST_CURVES = 6, 12, len(COLOURS)
_UNIT = re.compile(r"(.*) \[(.*)\]", re.DOTALL)
_KINDS: tuple[type[Duration | Rate | Size | Length], ...] = (Duration, Rate, Size, Length)


@dataclass(frozen=True)
class Scale:
    """The places of a parameter's values on an axis."""

    quantity: Quantity
    places: dict[str, float]
    has_names: bool = False
    """True if the values are no numbers, so that they stand one beside the other."""


def scale_of(parameter: str, values: Sequence[str]) -> Scale:
    """Return where the values of a parameter stand: as numbers, as quantities, or one beside the other."""
    numbers = [_number(value) for value in values]
    if None not in numbers:
        return Scale(Quantity(parameter), {value: float(value) for value in values})
    for kind in _KINDS:
        try:
            places = {value: float(kind(value).number) for value in values}
        except UsageError:
            continue
        return Scale(Quantity(parameter, kind.reported), places)
    return Scale(Quantity(parameter), {value: float(place) for place, value in enumerate(values)}, has_names=True)


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def sweep(canvas: Canvas, paths: Sequence[Path], of: str = "", over: str = "", panels: str = "") -> None:
    """Draw means over a parameter: a panel for each figure, a curve for each combination of the other parameters.

    With `panels`, a parameter, there is a panel for each of its values, of one figure.
    """
    studies = [read_study(path) for path in paths]
    canvas.where = ", ".join(study.name for study in studies)
    for study, path in zip(studies, paths, strict=True):
        canvas.sources.append(f"{study.name}: SHA-256 of {SUMMARY} {_digest(path)[:16]}")
    over = over or _parameter(studies[0])
    for study in studies:
        if over not in study.parameters:
            raise UsageError(f"{study.name} has no parameter {over} in its grid; {nearest(over, study.parameters)}")
    names = _figures(canvas, studies, of)
    parts = _parts(studies, over, panels, names)
    values = list(dict.fromkeys(v for study in studies for v in study.values(study.parameters.index(over))))
    scale = scale_of(over, values)
    drawn = canvas.panels(len(parts)) if panels else canvas.axes(len(names))
    is_log = not scale.has_names and canvas.is_log(wants_log(list(scale.places.values())))
    lows, highs = list[float](), list[float]()
    for axes, (name, part) in zip(drawn, parts, strict=True):
        curves = {
            label: means
            for study in studies
            for label, means in _curves(study, name, over, studies, (panels, part)).items()
        }
        if len(curves) > MOST_CURVES:
            _refuse(studies, over, panels, len(curves))
        match = _UNIT.fullmatch(name)
        quantity = Quantity(short(match[1]), match[2]) if match else Quantity(short(name))
        if not panels:  # which have one axis of values
            lows, highs = [], []
        for number, (label, points) in enumerate(curves.items()):
            placed = sorted((scale.places[value], mean) for value, mean in points if value in scale.places)
            widths = [0 if math.isnan(mean.half_width) else mean.half_width for _, mean in placed]
            axes.errorbar(
                [x for x, _ in placed], [mean.mean for _, mean in placed], widths, label=label,
                capsize=canvas.style.points * 0.3, elinewidth=canvas.style.line * 0.7, **marked(number),
            )  # fmt: skip
            lows += [mean.low for _, mean in placed]
            highs += [mean.high for _, mean in placed]
        if canvas.log is not False and wants_log(lows + highs):
            logarithmic(axes.yaxis, axes, quantity, min(lows), max(highs))
        else:
            linear(axes.yaxis, axes, quantity, max(map(abs, lows + highs)))
            if min(lows) >= 0:
                axes.set_ylim(0, (max(highs) or 1) * 1.08)
        if panels:
            axes.set_title(short(f"{panels}={part}"))
        _x_axis(axes, scale, is_log)
    seeds = max((mean.runs for study in studies for name in names for mean in study.figures.get(name, ())), default=0)
    canvas.note(f"bars are 95 % intervals of the mean over {seeds} seeds" if seeds > 1 else "one seed, so no intervals")
    canvas.at_edges(drawn)
    canvas.legend(*drawn)


def _parts(studies: Sequence[Study], over: str, panels: str, names: Sequence[str]) -> list[tuple[str, str]]:
    """Return the figure of each panel, and the value that the panels' parameter has there."""
    if not panels:
        return [(name, "") for name in names]
    for study in studies:
        others = [name for name in study.parameters if name != over]
        if panels not in others:
            raise UsageError(f"--panels {panels}: beside {over}, {study.name} has the parameters {listed(others)}")
    if len(names) > 1:
        raise UsageError(
            f"--panels is for one figure, and there are {len(names)}: --of {_bare(names[0])!r} chooses one"
        )
    values = dict.fromkeys(v for study in studies for v in study.values(study.parameters.index(panels)))
    if len(values) > MOST_VALUES:
        raise UsageError(f"{panels} has {len(values)} values, and a figure up to {MOST_VALUES} panels")
    return [(names[0], value) for value in values]


def _refuse(studies: Sequence[Study], over: str, panels: str, curves: int) -> None:
    """Refuse more curves than an eye tells apart, with the way out."""
    sizes = {
        name: len({value for study in studies for value in study.values(study.parameters.index(name))})
        for name in studies[0].parameters
        if name not in (over, panels)
    }
    fitting = [(many, name) for name, many in sizes.items() if curves <= many * MOST_CURVES and many <= MOST_VALUES]
    advice = f"--panels {min(fitting)[1]} makes {min(fitting)[0]} panels of them" if fitting else "make a smaller grid"
    raise UsageError(
        f"{curves} curves cannot be told apart: there are {MOST_CURVES} colours with dashes of their own; {advice}"
    )


def _x_axis(axes: Any, scale: Scale, is_log: bool) -> None:
    xs = sorted(scale.places.values())
    if scale.has_names:
        axes.set_xticks(list(scale.places.values()), [short(value, 20) for value in scale.places])
        axes.set_xlabel(short(scale.quantity.name))
        axes.set_xlim(-0.4, len(xs) - 0.6)
    elif is_log:
        logarithmic(axes.xaxis, axes, scale.quantity, xs[0], xs[-1])
    else:
        linear(axes.xaxis, axes, scale.quantity, xs[-1])


def _parameter(study: Study) -> str:
    spread = [name for place, name in enumerate(study.parameters) if len(study.values(place)) > 1]
    if not spread:
        raise UsageError(f"{study.name} has one combination of parameters, so there is no curve over one")
    return spread[-1]


def _figures(canvas: Canvas, studies: Sequence[Study], of: str) -> list[str]:
    """Return the figures to draw: those that a pattern names, or all that are not the same in all runs."""
    every = list(dict.fromkeys(name for study in studies for name in study.figures))
    if of:
        names = [name for name in every if fnmatchcase(name, of) or _bare(name) == of or fnmatchcase(_bare(name), of)]
        if not names:
            near = [_bare(name) for name in every]
            raise UsageError(
                f"no figure is called {of!r}; {nearest(of, near)}; a pattern such as 'loss*' names several"
            )
    else:
        names = [name for name in every if _varies(studies, name)]
        canvas.require(names, "every figure is the same in all runs; --of NAME draws one all the same")
    if len(names) > MOST_PANELS:
        rest = listed([_bare(name) for name in names[MOST_PANELS:]], 5)
        canvas.note(f"{MOST_PANELS} of {len(names)} figures; --of chooses others, such as {rest}")
    return names[:MOST_PANELS]


def _bare(name: str) -> str:
    match = _UNIT.fullmatch(name)
    return match[1] if match else name


def _varies(studies: Sequence[Study], name: str) -> bool:
    return (
        len({one for study in studies for mean in study.figures.get(name, ()) for one in (mean.least, mean.most)}) > 1
    )


def _curves(
    study: Study, name: str, over: str, studies: Sequence[Study], panel: tuple[str, str]
) -> dict[str, list[tuple[str, Mean]]]:
    """Return the points of each curve of a figure in a panel, by the values of all other parameters."""
    at, (parameter, part) = study.parameters.index(over), panel
    fixed = {at, study.parameters.index(parameter)} if parameter else {at}
    others = [place for place in range(len(study.parameters)) if place not in fixed and len(study.values(place)) > 1]
    found: dict[str, list[tuple[str, Mean]]] = {}
    for mean in study.figures.get(name, ()):
        if parameter and mean.point[study.parameters.index(parameter)] != part:
            continue
        words = [f"{study.parameters[place]}={mean.point[place]}" for place in others]
        label = short(", ".join(([study.name] if len(studies) > 1 else []) + words))
        found.setdefault(label, []).append((mean.point[at], mean))
    return found


def _digest(path: Path) -> str:
    with ForeignFolder(path).open(SUMMARY) as file:
        return hashlib.sha256(file.read()).hexdigest()
