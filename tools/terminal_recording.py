"""Record a command in a terminal, and write it as an animated SVG.

    python -m tools.terminal_recording hello.svg -- ./xoff run hello

The command runs in a terminal of its own, in an empty folder; what it draws is followed by a small emulation of the
sequences that Xoff uses. It is shown twice as fast, with waits of a second at most; nothing else is changed. The
picture has the colours of the system's scheme, and stands still for those who ask for less motion.
"""

from __future__ import annotations

import argparse
import codecs
import fcntl
import os
import pty
import re
import struct
import sys
import tempfile
import termios
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

from testbed.errors import UsageError

ROOT = Path(__file__).parents[1]
COLUMNS, ROWS = 88, 30
_SPEED, _STEP_S, _LONGEST_S, _LAST_S = 2.0, 0.25, 1.0, 8.0
"""How much faster than it was the recording is shown; the least time between two frames as they were recorded, the
longest, and that of the last one.
"""
_LARGEST = 300_000
_CELL, _LINE, _MARGIN = 8.43, 19, 14
_CSI = re.compile(r"\x1b\[([?\d;]*)([A-Za-z])")
_OSC = re.compile(r"\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)")
_COLOURS = ("black", "red", "green", "amber", "blue", "purple", "cyan", "white")

STYLE = """
svg { --paper: #f6f8fa; --ink: #1f2430; --dim: #626a76; --edge: #c9d1d9; --red: #b3261e; --green: #1b6e3a;
 --amber: #7a4b00; --blue: #1f56a8; --purple: #6b3fa0; --cyan: #0b6b75; --black: #57606a; --white: #1f2430 }
@media (prefers-color-scheme: dark) {
svg { --paper: #161b22; --ink: #e6e9ef; --dim: #9aa4b2; --edge: #30363d; --red: #ff9b93; --green: #86d7a2;
 --amber: #f2c879; --blue: #9dc1f5; --purple: #d2a8ff; --cyan: #7fdbe6; --black: #8b949e; --white: #ffffff } }
text { font: 14px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: var(--ink);
 white-space: pre }
.b { font-weight: 700 } .d { fill: var(--dim) }
"""


