"""A sheet with shapes and words as SVG, for the figures of the documentation.

A figure has its own background and follows the colour scheme of the system, so it can be read on a light and on a dark
page. The same calls give the same text on every machine.
"""

from __future__ import annotations

from html import escape

STYLE = """
svg { --paper: #ffffff; --ink: #1f2430; --soft: #5c6470; --line: #8a93a0; --fill: #e8edf4;
 --red: #b3261e; --redfill: #f9dedc; --green: #1b6e3a; --greenfill: #d5efdd; --blue: #1f56a8; --bluefill: #d8e5f7;
 --amberfill: #fbe7c1; --amber: #7a4b00 }
@media (prefers-color-scheme: dark) {
svg { --paper: #1b1f27; --ink: #e6e9ef; --soft: #a9b1bd; --line: #78818d; --fill: #2b323d;
 --red: #ff9b93; --redfill: #54221f; --green: #86d7a2; --greenfill: #1f442d; --blue: #9dc1f5; --bluefill: #213b60;
 --amberfill: #50390f; --amber: #f2c879 } }
text { font: 13px system-ui, sans-serif; fill: var(--ink) }
.soft { fill: var(--soft) } .small { font-size: 12px } .bold { font-weight: 600 } .tiny { font-size: 11px }
.red { fill: var(--red) } .green { fill: var(--green) } .blue { fill: var(--blue) } .amber { fill: var(--amber) }
.box { fill: var(--fill); stroke: var(--line) }
.redbox { fill: var(--redfill); stroke: var(--red) } .greenbox { fill: var(--greenfill); stroke: var(--green) }
.bluebox { fill: var(--bluefill); stroke: var(--blue) } .amberbox { fill: var(--amberfill); stroke: var(--amber) }
.redsolid { fill: var(--red) } .greensolid { fill: var(--green) } .bluesolid { fill: var(--blue) }
.ambersolid { fill: var(--amber) }
.area { fill: var(--fill); opacity: 0.45 }
.line { stroke: var(--line); fill: none } .redline { stroke: var(--red); fill: none; stroke-width: 2 }
.blueline { stroke: var(--blue); fill: none; stroke-width: 2 }
.greenline { stroke: var(--green); fill: none; stroke-width: 2 }
.amberline { stroke: var(--amber); fill: none; stroke-width: 2 }
.dashed { stroke-dasharray: 5 4 }
"""
TONES = ("red", "green", "blue", "amber")
_TIP = (
    '<defs><marker id="tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8" markerHeight="8" '
    'orient="auto-start-reverse"><path d="M0 0 10 5 0 10z" fill="context-stroke"/></marker></defs>'
)


class Drawing:
    """A sheet with shapes and words; y grows downwards."""

    def __init__(self, width: int, height: int, title: str, description: str) -> None:
        self._size = width, height
        self._words = title, description
        self._parts: list[str] = []

    def box(self, x: float, y: float, width: float, height: float, *look: str) -> None:
        """Add a rectangle; `look` is its class, and a word in it."""
        kind, word = (*look, *("box", "")[len(look) :])
        self._parts.append(f'<rect class="{kind}" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="4"/>')
        if word:
            self.text(x + width / 2, y + height / 2 + 4.5, word, anchor="middle")

    def area(self, x: float, y: float, width: float, height: float) -> None:
        """Add a plain background."""
        self._parts.append(f'<rect class="area" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="8"/>')

    def bars(self, kind: str, y: float, height: float, spans: list[tuple[float, float]]) -> None:
        """Add many bars of one kind and height as one shape; each has a left end and a width."""
        path = "".join(f"M{x:g} {y:g}h{width:g}v{height:g}h{-width:g}z" for x, width in spans)
        self._parts.append(f'<path class="{kind}" d="{path}"/>')

    def text(self, x: float, y: float, word: str, kind: str = "", anchor: str = "start") -> None:
        attributes = f' class="{kind}"' if kind else ""
        attributes += f' text-anchor="{anchor}"' if anchor != "start" else ""
        self._parts.append(f'<text x="{x:g}" y="{y:g}"{attributes}>{escape(word)}</text>')

    def line(self, *points: tuple[float, float], kind: str = "line", arrow: bool = False) -> None:
        where = " ".join(f"{x:g},{y:g}" for x, y in points)
        end = ' marker-end="url(#tip)"' if arrow else ""
        self._parts.append(f'<polyline class="{kind}" points="{where}"{end}/>')

    def svg(self) -> str:
        width, height = self._size
        title, description = map(escape, self._words)
        tip = [_TIP] if any("url(#tip)" in part for part in self._parts) else []
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
                f'height="{height}" role="img" aria-labelledby="title about">',
                f'<title id="title">{title}</title><desc id="about">{description}</desc>',
                f"<style>{STYLE}</style>",
                *tip,
                f'<rect width="{width}" height="{height}" rx="8" fill="var(--paper)"/>',
                *self._parts,
                "</svg>\n",
            ]
        )
