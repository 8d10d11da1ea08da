"""Curves over time: rates, queues, buffers and drops.

Time is that of the modelled hardware since the network's first flow began. Each network has a panel, and all panels
have one axis of time; where each has one curve, all are in one panel.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from testbed.errors import UsageError, nearest
from testbed.plot.canvas import Canvas
from testbed.plot.groups import Group, Steps, natural, short
from testbed.plot.numbers import binned, summed
from testbed.plot.quantities import Quantity, linear
from testbed.plot.style import COLOURS, curve, marked
from testbed.report.timeline.series import LOAD, PREFIX
from testbed.report.timeline.tracks import DROPS, OCCUPANCY, Shape

TIME = Quantity("time", "ns")
MOST_CURVES, MOST_PANELS = 4, 6
PARTS = 40
"""The parts of the time for each of which a rate is shown."""
_RATES, _QUEUES = f"{PREFIX}rates of flows", f"{PREFIX}queue: queued"
RECORD = "xoff run NAME --series 10us records it"


def rate(canvas: Canvas, groups: Sequence[Group], of: str = "") -> None:
    """Draw the rates at which flows arrived, or the sum of them, or the loads of links."""
    kinds = ("flows", "total", "links")
    if of and of not in kinds:
        raise UsageError(f"rates are of {', '.join(kinds)}, and not of {of}; {nearest(of, kinds)}")
    curves = {group: group.steps(LOAD if of == "links" else _RATES) for group in groups}
    if of == "total" or (not of and any(len(steps) > 2 * MOST_CURVES for steps in curves.values())):
        curves = {group: {"all flows": summed(list(steps.values()))} for group, steps in curves.items() if steps}
    curves = {group: _means(canvas, group, steps) for group, steps in curves.items()}
    quantity = Quantity("load of the link" if of == "links" else "rate", "b/s")
    _curves(canvas, curves, quantity, f"no series of rates; {RECORD}")


def _means(canvas: Canvas, group: Group, steps: dict[str, Steps]) -> dict[str, Steps]:
    """Return the means over equal parts of the time, as receivers count in bursts."""
    if not steps:
        return {}
    start = group.choice.begin_ns
    end = end_of(group, steps)
    width = (end - start) / PARTS
    canvas.note(f"{group.label or group.folder.name}: rates are means over {TIME.written(width)}")
    times = [start + place * width for place in range(PARTS + 1)]
    return {name: (times, [*binned(*one, start, end, PARTS), 0.0]) for name, one in steps.items()}


def queue(canvas: Canvas, groups: Sequence[Group], of: str = "") -> None:
    """Draw how much waits in the queues by which frames leave."""
    no_of(of, "queues")
    curves = {group: group.steps(_QUEUES) for group in groups}
    _curves(canvas, curves, Quantity("queue", "B"), f"no series of queues; {RECORD}")


def buffer(canvas: Canvas, groups: Sequence[Group], of: str = "") -> None:
    """Draw the shared cells in use by ingress port and priority: from a time series, or at crossings of thresholds."""
    no_of(of, "buffers")
    curves = {group: group.steps(OCCUPANCY) for group in groups}
    shape = Shape.STEPS
    if not any(curves.values()):
        shape = Shape.SAMPLES
        curves = {group: group.steps(OCCUPANCY, of_events=True) for group in groups}
        canvas.note(f"without a time series the buffer is known at crossings of thresholds only; {RECORD}")
    curves = {
        group: {name.removesuffix(", shared"): one for name, one in steps.items()} for group, steps in curves.items()
    }
    _curves(
        canvas, curves, Quantity("shared buffer", "cells"), f"no threshold was crossed, and no series; {RECORD}", shape
    )


def drops(canvas: Canvas, groups: Sequence[Group], of: str = "") -> None:
    """Draw the frames that buffers have dropped so far."""
    no_of(of, "drops")
    found = {group: _without_end(group.steps(DROPS, of_events=True)) for group in groups}
    _curves(canvas, found, Quantity("frames dropped"), "no buffer dropped a frame")


def _without_end(steps: dict[str, Steps]) -> dict[str, Steps]:
    """Return counts without the zero at the end of their network."""
    return {
        name: (times[:-1], values[:-1]) if not values[-1] and len(values) > 1 else (times, values)
        for name, (times, values) in steps.items()
    }


def no_of(of: str, what: str) -> None:
    if of:
        raise UsageError(f"a figure of {what} has no --of; --only chooses ports, as in --only 's1-*'")


def _curves(
    canvas: Canvas, found: dict[Group, dict[str, Steps]], quantity: Quantity, why: str, shape: Shape = Shape.STEPS
) -> None:
    """Draw curves over time: all in one panel where each network has one, else a panel for each network."""
    kept = {group: _largest(canvas, group, steps, quantity) for group, steps in found.items() if steps}
    canvas.require(kept, why)
    kept = fewest_panels(canvas, kept)
    if all(len(steps) == 1 for steps in kept.values()) and len(kept) <= MOST_CURVES:
        names = {next(iter(steps)) for steps in kept.values()}
        curves = {
            (group.label if len(names) == 1 else short(f"{group.label}: {name}")): one
            for group, steps in kept.items()
            for name, one in steps.items()
        }
        panels = {"": curves}
    else:
        panels = {group.label: steps for group, steps in kept.items()}
    end = max(end_of(group, steps) for group, steps in kept.items())
    start = next(iter(kept)).choice.begin_ns
    most = max(max(values) for steps in kept.values() for _, values in steps.values())
    every = list(dict.fromkeys(name for curves in panels.values() for name in curves))
    drawn = canvas.axes(len(panels))
    for axes, (title, curves) in zip(drawn, panels.items(), strict=True):
        looks = list(curves) if len(every) > len(COLOURS) else every
        for name, (times, values) in curves.items():
            if shape is Shape.STEPS:
                lead = ([start], [0.0]) if times[0] > start else ([], [])
                look = curve(looks.index(name)) | {"linewidth": canvas.style.line * 0.8}
                axes.step([*lead[0], *times, end], [*lead[1], *values, values[-1]], where="post", label=name, **look)
            else:
                look = marked(looks.index(name)) | {"linestyle": "", "markersize": canvas.style.points * 0.3}
                axes.plot(times, values, label=name, **look)
        linear(axes.yaxis, axes, quantity, most)
        axes.set_ylim(0, most * 1.05)
        axes.set_xlim(start, end)
        if title and len(panels) > 1:
            axes.set_title(title, loc="left")
        axes.label_outer()
    linear(drawn[-1].xaxis, drawn[-1], TIME, end)
    _one_label(canvas, drawn)
    if len(every) <= len(COLOURS):
        canvas.legend(*drawn, outside=len(panels) > 1 or len(every) > 3)
        return
    for axes in drawn:  # each has curves of its own, so looks come again
        axes.legend(loc="best")


def _one_label(canvas: Canvas, drawn: Sequence[Any]) -> None:
    """Have one label for the values of several panels."""
    if len(drawn) > 1:
        label = drawn[0].get_ylabel()
        for axes in drawn:
            axes.set_ylabel("")
        canvas.figure.supylabel(label, fontsize=canvas.style.points)


def end_of(group: Group, steps: dict[str, Steps]) -> float:
    """Return the end of what is drawn of a network: as it was chosen, or when the last value above zero ends."""
    if group.choice.end_ns is not None:
        return group.until_ns
    found = 0.0
    for times, values in steps.values():
        last = max((place for place, value in enumerate(values) if value), default=-1)
        found = max(found, times[min(last + 1, len(times) - 1)])
    return found


def _largest(canvas: Canvas, group: Group, steps: dict[str, Steps], quantity: Quantity) -> dict[str, Steps]:
    if len(steps) <= MOST_CURVES:
        return steps
    names = sorted(steps, key=lambda name: -max(steps[name][1]))[:MOST_CURVES]
    canvas.note(
        f"{group.label or group.folder.name}: {MOST_CURVES} of {len(steps)} curves, those with the largest "
        f"{quantity.name}; --only chooses others"
    )
    return {name: steps[name] for name in sorted(names, key=natural)}


def fewest_panels(canvas: Canvas, found: dict[Group, Any]) -> dict[Group, Any]:
    if len(found) > MOST_PANELS:
        canvas.note(f"{MOST_PANELS} of {len(found)} networks; --case chooses others")
    return dict(list(found.items())[:MOST_PANELS])
