"""The paper of one figure: its axes, legend, notes, small print and metadata, and how it becomes a file."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence, Sized
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import testbed
from testbed.lab.results.folder import ReportError
from testbed.plot.style import GREY, Style, settings

ENDINGS = (".pdf", ".png", ".svg")
_DPI = 300
_LEGEND_INSIDE = 6
"""The most entries of a legend that stands among the curves."""


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

    def axes(self, count: int, *, columns: bool = False, heights: Sequence[float] | None = None) -> list[Any]:
        """Return axes for so many panels, side by side where there is room for it, else one above the other."""
        side_by_side = columns and self.style.width / count >= 2
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

    def legend(self, axes: Any, entries: int, *, outside: bool = False) -> None:
        """Put a legend among the curves, or above the panels if it would cover them; one curve has none."""
        if entries < 2:
            return
        handles, labels = axes.get_legend_handles_labels()
        letter = self.style.points * 0.9 * 0.5 / 72
        room = int(self.style.width / letter - 8)  # the letters of a line of the legend
        longest = max(map(len, labels))
        is_short = longest <= room * 0.5
        if entries <= _LEGEND_INSIDE and not outside and is_short and len(self.figure.axes) == 1:
            axes.legend(loc="best")
            return
        columns = max(1, min(entries, room // (longest + 7)))
        lines = [textwrap.fill(label, max(20, room)) for label in labels]
        self.figure.legend(handles, lines, loc="outside upper center", ncols=columns)

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
