"""The figures by name, and one of them as an object: `xoff.plot("cdf", result).save("cdf.pdf")`."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from testbed.errors import UsageError, nearest
from testbed.lab.results.foreign import ForeignFolder
from testbed.plot import distributions, over_time, rows, sweeps
from testbed.plot.canvas import Canvas, drawing, require_ending
from testbed.plot.groups import Choice, Group, groups_of, provenance
from testbed.plot.style import Style, style
from testbed.units import Duration


class Kind(NamedTuple):
    """A kind of figure."""

    draw: Callable[[Canvas, Sequence[Group], str], None] | None
    """None for one of sweeps."""
    summary: str
    of: str = ""
    """The words that `--of` chooses among."""


KINDS: dict[str, Kind] = {
    "cdf": Kind(distributions.cdf, "distribution of a value of flows", ", ".join(distributions.VALUES)),
    "slowdown": Kind(distributions.slowdown, "slowdown by flow size: median, 95th and 99th percentile"),
    "rate": Kind(over_time.rate, "rates over time", "flows, total, links"),
    "queue": Kind(over_time.queue, "queues over time"),
    "buffer": Kind(over_time.buffer, "shared buffer over time"),
    "heat": Kind(rows.heat, "load of each link over time, as a heat map"),
    "links": Kind(rows.links, "mean load of each link of a fabric, a cell for each", "fabric, hosts, all"),
    "pauses": Kind(rows.pauses, "pauses over time, by port and priority"),
    "drops": Kind(over_time.drops, "frames dropped over time"),
    "claims": Kind(rows.claims, "claims beside their bounds"),
    "sweep": Kind(None, "a sweep's figures over a parameter, with 95 % intervals", "a figure's name, or a pattern"),
}
"""The figures by the names that `xoff plot` takes."""


@dataclass(frozen=True)
class Plot:
    """A figure that has been drawn."""

    figure: Any
    """Matplotlib's figure, which can be changed before it is saved."""
    canvas: Canvas
    damage: tuple[str, ...]
    """Sentences about lines of results that could not be read."""

    @property
    def notes(self) -> list[str]:
        """Sentences about what the figure leaves out."""
        return self.canvas.notes

    @property
    def sources(self) -> list[str]:
        """A line about each result, with its digest; the file's metadata have them too."""
        return self.canvas.sources

    def save(self, path: str | PathLike[str]) -> Path:
        """Write the figure to a .pdf, .svg or .png, and return the path."""
        path = Path(path)
        ending = require_ending(path)
        with ForeignFolder(path.resolve().parent).create(path.name) as out:
            self.write(out, ending)
        return path

    def write(self, out: BinaryIO, ending: str) -> None:
        """Write the figure in the format of an ending."""
        self.canvas.write(out, ending)

    def _repr_png_(self) -> bytes:
        """Return the figure as a notebook shows it."""
        out = io.BytesIO()
        self.write(out, ".png")
        return out.getvalue()


def plot(
    kind: str,
    *results: Any,
    of: str = "",
    over: str = "",
    case: str = "",
    only: str = "",
    begin: Duration | str | None = None,
    end: Duration | str | None = None,
    pool_seeds: bool = False,
    panels: str = "",
    labels: Sequence[str] = (),
    size: str = "column",
    font: str = "sans",
    points: float | None = None,
    log: bool | None = None,
    title: str = "",
    show_digest: bool = False,
    lab_time: bool = False,
) -> Plot:
    """Draw a figure of results: of result folders or `Result` objects, or of sweeps.

    `kind` and `of` are those of `xoff plot`, and the other parameters its options; docs/plots.md describes them.
    Several results are compared in one figure, with a legend of what differs between them.
    """
    if kind not in KINDS:
        raise UsageError(f"there is no figure {kind}; {nearest(kind, KINDS)}")
    if not results:
        raise UsageError(f"a figure {kind} is of at least one result")
    paths = [_path(one) for one in results]
    chosen = style(size, font, points)
    limits = [None if one is None else Duration(one) for one in (begin, end)]
    if limits[1] is not None and limits[1] <= (limits[0] or Duration("0s")):
        raise UsageError(f"the figure would end at {limits[1]}, which is not after its begin at {limits[0] or '0s'}")
    choice = Choice(
        case, only, float(limits[0].ps) / 1000 if limits[0] else 0.0, float(limits[1].ps) / 1000 if limits[1] else None,
        pool_seeds, lab_time, panels, tuple(labels),
    )  # fmt: skip
    return _drawn(kind, paths, choice, chosen, of=of, over=over, log=log, title=title, show_digest=show_digest)


def _drawn(
    kind: str, paths: Sequence[Path], choice: Choice, chosen: Style, *, of: str, over: str, log: bool | None,
    title: str, show_digest: bool,
) -> Plot:  # fmt: skip
    of_sweeps = [sweeps.is_sweep(path) for path in paths]
    draw = KINDS[kind].draw
    if draw is None and not all(of_sweeps):
        raise UsageError(f"{paths[of_sweeps.index(False)]} is no sweep; `xoff sweep` makes one, with {sweeps.SUMMARY}")
    if draw is not None and any(of_sweeps):
        raise UsageError(
            f"{paths[of_sweeps.index(True)]} is a sweep; `xoff plot sweep` draws it, and {kind} is of a run"
        )
    if choice.panels and draw not in (None, distributions.cdf, distributions.slowdown):
        raise UsageError(f"--panels is for cdf, slowdown and sweep; {kind} has a panel for each network")
    if choice.labels and draw is None:
        raise UsageError("--label is for results; the curves of a sweep have the names of its parameters")
    if over and draw is not None:
        raise UsageError(f"--over chooses the parameter of a sweep's figure, and {kind} has none")
    damage: tuple[str, ...] = ()
    with drawing(chosen):
        from matplotlib.figure import Figure

        figure = Figure(figsize=(chosen.width, chosen.height), layout="constrained")
        canvas = Canvas(chosen, figure, log, title, where=", ".join(path.name or str(path) for path in paths[:3]))
        if draw is None:
            sweeps.sweep(canvas, paths, of, over, choice.panels)
        else:
            groups = groups_of(paths, choice)
            canvas.sources += provenance(groups)
            draw(canvas, groups, of)
            damage = tuple(dict.fromkeys(str(one.folder.damage) for one in groups if one.folder.damage))
        canvas.finish(show_digest)
    return Plot(figure, canvas, damage)


def _path(result: Any) -> Path:
    """Return the folder of a result: a path, a `Result`, or a `Sweep`."""
    folder = getattr(result, "folder", result)
    if not isinstance(folder, (str, PathLike)):
        raise UsageError(f"{result!r} has no folder, so there is nothing to draw; give a result or its folder")
    return Path(folder)
