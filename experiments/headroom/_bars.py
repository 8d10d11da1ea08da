"""Bars of buffer as SVG, one for each port and setting, as the headroom proposal draws them. Not an experiment.

Light or dark as the viewer is, and no font is needed.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

_MARGIN, _LINE = 16, 18
_GROUP, _BAR, _HIGH = 310, 60, 190
"""Widths of a group and a bar, and the height of the highest bar."""

_STYLE = """
text { font: 12px system-ui, "DejaVu Sans", "Liberation Sans", sans-serif; fill: #1f2328 }
.name { font-weight: bold }
.dim { fill: #59636e }
.paper { fill: #ffffff }
.base { stroke: #59636e; stroke-width: 1 }
.bridge { fill: #54aeff }
.headroom { fill: #1a7f37 }
.lost { fill: #cf222e }
text.loss { fill: #cf222e; font-weight: bold }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 }
  .dim { fill: #9198a1 }
  .paper { fill: #0d1117 }
  .base { stroke: #9198a1 }
  .bridge { fill: #1f6feb }
  .headroom { fill: #3fb950 }
  .lost { fill: #f85149 }
  text.loss { fill: #ff7b72 }
}
"""


@dataclass(frozen=True)
class Bar:
    """One port under one setting; all in octets."""

    label: str
    headroom: int
    bridge: int
    lost: int
    lost_note: str
    note: str

    @property
    def height(self) -> int:
        return self.headroom + self.bridge + self.lost


def as_svg(title: str, groups: Sequence[tuple[str, Sequence[Bar]]]) -> str:
    """Return a whole SVG file with bars side by side in groups.

    Each bar has headroom below, bridge buffer on it, and on top the octets that headroom lacked.
    """
    return "\n".join([*_drawn(title, groups), ""])


def size(octets: int) -> str:
    """Return a number of octets as people write it: 16.4 kB."""
    for unit, many in (("MB", 10**6), ("kB", 10**3)):
        if octets >= many:
            return f"{octets / many:.3g} {unit}"
    return f"{octets} B"


def _drawn(title: str, groups: Sequence[tuple[str, Sequence[Bar]]]) -> Iterator[str]:
    width = 2 * _MARGIN + _GROUP * len(groups)
    top = _MARGIN + 4 * _LINE
    ground = top + _HIGH
    height = ground + 4 * _LINE + _MARGIN
    most = max(bar.height for _, bars in groups for bar in bars)
    yield f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">'
    yield f"<title>{escape(title)}</title>"
    yield f"<style>{_STYLE}</style>"
    yield f'<rect class="paper" width="{width}" height="{height}"/>'
    yield _text(_MARGIN, _MARGIN + _LINE // 2, title, "name", "start")
    yield from _legend(_MARGIN + 2 * _LINE - 4)
    for place, (name, bars) in enumerate(groups):
        left = _MARGIN + _GROUP * place
        yield _text(left + _GROUP // 2, ground + 3 * _LINE + 8, name, "name")
        yield f'<line class="base" x1="{left + 8}" y1="{ground}" x2="{left + _GROUP - 8}" y2="{ground}"/>'
        step = (_GROUP - 16) / len(bars)
        for number, bar in enumerate(bars):
            yield from _bar(bar, left + 8 + step * (number + 0.5), ground, most)
    yield "</svg>"


def _legend(y: int) -> Iterator[str]:
    x = _MARGIN
    for kind, what in (
        ("headroom", "headroom"),
        ("bridge", "bridge buffer: the burst that is absorbed before PAUSE"),
        ("lost", "lost for want of headroom"),
    ):
        yield f'<rect class="{kind}" x="{x}" y="{y - 10}" width="12" height="12"/>'
        yield _text(x + 18, y, what, "dim", "start")
        x += 36 + 7 * len(what)


def _bar(bar: Bar, x: float, ground: int, most: int) -> Iterator[str]:
    y = float(ground)
    for kind, octets in (("headroom", bar.headroom), ("bridge", bar.bridge), ("lost", bar.lost)):
        if octets:
            high = max(2.0, octets * _HIGH / most)  # what is there is to be seen
            y -= high
            yield f'<rect class="{kind}" x="{x - _BAR / 2:.1f}" y="{y:.1f}" width="{_BAR}" height="{high:.1f}"/>'
    if bar.lost:
        yield _text(x, y - 6, bar.lost_note, "loss")
    for line, text in enumerate((bar.label, bar.note), 1):
        yield _text(x, ground + line * _LINE - 2, text, "dim" if line > 1 else "")


def _text(x: float, y: float, text: str, kind: str, anchor: str = "middle") -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'
