"""Figures of flows: cumulative distributions, and slowdown by the flows' sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from testbed.errors import UsageError, nearest
from testbed.plot.canvas import Canvas
from testbed.plot.groups import Group, look_of, require_told_apart
from testbed.plot.numbers import PERCENTS, SizeClass, distribution, size_classes, slowdown_by_size
from testbed.plot.quantities import Quantity, linear, logarithmic, wants_log
from testbed.plot.style import curve, marked

VALUES = {
    "completion": ("completion_ns", Quantity("flow completion time", "ns")),
    "slowdown": ("slowdown", Quantity("slowdown")),
    "delay": ("worst_delay_ns", Quantity("longest delay of a flow's frames", "ns")),
    "goodput": ("goodput_bps", Quantity("goodput of a flow", "b/s")),
    "size": ("size_bytes", Quantity("flow size", "B")),
}
"""The values that a distribution can be of, by the words of `--of`: the column of a result's flows, and the axis."""
MOST_PANELS, MOST_ROWS = 12, 6
"""The most panels of distributions, and rows of panels of slowdowns."""
_SIZE = VALUES["size"][1]
_WHY = {
    "completion": "a flow has a completion time if it has a size or a count, and all of it arrived",
    "slowdown": "a flow has a slowdown if it is UDP or RoCE with a size or a count, and all of it arrived",
    "delay": "UDP flows have delays",
}


def cdf(canvas: Canvas, groups: Sequence[Group], of: str = "") -> None:
    """Draw the distribution of a value of flows: for each value the part of all flows that do not exceed it."""
    name = of or "completion"
    if name not in VALUES:
        raise UsageError(f"a distribution is of {', '.join(VALUES)}, and not of {name}; {nearest(name, VALUES)}")
    column, quantity = VALUES[name]
    values_of: dict[Group, list[float]] = {}
    for group in groups:
        values = [row[column] for row in group.flows() if row[column] is not None]
        if values:
            values_of[group] = values
        elif len(groups) > 1:
            canvas.note(f"{group.name}: no flow has a {quantity.name}, so it is left out")
    canvas.require(values_of, f"no flow has a {quantity.name}; {_WHY.get(name, 'flows.jsonl has the flows of a run')}")
    panels = require_told_apart(list(values_of), MOST_PANELS)
    drawn = canvas.panels(len(panels)) if len(panels) > 1 else canvas.axes(1)
    everything = [value for values in values_of.values() for value in values]
    is_log = canvas.is_log(wants_log(everything))
    least, most = min(everything), max(everything)
    looks = look_of(panels)
    for axes, (title, curves) in zip(drawn, panels.items(), strict=True):
        for group in curves:
            xs, ys = distribution(values_of[group])
            # From the least value of all curves on, and to the largest: a curve that ends earlier stays at 1.
            look = curve(looks[group.label])
            axes.step([least, xs[0], *xs, most], [0, 0, *ys, 1], where="post", label=group.label, **look)
        if is_log:
            logarithmic(axes.xaxis, axes, quantity, least, most)
        else:
            linear(axes.xaxis, axes, quantity, most)
        axes.set_ylabel("fraction of flows")
        axes.set_yticks([0, 0.25, 0.5, 0.75, 1], ["0", "0.25", "0.5", "0.75", "1"])
        axes.set_ylim(0, 1.02)
        axes.set_title(title)
    canvas.at_edges(drawn)
    canvas.legend(*drawn)


def slowdown(canvas: Canvas, groups: Sequence[Group], of: str = "") -> None:
    """Draw median, 95th and 99th percentile of the slowdown by the flows' sizes."""
    if of:
        raise UsageError("a figure of slowdowns has no --of: it has the median, the 95th and the 99th percentile")
    flows_of: dict[Group, list[tuple[int, float]]] = {}
    for group in groups:
        flows = [(row["size_bytes"], row["slowdown"]) for row in group.flows() if row["slowdown"] is not None]
        if flows:
            flows_of[group] = flows
    canvas.require(flows_of, f"no flow has a slowdown; {_WHY['slowdown']}")
    bounds = size_classes([size for flows in flows_of.values() for size, _ in flows])
    rows = require_told_apart(list(flows_of), MOST_ROWS)
    classes = {group: slowdown_by_size(flows, bounds) for group, flows in flows_of.items()}
    every = [one for some in classes.values() for one in some]
    if len(flows_of) == 1:
        (axes,) = canvas.axes(1)
        for number, percent in enumerate(PERCENTS):
            _percentile(axes, every, number, _name(percent), number)
        drawn = [axes]
    elif len(rows) == 1:
        drawn = canvas.axes(len(PERCENTS), columns=True)
    else:
        canvas.require_width(len(PERCENTS), "a row of panels has the percentiles side by side")
        drawn = [axes for row in canvas.grid(len(rows), len(PERCENTS)) for axes in row]
    looks = look_of(rows)
    for place, (title, curves) in enumerate(rows.items() if len(flows_of) > 1 else ()):
        panels = drawn[place * len(PERCENTS) : (place + 1) * len(PERCENTS)]
        for number, (axes, percent) in enumerate(zip(panels, PERCENTS, strict=True)):
            for group in curves:
                _percentile(axes, classes[group], number, group.label, looks[group.label])
            axes.set_title(f"{title}, {_name(percent)}" if title else _name(percent))
    if min(one.flows for one in every) < 100:
        canvas.note(
            f"a class of sizes has {min(one.flows for one in every)} flows at the least; of fewer than 100 the 99th "
            "percentile is the largest"
        )
    _axes_of_slowdown(canvas, drawn, every)
    canvas.legend(*drawn)


def _percentile(axes: Any, classes: Sequence[SizeClass], number: int, label: str, look: int) -> None:
    axes.plot(
        [one.typical for one in classes], [one.percentiles[number] for one in classes], label=label, **marked(look)
    )


def _axes_of_slowdown(canvas: Canvas, drawn: Sequence[Any], classes: Sequence[SizeClass]) -> None:
    typical = [one.typical for one in classes]
    highest = max(1.0, *(value for one in classes for value in one.percentiles))
    for axes in drawn:
        logarithmic(axes.xaxis, axes, _SIZE, min(typical), max(typical))
        axes.set_xlabel(_SIZE.name)
        if canvas.is_log(highest >= 30):
            logarithmic(axes.yaxis, axes, Quantity("slowdown"), 1, highest)
        else:
            linear(axes.yaxis, axes, Quantity("slowdown"), highest)
            axes.set_ylim(bottom=0)
    canvas.at_edges(drawn)


def _name(percent: int) -> str:
    return "median" if percent == 50 else f"{percent}th percentile"
