"""A ladder diagram as text of 100 columns: times at the left, a line down for each port, frames between them."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator

from testbed.subjects.dcbx.ladder.diagram import Arrow, Folded, Ladder, Note, Side, Step

WIDTH = 100
_TIME = 10
_STUB = "─── "
_INDENT = len(_STUB)
_HEAD = 8
"""The number of an arrow's columns that stay free of its label."""


def as_text(ladder: Ladder) -> str:
    """Return the diagram, with an end of line after each line."""
    return "".join(f"{line.rstrip()}\n" for line in _lines(ladder))


def _lines(ladder: Ladder) -> Iterator[str]:
    time = max([_TIME, *(len(ladder.clock(step.t_ns)) for step in ladder.steps[-1:])])
    inner = WIDTH - time - 3
    left, right = (clipped(name, inner // 2) for name in (ladder.left, ladder.right))
    yield ladder.title
    yield f"{' ' * time} {left}{right.rjust(inner + 2 - len(left))}"
    shown = ""
    for step in ladder.steps:
        clock = ladder.clock(step.t_ns)
        for number, row in enumerate(_rows(ladder, step, inner)):
            at = clock if number == 0 and clock != shown else ""
            yield f"{at:>{time}} {row}"
        shown = clock
    yield f"{' ' * time} {_between('', inner)}"
    yield from ladder.remarks


def _rows(ladder: Ladder, step: Step, inner: int) -> Iterator[str]:
    """Yield the rows of a step, without the time at their left."""
    match step:
        case Folded():
            yield from (_between(row.center(inner), inner) for row in wrapped(step.texts, inner - 2))
        case Note(side=side):
            for said in step.texts:
                for number, row in enumerate(wrapped(said, inner - 2)):
                    end = "│" if number else "├┤"[side]
                    is_left = side is Side.LEFT
                    yield f"{end} {row.ljust(inner - 1)}│" if is_left else f"│{row.rjust(inner - 1)} {end}"
        case Arrow():
            yield from _arrow(ladder, step, inner)


def _arrow(ladder: Ladder, arrow: Arrow, inner: int) -> Iterator[str]:
    label, *more = joined(ladder.label(arrow), inner - _INDENT - _HEAD)
    is_lost = arrow.arrived_ns is None
    length = max(inner * 2 // 3, _INDENT + len(label) + 4) if is_lost else inner
    to_right = arrow.source is Side.LEFT
    head = "x" if is_lost else "▶" if to_right else "◀"
    line = f"{_STUB}{label} ".ljust(length - 1, "─") if to_right else f" {label}{_STUB[::-1]}".rjust(length - 1, "─")
    line = f"{line}{head}".ljust(inner) if to_right else f"{head}{line}".rjust(inner)
    yield _between(line, inner)
    for row in more:
        indented = f"{' ' * _INDENT}{row}".ljust(inner) if to_right else f"{row}{' ' * _INDENT}".rjust(inner)
        yield _between(indented, inner)


def _between(text: str, inner: int) -> str:
    return f"│{text.ljust(inner)}│"


def wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width, break_on_hyphens=False) or [""]


def joined(parts: Iterable[str], width: int) -> list[str]:
    """Return rows, each with as many whole parts as it holds; a part that is too long for a row is broken."""
    rows = [""]
    for part in parts:
        row = f"{rows[-1]}; {part}" if rows[-1] else part
        if len(row) <= width:
            rows[-1] = row
        else:
            rows += wrapped(part, width)
    return rows if rows[0] else rows[1:]


def clipped(name: str, width: int) -> str:
    return name if len(name) < width else f"{name[: width - 2]}…"
