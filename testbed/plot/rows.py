"""Figures with a row for each port or claim: the load of links as a heat map, pauses, claims beside their bounds.

The mean load of each link of a fabric as one picture: a matrix for each pair of tiers, up and down side by side.

A row is a node of the lower tier, a column one of the upper tier, and their cell the link between them. So 64 links are
64 cells: those that carry too much or nothing are seen at a glance. Several cables between two nodes share a cell.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from testbed.errors import UsageError
from testbed.plot.canvas import Canvas
from testbed.plot.groups import Group, Steps, natural, short
from testbed.plot.numbers import binned
from testbed.plot.over_time import RECORD, TIME, end_of, fewest_panels, no_of
from testbed.plot.quantities import linear
from testbed.plot.style import COLOURS, GREY, HEAT
from testbed.report.pages import link_loads
from testbed.report.pages.link_loads import ALL, FABRIC, HOSTS, MOST_NODES, Matrix
from testbed.report.timeline.series import LOAD
from testbed.report.timeline.tracks import ASSERTED, PAUSED, STORM, TUNNEL

MOST_ROWS = 40
LONGEST_ROW = 36
"""The letters of a row's name."""
COLUMNS = 240
"""The parts of the time that a heat map has."""
_PAUSES = {
    PAUSED: ("paused by its neighbour", COLOURS[1]),
    ASSERTED: ("pauses its neighbour", COLOURS[5]),
    STORM: ("storm", "#000000"),
    TUNNEL: ("pause sent into a tunnel", COLOURS[2]),
}


def heat(canvas: Canvas, groups: Sequence[Group], of: str = "") -> None:
    """Draw the load of each direction of each cable over time, in percent of its line."""
    no_of(of, "links")
    loads_of = {group: loads for group in groups if (loads := _loads(group))}
    canvas.require(loads_of, f"no series of links; {RECORD}")
    loads_of = fewest_panels(canvas, loads_of)
    end = max(end_of(group, loads) for group, loads in loads_of.items())
    start = next(iter(loads_of)).choice.begin_ns
    kept = {}
    for group, loads in loads_of.items():
        names = sorted(loads, key=lambda name: -sum(binned(*loads[name], start, end, COLUMNS)))[:MOST_ROWS]
        if len(loads) > len(names):
            canvas.note(
                f"{group.label or group.folder.name}: {MOST_ROWS} of {len(loads)} links, those with most traffic"
            )
        kept[group] = sorted(names, key=natural)
    row = canvas.style.points * 1.25 / 72
    drawn = canvas.axes(len(kept), heights=[0.6 + row * len(names) for names in kept.values()])
    picture = None
    for axes, (group, names) in zip(drawn, kept.items(), strict=True):
        cells = [binned(*loads_of[group][name], start, end, COLUMNS) for name in names]
        picture = axes.imshow(
            cells, cmap=HEAT, vmin=0, vmax=100, aspect="auto", interpolation="nearest",
            extent=(start, end, len(names) - 0.5, -0.5),
        )  # fmt: skip
        axes.set_yticks(range(len(names)), names)
        axes.grid(visible=False)
        axes.tick_params(axis="y", length=0)
        if len(kept) > 1:
            axes.set_title(group.label, loc="left")
        axes.label_outer()
    linear(drawn[-1].xaxis, drawn[-1], TIME, end)
    bar = canvas.figure.colorbar(picture, ax=drawn, pad=0.02, aspect=8 * float(canvas.figure.get_size_inches()[1]))
    bar.set_label("load (% of the line)")
    bar.set_ticks([0, 25, 50, 75, 100])
    bar.outline.set_visible(False)


def _loads(group: Group) -> dict[str, Steps]:
    """Return the load of each direction in percent, by the nodes at its ends."""
    rates, ends = dict[str, float](), dict[str, str]()
    for cable in group.network.cables if group.network else ():
        rate = cable.get("hardware_rate_bps")
        for place, port in enumerate(cable["ends"]):
            ends[port] = f"{cable['nodes'][place]} → {cable['nodes'][1 - place]}"
            if isinstance(rate, (int, float)) and rate > 0:
                rates[port] = rate / (group.folder.scale.k if group.choice.lab_time else 1)
    names = list(ends.values())
    return {
        short(ends[port] if names.count(ends[port]) == 1 else f"{ends[port]} ({port})", LONGEST_ROW): (
            times, [100 * value / rates[port] for value in values],
        )
        for port, (times, values) in group.steps(LOAD).items()
        if port in rates
    }  # fmt: skip