@dataclass
class Screen:
    """The cells of a terminal, each a character with its classes."""

    columns: int = COLUMNS
    rows: int = ROWS
    x: int = 0
    y: int = 0
    look: frozenset[str] = frozenset()
    cells: list[list[tuple[str, frozenset[str]]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.cells = [self._empty() for _ in range(self.rows)]

    def _empty(self) -> list[tuple[str, frozenset[str]]]:
        return [(" ", frozenset())] * self.columns

    def feed(self, text: str) -> None:
        """Draw what a program has written."""
        text = _OSC.sub("", text)
        at = 0
        for match in _CSI.finditer(text):
            self._write(text[at : match.start()])
            self._control(match[1], match[2])
            at = match.end()
        self._write(text[at:])

    def _write(self, text: str) -> None:
        for c in text:
            if c == "\n":
                self._down()
            elif c == "\r":
                self.x = 0
            elif c >= " ":
                if self.x >= self.columns:
                    self.x = 0
                    self._down()
                self.cells[self.y][self.x] = (c, self.look)
                self.x += 1

    def _down(self) -> None:
        if self.y + 1 < self.rows:
            self.y += 1
        else:
            self.cells = [*self.cells[1:], self._empty()]

    def _control(self, given: str, what: str) -> None:
        numbers = [int(one) for one in given.split(";") if one.isdigit()]
        count = max(1, numbers[0]) if numbers else 1
        if what == "A":
            self.y = max(0, self.y - count)
        elif what == "B":
            self.y = min(self.rows - 1, self.y + count)
        elif what == "K":
            start = 0 if given == "2" else self.x
            self.cells[self.y][start:] = self._empty()[start:]
        elif what == "J":
            self.cells[self.y][self.x :] = self._empty()[self.x :]
            self.cells[self.y + 1 :] = [self._empty() for _ in self.cells[self.y + 1 :]]
        elif what == "m":
            self._appear(numbers or [0])

    def _appear(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            if number == 0:
                self.look = frozenset()
            elif number in (1, 2):
                self.look |= {"b" if number == 1 else "d"}
            elif number == 22:
                self.look -= {"b", "d"}
            elif 30 <= number <= 37 or 90 <= number <= 97:
                self.look = self.look - set(_COLOURS) | {_COLOURS[number % 10]}
            elif number == 39:
                self.look -= set(_COLOURS)

    def lines(self) -> list[str]:
        """Return each row as the markup of a text."""
        return [_line(row) for row in self.cells]


def _line(row: Sequence[tuple[str, frozenset[str]]]) -> str:
    """Return a row as spans of one look each; the place of each is given, so no font has to be exact."""
    text = "".join(c for c, _ in row).rstrip()
    spans, at = [], 0
    while at < len(text):
        end = at + 1
        while end < len(text) and row[end][1] == row[at][1]:
            end += 1
        part, look = text[at:end], row[at][1]
        if part.strip():
            kept = part.rstrip()
            begin = at + len(kept) - len(kept.lstrip())
            kept = kept.lstrip()
            names = " ".join(name for name in ("b", "d") if name in look)
            attributes = f' class="{names}"' if names else ""
            attributes += "".join(f' fill="var(--{name})"' for name in _COLOURS if name in look and "d" not in look)
            width = f' textLength="{len(kept) * _CELL:.1f}" lengthAdjust="spacingAndGlyphs"'
            spans.append(f'<tspan x="{begin * _CELL:.1f}"{width}{attributes}>{escape(kept)}</tspan>')
        at = end
    return "".join(spans)


def record(command: Sequence[str], folder: Path) -> list[tuple[float, str]]:
    """Run a command in a terminal, in a folder, and return what it wrote with the times."""
    child, terminal = pty.fork()
    if not child:
        os.chdir(folder)
        os.environ |= {"TERM": "xterm-256color", "COLUMNS": str(COLUMNS), "LINES": str(ROWS)}
        os.environ.pop("NO_COLOR", None)
        os.execvp(command[0], list(command))
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    found, decoder = [], codecs.getincrementaldecoder("utf-8")("replace")
    while True:
        try:
            data = os.read(terminal, 1 << 16)
        except OSError:  # how Linux says that the other side is closed
            break
        if not data:
            break
        found.append((time.monotonic(), decoder.decode(data)))
    os.close(terminal)
    _, status = os.waitpid(child, 0)
    if status:
        raise UsageError(f"{' '.join(command)} ended with {os.waitstatus_to_exitcode(status)}; nothing is written")
    return found


def frames(shown: str, recorded: Iterable[tuple[float, str]]) -> Iterator[tuple[float, list[str]]]:
    """Yield what is on the screen, with the time in s for which it stays, after the command is typed."""
    screen = Screen()
    screen.feed("\x1b[1m$ ")
    for part in range(0, len(shown) + 1, 3):
        screen.feed(shown[part : part + 3])
        yield 0.12, screen.lines()
    screen.feed("\x1b[0m\r\n")
    before, last = screen.lines(), None
    for now_s, text in recorded:
        if last is not None and now_s - last >= _STEP_S:
            yield min(now_s - last, _LONGEST_S) / _SPEED, before
            last = now_s
        last = now_s if last is None else last
        screen.feed(text)
        before = screen.lines()
    yield _LAST_S, before


def svg(title: str, found: Sequence[tuple[float, list[str]]], note: str = "") -> str:
    """Return the animation: one column for each frame, of which one at a time is in the window.

    What shows no animation shows the last frame. `note` is put into the file for programs.
    """
    kept: list[tuple[float, list[str]]] = []
    for lasts_s, lines in found:
        if kept and kept[-1][1] == lines:
            kept[-1] = min(kept[-1][0] + lasts_s, max(_LONGEST_S, lasts_s)), lines
        else:
            kept.append((lasts_s, lines))
    rows = max(number for _, lines in kept for number, line in enumerate(lines, 1) if line)
    width, height = round(COLUMNS * _CELL) + 2 * _MARGIN, rows * _LINE + 2 * _MARGIN
    numbers: dict[str, int] = {}
    columns = []
    for place, (_, lines) in enumerate(kept):
        used = [
            f'<use href="#l{numbers.setdefault(line, len(numbers))}" y="{row * _LINE}"/>'
            for row, line in enumerate(lines[:rows])
            if line
        ]
        columns.append(f'<g transform="translate({place * width})">{"".join(used)}</g>')
    whole_s, at_s, steps = sum(lasts_s for lasts_s, _ in kept), 0.0, []
    for place, (lasts_s, _) in enumerate(kept):
        steps.append(f"{at_s / whole_s * 100:.2f}% {{ transform: translateX({-place * width}px) }}")
        at_s += lasts_s
    last_x = -(len(kept) - 1) * width
    last = f"translateX({last_x}px)"
    style = f"{STYLE}.film {{ animation: film {whole_s:.1f}s step-end infinite }}\n"
    style += f"@keyframes film {{ {' '.join(steps)} 100% {{ transform: {last} }} }}\n"
    style += "@media (prefers-reduced-motion: reduce) { .film { animation: none } }\n"
    defined = "\n".join(f'<text id="l{number}" y="14">{line}</text>' for line, number in numbers.items())
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" \
height="{height}" role="img" aria-labelledby="title">
<title id="title">{escape(title)}</title>
<metadata>{escape(note)}</metadata>
<style>{style}</style>
<defs>{defined}</defs>
<rect x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="8" fill="var(--paper)" stroke="var(--edge)"/>
<svg x="{_MARGIN}" y="{_MARGIN}" width="{width - 2 * _MARGIN}" height="{height - 2 * _MARGIN}">
<g class="film" transform="translate({last_x})">{"".join(columns)}</g>
</svg>
</svg>
"""


def write(file: Path, text: str) -> None:
    """Write a recording, if it is not too large for a page."""
    if len(text) > _LARGEST:
        raise UsageError(f"the recording has {len(text)} octets, and {_LARGEST} are enough: record something shorter")
    file.write_text(text, encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path, help="the SVG to write")
    parser.add_argument("command", nargs="+", help="as in ./xoff demo; ./ is the repository")
    given = parser.parse_args()
    program = str(ROOT / given.command[0]) if given.command[0].startswith("./") else given.command[0]
    shown = " ".join(given.command)
    with tempfile.TemporaryDirectory(prefix="xoff-") as folder:
        recorded = record([program, *given.command[1:]], Path(folder))
    write(given.file, svg(f"A terminal: {shown}", list(frames(shown, recorded))))
    print(given.file)
    return 0


if __name__ == "__main__":
    sys.exit(main())
