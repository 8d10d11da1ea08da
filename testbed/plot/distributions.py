"""Figures of flows: cumulative distributions, and slowdown by the flows' sizes."""

from __future__ import annotations

from collections.abc import Sequence

from testbed.errors import UsageError, nearest
from testbed.plot.canvas import Canvas
from testbed.plot.groups import Group
from testbed.plot.numbers import PERCENTS, distribution, size_classes, slowdown_by_size
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
    found = {}
    for group in groups:
        values = [row[column] for row in group.flows() if row[column] is not None]
        if values:
            found[group.label] = values
        elif len(groups) > 1:
            canvas.note(f"{group.label}: no flow has a {quantity.name}, so it is left out")
    canvas.require(found, f"no flow has a {quantity.name}; {_WHY.get(name, 'flows.jsonl has the flows of a run')}")
    (axes,) = canvas.axes(1)
    everything = [value for values in found.values() for value in values]
    is_log = canvas.is_log(wants_log(everything))
    least, most = min(everything), max(everything)
    for place, (label, values) in enumerate(found.items()):
        xs, ys = distribution(values)
        # From the least value of all curves on, and to the largest: a curve that ends earlier stays at 1.
        axes.step([least, xs[0], *xs, most], [0, 0, *ys, 1], where="post", label=label, **curve(place))
    if is_log:
        logarithmic(axes.xaxis, axes, quantity, least, most)
    else:
        linear(axes.xaxis, axes, quantity, most)
    axes.set_ylabel("fraction of flows")
    axes.set_yticks([0, 0.25, 0.5, 0.75, 1], ["0", "0.25", "0.5", "0.75", "1"])
    axes.set_ylim(0, 1.02)
    canvas.legend(axes, len(found))


def slowdown(canvas: Canvas, groups: Sequence[Group], of: str = "") -> None:
    """Draw median, 95th and 99th percentile of the slowdown by the flows' sizes."""
    if of:
        raise UsageError("a figure of slowdowns has no --of: it has the median, the 95th and the 99th percentile")
    found = {}
    for group in groups:
        flows = [(row["size_bytes"], row["slowdown"]) for row in group.flows() if row["slowdown"] is not None]
        if flows:
            found[group.label] = flows
    canvas.require(found, f"no flow has a slowdown; {_WHY['slowdown']}")
    bounds = size_classes([size for flows in found.values() for size, _ in flows])
    many = len(found) > 1
    panels = canvas.axes(len(PERCENTS) if many else 1, columns=True)
    highest, typical, fewest = 1.0, [], len(found[next(iter(found))])
    for place, (label, flows) in enumerate(found.items()):
        classes = slowdown_by_size(flows, bounds)
        typical += [one.typical for one in classes]
        fewest = min(fewest, *(one.flows for one in classes))
        for number, percent in enumerate(PERCENTS):
            values = [one.percentiles[number] for one in classes]
            highest = max(highest, *values)
            axes = panels[number] if many else panels[0]
            look = marked(place if many else number)
            axes.plot([one.typical for one in classes], values, label=label if many else _name(percent), **look)
    if fewest < 100:
        canvas.note(
            f"a class of sizes has {fewest} flows at the least; of fewer than 100 the 99th percentile is the largest"
        )
    for number, axes in enumerate(panels):
        logarithmic(axes.xaxis, axes, _SIZE, min(typical), max(typical))
        axes.set_xlabel(_SIZE.name)
        if many:
            axes.set_title(_name(PERCENTS[number]))
        if canvas.is_log(highest >= 30):
            logarithmic(axes.yaxis, axes, Quantity("slowdown"), 1, highest)
        else:
            linear(axes.yaxis, axes, Quantity("slowdown"), highest)
            axes.set_ylim(bottom=0)
        if number:
            axes.set_ylabel("")
    canvas.legend(panels[0], len(found) if many else len(PERCENTS))


def _name(percent: int) -> str:
    return "median" if percent == 50 else f"{percent}th percentile"