def pauses(canvas: Canvas, groups: Sequence[Group], of: str = "") -> None:
    """Draw when each port was paused, and when it paused its neighbour, by port and priority."""
    no_of(of, "pauses")
    rows_of = {group: rows for group in groups if (rows := group.intervals(*_PAUSES))}
    canvas.require(rows_of, "no port was paused")
    rows_of = fewest_panels(canvas, rows_of)
    row = canvas.style.points * 1.25 / 72
    for group, rows in rows_of.items():
        if len(rows) > MOST_ROWS:
            canvas.note(f"{group.label or group.folder.name}: {MOST_ROWS} of {len(rows)} rows; --only chooses ports")
    kept = {group: dict(list(rows.items())[:MOST_ROWS]) for group, rows in rows_of.items()}
    drawn = canvas.axes(len(kept), heights=[0.6 + row * len(rows) for rows in kept.values()])
    used = dict[str, None]()
    end = max(until for rows in kept.values() for spans in rows.values() for _, _, until in spans)
    start = next(iter(kept)).choice.begin_ns
    for axes, (group, rows) in zip(drawn, kept.items(), strict=True):
        for place, spans in enumerate(rows.values()):
            for kind in dict.fromkeys(panel for panel, _, _ in spans):
                bars = [(since, until - since) for panel, since, until in spans if panel == kind]
                axes.broken_barh(bars, (place - 0.4, 0.8), facecolors=_PAUSES[kind][1], linewidth=0)
                used[kind] = None
        axes.set_yticks(range(len(rows)), [short(name.replace(" priority ", " p"), LONGEST_ROW) for name in rows])
        axes.set_ylim(len(rows) - 0.4, -0.6)
        axes.set_xlim(start, end)
        axes.tick_params(axis="y", length=0)
        axes.grid(visible=False, axis="y")
        if len(kept) > 1:
            axes.set_title(group.label, loc="left")
        axes.label_outer()
    linear(drawn[-1].xaxis, drawn[-1], TIME, end)
    for kind in used:
        drawn[0].barh([0], [0], color=_PAUSES[kind][1], label=_PAUSES[kind][0])
    if len(used) > 1:
        canvas.legend(drawn[0], outside=True)
    else:
        drawn[0].set_title(" ".join(filter(None, [drawn[0].get_title("left"), f"({_PAUSES[next(iter(used))][0]})"])),
                           loc="left")  # fmt: skip


def claims(canvas: Canvas, groups: Sequence[Group], of: str = "") -> None:
    """Draw the measured value and the bounds of each claim about a number, as parts of the measured value."""
    no_of(of, "claims")
    folders = {group.folder.path: group.folder for group in groups}
    if len(folders) > 1:
        raise UsageError("a figure of claims is of one result")
    (folder,) = folders.values()
    drawable = [one for one in folder.claims if _is_number(one.measured) and one.measured]
    canvas.require(drawable, "no claim is about a number above zero")
    (axes,) = canvas.axes(1, heights=[0.7 + canvas.style.points * 1.5 / 72 * len(drawable)])
    for place, claim in enumerate(drawable):
        exact = claim.expected.get("equals")
        for bound in (claim.expected.get(key, exact) for key in ("at_least", "at_most")):
            if _is_number(bound):
                axes.plot(bound / claim.measured, place, "|", color=GREY, markersize=canvas.style.points)
        axes.plot(1, place, "o" if claim.passed else "X", color=COLOURS[2] if claim.passed else COLOURS[1])
    axes.set_yticks(range(len(drawable)), [short(claim.name, LONGEST_ROW) for claim in drawable])
    axes.set_ylim(len(drawable) - 0.4, -0.6)
    axes.set_xlabel("bounds, as a part of what was measured")


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 2**63


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
