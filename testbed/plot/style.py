"""The look of figures: sizes of papers and slides, fonts, and lines that are told apart without colour.

The colours are those of Okabe and Ito, which people with any colour vision tell apart; each has a dash pattern and a
marker of its own too, so that a print in grey can be read. Nothing depends on settings of this machine's matplotlib.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from testbed.errors import UsageError, listed, nearest

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES: tuple[Any, ...] = (
    "-", (0, (5, 1.5)), (0, (1.2, 1.2)), (0, (6, 1.5, 1.2, 1.5)), (0, (3, 1, 1, 1, 1, 1)), (0, (8, 2)), (0, (2, 2)),
)  # fmt: skip
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
HEAT = "cividis"
"""The colours of heat maps: from dark to light, the same in grey."""
GREY = "#57606a"
SHIPPED_FONTS = {
    "sans": "DejaVu Sans", "serif": "DejaVu Serif", "mono": "DejaVu Sans Mono", "stix": "STIXGeneral",
}  # fmt: skip
"""The fonts that come with matplotlib, which are the same on every machine, by the words of `--font`."""
_MM = 25.4
_WIDTHS = re.compile(r"(\d{2,4})(?:mm)?x(\d{2,4})(?:mm)?")
_INSTALLED = "any font that is installed here can be named too, and a figure with it is the same where that is"


@dataclass(frozen=True)
class Style:
    """The size of a figure in inches, its font, and the size of its text in points."""

    width: float
    height: float
    font: str = "DejaVu Sans"
    points: float = 8.0
    is_fixed: bool = False
    """True if the height was asked for; else a figure with many rows may be higher."""

    @property
    def line(self) -> float:
        """The width of lines in points."""
        return float(1.2 * (self.points / 8) ** 0.75)


SIZES = {
    "column": Style(3.33, 2.2),
    "page": Style(7.0, 2.9),
    "slide": Style(10.0, 5.6, points=18.0),
}
"""A column and a text width of a paper with two columns, and a slide of 16:9."""


def style(size: str = "column", font: str = "sans", points: float | None = None) -> Style:
    """Return a style by the words of the options; UsageError if there is no such size or font."""
    if size in SIZES:
        known = SIZES[size]
    elif match := _WIDTHS.fullmatch(size):
        width, height = (int(one) / _MM for one in match.groups())
        if not (1 <= width <= 40 and 1 <= height <= 40):
            raise UsageError(f"size {size}: 26mm to 1016mm each are possible")
        known = Style(width, height, is_fixed=True)
    else:
        raise UsageError(f"there is no size {size}; there are {listed(SIZES)}, or WIDTHxHEIGHT in mm, as in 85x55")
    if points is not None and not 4 <= points <= 60:
        raise UsageError(f"a font size of {points:g} points; 4 to 60 are possible")
    return Style(known.width, known.height, _font(font), points or known.points, known.is_fixed)


def _font(name: str) -> str:
    if name in SHIPPED_FONTS:
        return SHIPPED_FONTS[name]
    from matplotlib import font_manager

    installed = {entry.name for entry in font_manager.fontManager.ttflist}
    if name in installed:
        return name
    hint = nearest(name, sorted(installed)) if len(name) > 2 else f"there are {listed(SHIPPED_FONTS)}"
    raise UsageError(f"there is no font {name}; {hint} ({listed(SHIPPED_FONTS)} come with matplotlib; {_INSTALLED})")


def settings(style: Style) -> dict[str, Any]:
    """Return the settings of matplotlib, all others of which are its defaults."""
    small = style.points * 0.9
    return {
        "font.family": style.font, "font.size": style.points, "axes.labelsize": style.points,
        "axes.titlesize": style.points, "xtick.labelsize": small, "ytick.labelsize": small, "legend.fontsize": small,
        "lines.linewidth": style.line, "lines.markersize": style.points * 0.5, "axes.linewidth": style.line * 0.5,
        "xtick.major.width": style.line * 0.5, "ytick.major.width": style.line * 0.5,
        "xtick.minor.width": style.line * 0.35, "ytick.minor.width": style.line * 0.35,
        "xtick.major.size": style.points * 0.35, "ytick.major.size": style.points * 0.35,
        "xtick.minor.size": style.points * 0.2, "ytick.minor.size": style.points * 0.2,
        "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True, "grid.color": "#d8dce0",
        "grid.linewidth": style.line * 0.4, "axes.axisbelow": True, "legend.frameon": False,
        "legend.handlelength": 2.4, "axes.unicode_minus": False,
        # The same file from the same result: no random names, text as text of a font that is embedded.
        "svg.hashsalt": "xoff", "svg.fonttype": "path", "pdf.fonttype": 42, "pdf.compression": 6,
        # Names of results are text: $ begins no formula.
        "text.parse_math": False,
    }  # fmt: skip


def curve(place: int) -> dict[str, Any]:
    """Return the colour and dashes of one of several curves."""
    return {"color": COLOURS[place % len(COLOURS)], "linestyle": DASHES[place % len(DASHES)]}


def marked(place: int) -> dict[str, Any]:
    """Return the colour, dashes and marker of one of several curves through few points."""
    return {**curve(place), "marker": MARKERS[place % len(MARKERS)]}
