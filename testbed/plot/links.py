"""The mean load of each link of a fabric as one picture: a matrix for each pair of tiers, up and down side by side.

A row is a node of the lower tier, a column one of the upper tier, and their cell the link between them. So 64 links are
64 cells: those that carry too much or nothing are seen at a glance. Several cables between two nodes share a cell.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from testbed.errors import UsageError
from testbed.plot.canvas import Canvas
from testbed.plot.groups import Group, Steps, short
from testbed.plot.numbers import binned
from testbed.plot.over_time import RECORD, end_of, fewest_panels
from testbed.plot.style import HEAT
from testbed.report.pages import link_loads
from testbed.report.pages.link_loads import ALL, FABRIC, HOSTS, MOST_NODES, Matrix
from testbed.report.timeline.series import LOAD

_LONGEST_NAME, _LONGEST_TITLE = 12, 40
_DARK = 55
"""The load in percent up to which a cell is dark, so that its number is white."""


def links(canvas: Canvas, groups: Sequence[Group], of: str = "") -> None:
    """Draw the mean load of each direction of each cable, in percent of its line, as a cell for each link."""
    if of not in ("", FABRIC, HOSTS, ALL):
        raise UsageError(f"there is no --of {of} of a figure of links; there are {FABRIC}, {HOSTS} and {ALL}")
    measured = {group: loads for group in groups if (loads := group.steps(LOAD))}
    canvas.require(measured, f"no series of links; {RECORD}")
    kept = fewest_panels(canvas, measured)
    for part in (of,) if of else (FABRIC, HOSTS):
        panels = [(group, matrix) for group, loads in kept.items() for matrix in matrices(group, loads, part)]
        if panels:
            break
    canvas.require(panels, "no link of this part of the network has a load and a rate")
    _draw(canvas, panels, is_compared=len(kept) > 1)


def matrices(group: Group, loads: dict[str, Steps], of: str = FABRIC) -> list[Matrix]:
    """Return a matrix for each pair of tiers that have links between them, from the hosts up."""
    start, end = group.choice.begin_ns, end_of(group, loads)
    if group.network is None or end <= start:
        return []
    factor = group.folder.scale.k if group.choice.lab_time else 1

    def load(port: str) -> float:
        times, values = loads.get(port, ((), ()))
        return factor * binned(times, values, start, end, 1)[0]

    return link_loads.matrices(group.network, load, of, group.choice.has)


def _draw(canvas: Canvas, panels: Sequence[tuple[Group, Matrix]], is_compared: bool) -> None:
    import matplotlib

    style = canvas.style
    line = style.points * 1.25 / 72
    heights = [2.6 * line + line * min(MOST_NODES, len(matrix.rows)) for _, matrix in panels]
    longest = max(len(short(name, _LONGEST_NAME)) for _, matrix in panels for name in matrix.columns)
    height = style.height if style.is_fixed else sum(heights) + (3 + longest * 0.5) * line
    canvas.figure.set_size_inches(style.width, height)
    axes = canvas.figure.subplots(len(panels), 2, squeeze=False, height_ratios=heights)
    colours = matplotlib.colormaps[HEAT].with_extremes(bad="white")
    picture = None
    for place, (row, (group, matrix)) in enumerate(zip(axes, panels, strict=True)):
        is_last = place + 1 == len(panels) or panels[place + 1][1].columns != matrix.columns
        for one, is_up in zip(row, (True, False), strict=True):
            cells = matrix.cells(is_up)
            names, others = matrix.rows, matrix.columns
            if max(len(names), len(others)) > MOST_NODES:
                canvas.note(
                    f"{MOST_NODES} of {len(names)} by {len(others)} nodes; --only chooses ports, as in 'leaf1-*'"
                )
                names, others = names[:MOST_NODES], others[:MOST_NODES]
                cells = [values[:MOST_NODES] for values in cells[:MOST_NODES]]
            picture = one.pcolormesh(cells, cmap=colours, vmin=0, vmax=100, edgecolors="white", linewidth=style.line)
            one.invert_yaxis()
            _label(one, canvas, names, others, is_up)
            one.tick_params(axis="x", labelbottom=is_last)
            way = "up" if is_up else "down"
            title = f"{group.label}: {way}" if is_compared and is_up else way
            one.set_title(short(title, _LONGEST_TITLE), loc="left")
            _write(one, canvas, cells)
    bar = canvas.figure.colorbar(picture, ax=axes, location="bottom", aspect=30, shrink=0.8, pad=0.02)
    bar.set_label("load (% of the line)")
    bar.set_ticks([0, 25, 50, 75, 100])
    bar.outline.set_visible(False)


def _label(one: Any, canvas: Canvas, names: Sequence[str], others: Sequence[str], is_left: bool) -> None:
    texts = [short(name, _LONGEST_NAME) for name in others]
    room = canvas.style.width / 2.6 / max(1, len(others))
    is_narrow = max(map(len, texts), default=0) * canvas.style.points * 0.6 / 72 > room
    one.set_xticks([place + 0.5 for place in range(len(others))], texts, rotation=90 if is_narrow else 0)
    one.set_yticks([place + 0.5 for place in range(len(names))], [short(name, _LONGEST_NAME) for name in names])
    if not is_left:
        one.tick_params(axis="y", labelleft=False)
    one.tick_params(length=0)
    one.grid(visible=False)
    for side in ("left", "bottom"):
        one.spines[side].set_visible(False)


def _write(one: Any, canvas: Canvas, cells: Sequence[Sequence[float]]) -> None:
    """Write the load into each cell, if there is room for it."""
    if canvas.style.width / 2.6 / max(1, len(cells[0])) < canvas.style.points * 2.2 / 72:
        return
    for place, values in enumerate(cells):
        for column, value in enumerate(values):
            if not math.isnan(value):
                colour = "white" if value <= _DARK else "black"
                one.text(
                    column + 0.5, place + 0.5, f"{value:.0f}", color=colour, ha="center", va="center_baseline",
                    fontsize=canvas.style.points * 0.85,
                )  # fmt: skip
