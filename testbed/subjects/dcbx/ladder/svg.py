"""A ladder diagram as SVG: the rows of `text`, drawn. Light or dark as the viewer is, and no font is needed.

Text is set in whatever monospaced font there is. A column is a little wider than a character of the widest of them, so
that texts keep apart as they do in the text.
"""

from __future__ import annotations

from collections.abc import Iterator
from xml.sax.saxutils import escape

from testbed.subjects.dcbx.ladder.diagram import Arrow, Folded, Ladder, Note, Side, Step
from testbed.subjects.dcbx.ladder.text import clipped, joined, wrapped

COLUMN = 7.5
"""The width of a character, in pixels, at a font size of 12."""
ROW = 17

_INNER = 88
"""The number of columns between the two ports."""
_MARGIN = 12
_GAP = 8
_INDENT = 3
_SLANT = 6
"""The distance by which an arrow ends lower than it starts, if the frame took time."""

_STYLE = """
text { font: 12px ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", "Liberation Mono", monospace; fill: #1f2328 }
.name { font-weight: bold }
.dim { fill: #59636e }
.paper { fill: #ffffff }
.life { stroke: #afb8c1; stroke-width: 1.5 }
.sent { stroke: #0550ae; stroke-width: 1.5; fill: none }
.head { fill: #0550ae }
.lost { stroke: #b42318; stroke-width: 1.5; fill: none }
.event { fill: #1a7f37 }
.said { fill: #0550ae }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 }
  .dim { fill: #9198a1 }
  .paper { fill: #0d1117 }
  .life { stroke: #484f58 }
  .sent { stroke: #58a6ff }
  .head { fill: #58a6ff }
  .lost { stroke: #ff7b72 }
  .event { fill: #3fb950 }
  .said { fill: #58a6ff }
}
"""


def as_svg(ladder: Ladder) -> str:
    """Return the diagram as a whole SVG file."""
    return "\n".join([*_Picture(ladder).drawn(), ""])


class _Picture:
    def __init__(self, ladder: Ladder) -> None:
        self._ladder = ladder
        self._time = max(10, *(len(ladder.clock(step.t_ns)) for step in ladder.steps[-1:]), 0) * COLUMN
        self._ends = (
            _MARGIN + self._time + 2 * COLUMN,
            _MARGIN + self._time + COLUMN * (_INNER + 2),
        )
        self._width = self._ends[Side.RIGHT] + _MARGIN
        self._y = 0.0
        self._out: list[str] = []

    def drawn(self) -> Iterator[str]:
        ladder, (left, right) = self._ladder, self._ends
        self._y = _MARGIN + ROW
        self._text(_MARGIN, ladder.title, "dim")
        self._y += ROW + _GAP
        for side, name in ((Side.LEFT, ladder.left), (Side.RIGHT, ladder.right)):
            self._at_end(side, 0, clipped(name, _INNER // 2), "name")
        top = self._y + _GAP
        self._y = top + _GAP
        shown = ""
        for step in ladder.steps:
            clock = ladder.clock(step.t_ns)
            if clock != shown:
                self._y += _GAP
            self._step(step, "" if clock == shown else clock)
            shown = clock
        bottom = self._y + 2 * _GAP
        self._y = bottom + _GAP
        for remark in ladder.remarks:
            self._y += ROW
            self._text(_MARGIN, remark, "dim")
        width, height = round(self._width), round(self._y + ROW)
        title = escape(f"DCBX between {ladder.left} and {ladder.right}")
        yield f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}"'
        yield f'  viewBox="0 0 {width} {height}" role="img">'
        yield f"<title>{title}</title>"
        yield f"<style>{_STYLE}</style>"
        yield f'<rect class="paper" width="{width}" height="{height}"/>'
        for x in (left, right):
            yield f'<line class="life" x1="{x:g}" y1="{top:g}" x2="{x:g}" y2="{bottom:g}"/>'
        yield from self._out
        yield "</svg>"

    def _step(self, step: Step, clock: str) -> None:
        match step:
            case Note(side=side):
                for said in step.texts:
                    for number, row in enumerate(wrapped(said, _INNER - 4)):
                        clock = self._row(clock)
                        self._at_end(side, 2, row)
                        if number == 0:
                            x, y = self._ends[side], self._y - 4
                            self._out.append(f'<circle class="event" cx="{x:g}" cy="{y:g}" r="3.5"/>')
            case Folded():
                for row in wrapped(step.texts, _INNER - 4):
                    clock = self._row(clock)
                    middle = sum(self._ends) / 2
                    self._out.append(_text(middle, self._y, row, "dim", "middle"))
            case Arrow():
                rows = joined(self._ladder.label(step), _INNER - 8)
                self._y += _GAP / 2
                for row in rows:
                    clock = self._row(clock)
                    self._at_end(step.source, _INDENT, row, "said")
                self._y += _GAP
                self._arrow(step, _INDENT + len(rows[-1]))
                self._y += _GAP

    def _arrow(self, arrow: Arrow, labelled: int) -> None:
        """Draw an arrow at the present height; its label takes `labelled` columns."""
        start, end = self._ends[arrow.source], self._ends[arrow.source.other]
        y = self._y
        if arrow.arrived_ns is None:
            x = start + (end - start) * max(2 / 3, (labelled + 2) / _INNER)
            cross = f"M{x - 4:g} {y - 4:g}l8 8m0 -8l-8 8"
            self._out.append(f'<path class="lost" d="M{start:g} {y:g}H{x:g}{cross}"/>')
            return
        if arrow.arrived_ns > arrow.t_ns:
            self._y += _SLANT
        back = -9 if end > start else 9
        head = f"{end:g},{self._y:g} {end + back:g},{self._y - 4:g} {end + back:g},{self._y + 4:g}"
        self._out.append(f'<line class="sent" x1="{start:g}" y1="{y:g}" x2="{end + back:g}" y2="{self._y:g}"/>')
        self._out.append(f'<polygon class="head" points="{head}"/>')

    def _row(self, clock: str) -> str:
        """Go one row down, with the time if it is a new one. Return the time of the step's next row: none."""
        self._y += ROW
        if clock:
            self._out.append(_text(_MARGIN + self._time, self._y, clock, "dim", "end"))
        return ""

    def _at_end(self, side: Side, columns: int, text: str, kind: str = "") -> None:
        """Write text that begins, or ends, some columns from a port's line."""
        inwards = COLUMN * columns
        if side is Side.LEFT:
            self._text(self._ends[side] + inwards, text, kind)
        else:
            self._out.append(_text(self._ends[side] - inwards, self._y, text, kind, "end"))

    def _text(self, x: float, text: str, kind: str = "") -> None:
        self._out.append(_text(x, self._y, text, kind))


def _text(x: float, y: float, text: str, kind: str = "", anchor: str = "start") -> str:
    classes = f' class="{kind}"' if kind else ""
    anchored = "" if anchor == "start" else f' text-anchor="{anchor}"'
    return f'<text{classes} x="{x:g}" y="{y:g}"{anchored}>{escape(text)}</text>'
