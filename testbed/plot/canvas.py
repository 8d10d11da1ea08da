"""The paper of one figure: its axes, legend, notes, small print and metadata, and how it becomes a file."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence, Sized
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import testbed
from testbed.errors import UsageError
from testbed.lab.results.folder import ReportError
from testbed.plot.style import GREY, Style, settings

ENDINGS = (".pdf", ".png", ".svg")
_DPI = 300
_LEGEND_INSIDE = 6
"""The most entries of a legend that stands among the curves."""
_LEGEND_PART = 0.25
"""The part of a figure's height that a legend above the panels may take; with a higher one the figure is higher."""
_NARROWEST = 12
"""The letters of a legend's line that are always given room."""
_LEAST_WIDTH = 2.0
"""The width in inches that a panel has at the least."""


def require_ending(path: Path) -> str:
    """Return the ending of a path, which is the format of its figure."""
    if path.suffix not in ENDINGS:
        raise ReportError(f"{path}: the ending gives the format, one of {', '.join(ENDINGS)}")
    return path.suffix


@dataclass
class Canvas:
    """A figure while it is drawn."""

    style: Style
    figure: Any
    """Matplotlib's figure."""
    log: bool | None = None
    """True or False for axes that are logarithmic or linear; None: as the values want it."""
    title: str = ""
    notes: list[str] = field(default_factory=list)
    """Sentences about what the figure leaves out."""
    sources: list[str] = field(default_factory=list)
    """A line about each result, with its digest."""
    where: str = ""

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    def require(self, found: Sized, why: str) -> None:
        if not len(found):
            raise ReportError(f"{self.where} has nothing to draw here: {why}")

    def is_log(self, wanted: bool) -> bool:
        return wanted if self.log is None else self.log

    def grid(self, rows: int, across: int, *, shares_y: bool = True) -> list[list[Any]]:
        """Return axes in rows of so many, with one scale along each axis."""
        height = self.style.height
        if not self.style.is_fixed and rows > 1:
            height *= 0.45 + 0.6 * rows
        self.figure.set_size_inches(self.style.width, height)
        made = self.figure.subplots(rows, across, squeeze=False, sharex=True, sharey=shares_y)
        return [list(row) for row in made]

    def at_edges(self, panels: Sequence[Any]) -> None:
        """Leave the numbers and names of axes to the panels at the left and without another one below them."""
        across = sum(axes.get_subplotspec().is_first_row() for axes in panels)
        for place, axes in enumerate(panels):
            name = axes.get_xlabel()
            axes.label_outer()
            if place + across >= len(panels):
                axes.tick_params(labelbottom=True)
                axes.set_xlabel(name)

    def panels(self, count: int) -> list[Any]:
        """Return axes for so many panels with one scale along each axis, as many side by side as have room."""
        rows = -(-count // max(1, int(self.style.width // _LEAST_WIDTH)))
        across = -(-count // rows)
        grid = self.grid(rows, across)
        found = [axes for row in grid for axes in row]
        for axes in found[count:]:
            axes.remove()
        return found[:count]

    def require_width(self, across: int, why: str) -> None:
        """Refuse a figure that has no room for so many panels side by side."""
        if self.style.width / across < _LEAST_WIDTH:
            raise UsageError(f"{why}, which takes {_LEAST_WIDTH * across * 25.4:.0f} mm; --size page has them")

    def axes(self, count: int, *, columns: bool = False, heights: Sequence[float] | None = None) -> list[Any]:
        """Return axes for so many panels, side by side where there is room for it, else one above the other."""
        side_by_side = columns and self.style.width / count >= _LEAST_WIDTH
        rows, across = (1, count) if side_by_side else (count, 1)
        height = self.style.height
        if heights is not None:
            height = max(height, sum(heights)) if not self.style.is_fixed else height
        elif not self.style.is_fixed and rows > 1:
            height *= 0.45 + 0.6 * rows
        self.figure.set_size_inches(self.style.width, height)
        share = {"sharex": True} if rows > 1 else {"sharey": True}
        ratios = {"height_ratios": list(heights)} if heights is not None and rows > 1 else {}
        return list(self.figure.subplots(rows, across, squeeze=False, **share, **ratios).flat)

    def legend(self, *panels: Any, outside: bool = False) -> None:
        """Put a legend of all curves among them, or above the panels if it would cover them; one curve has none."""
        entries: dict[str, Any] = {}
        for axes in panels:
            for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
                entries.setdefault(label, handle)
        if len(entries) < 2:
            return
        letter = self.style.points * 0.9 * 0.5 / 72
        room = int(self.style.width / letter - 8)  # the letters of a line of the legend, about
        longest = max(map(len, entries))
        if len(entries) <= _LEGEND_INSIDE and not outside and longest <= room * 0.5 and len(self.figure.axes) == 1:
            panels[0].legend(loc="best")
            return
        columns, width = max(1, min(len(entries), room // (longest + 7))), max(20, room)
        while not self._has_legend(entries, columns, width) and (columns > 1 or width > _NARROWEST):
            columns, width = (columns - 1, width) if columns > 1 else (1, int(width * 0.9))

    def _has_legend(self, entries: Mapping[str, Any], columns: int, width: int) -> bool:
        """Put a legend above the panels, if the letters of its font leave it within the figure's edges."""
        lines = [textwrap.fill(label, width) for label in entries]
        legend = self.figure.legend(list(entries.values()), lines, loc="outside upper center", ncols=columns)
        if legend.get_window_extent().width <= self.figure.bbox.width:
            self._make_room(legend.get_window_extent().height)
            return True
        legend.remove()
        return False

    def _make_room(self, pixels: float) -> None:
        """Make the figure higher if a legend would take the panels' place."""
        more = pixels / self.figure.dpi - _LEGEND_PART * self.style.height
        if not self.style.is_fixed and more > 0:
            width, height = self.figure.get_size_inches()
            self.figure.set_size_inches(width, height + more)

    def finish(self, visible_sources: bool) -> None:
        """Add the title, and the small print with the digests if it is to be seen."""
        if self.title:
            self.figure.suptitle(self.title, fontsize=self.style.points * 1.1)
        if visible_sources:
            text = "\n".join(
                self.sources[:4] + ([f"and {len(self.sources) - 4} more"] if len(self.sources) > 4 else [])
            )
            self.figure.supxlabel(text, fontsize=max(4.0, self.style.points * 0.6), color=GREY, x=0.01, ha="left")

    def write(self, out: BinaryIO, ending: str) -> None:
        """Write the figure; the same result gives the same octets with the same version of matplotlib."""
        about = "; ".join(self.sources)
        creator = f"xoff {testbed.__version__}"
        metadata: dict[str, dict[str, Any]] = {
            ".pdf": {"Title": self.title or self.where, "Subject": about, "Creator": creator, "CreationDate": None},
            ".svg": {"Title": self.title or self.where, "Description": about, "Creator": creator, "Date": None},
            ".png": {"Title": self.title or self.where, "Description": about, "Software": creator},
        }
        with drawing(self.style):
            self.figure.savefig(out, format=ending.removeprefix("."), metadata=metadata[ending], dpi=_DPI)


@contextmanager
def drawing(style: Style) -> Iterator[None]:
    """Give matplotlib its own defaults and a style while the block runs, whatever its settings on this machine are."""
    try:
        import matplotlib
    except ImportError:
        raise ReportError("figures take matplotlib: pip install 'xoff[plot]', or pip install matplotlib") from None
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(settings(style))
        yield
