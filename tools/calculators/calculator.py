"""A calculator: the fields of its form, the command that answers the same, and the answer as HTML and as JSON.

All of it is Python that runs when the site is built, for the answers that are on the page from the beginning, and in
the browser, for all others. It imports models of `testbed` and nothing that opens a file or a socket.
"""

from __future__ import annotations

import shlex
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from html import escape

from tools.drawing import Drawing

FILES = "files"
"""The kind of a field for files; its value is a mapping of names to texts."""

Values = Mapping[str, str]


@dataclass(frozen=True)
class Field:
    """A field of a form, which is an option of a command."""

    name: str
    label: str
    default: str = ""
    hint: str = ""
    choices: tuple[str, ...] = ()
    kind: str = "text"
    """`text`, `choice`, `check`, `hex` or `files`."""
    further: bool = False
    """True if the field is folded with others that are seldom needed."""

    @property
    def option(self) -> str:
        return "--" + self.name.replace("_", "-")


@dataclass(frozen=True)
class Answer:
    """An answer for people and for programs."""

    html: str
    json: str


@dataclass(frozen=True)
class Calculator:
    """One calculator; `command` is that of `xoff` which gives the same answer."""

    name: str
    command: str
    fields: tuple[Field, ...]
    answer: Callable[[Values], Answer]
    example: Mapping[str, str] = field(default_factory=dict)
    """Values that the form has at first, beside the defaults of its fields."""

    def values(self, given: Values) -> dict[str, str]:
        """Return the values of all fields, of which `given` has some."""
        return {one.name: given.get(one.name, one.default) for one in self.fields}

    def line(self, given: Values) -> str:
        """Return the command line that gives the same answer."""
        words = ["./xoff", *self.command.split()]
        for one in self.fields:
            value = given.get(one.name, one.default)
            if one.kind == FILES:
                words += [shlex.quote(name) for name in files(value)]
            elif one.kind == "check":
                words += [one.option] if value else []
            elif value and (value != one.default or one.name in self.example):
                words += [one.option, shlex.quote(value)]
        return " ".join(words)


def files(value: str) -> dict[str, str]:
    """Return the files of a field: names and texts, one after the other, each ended by a character 0."""
    parts = value.split("\0")[:-1]
    return dict(zip(parts[::2], parts[1::2], strict=True))


def joined(content: Mapping[str, str]) -> str:
    """Return the value of a field of files."""
    return "".join(f"{name}\0{text}\0" for name, text in content.items())


# HTML


def table(head: Iterable[str], rows: Iterable[Iterable[str]], name: str) -> str:
    """Return a table that scrolls by itself; the first cell of a row is its head, and numbers are to the right."""
    top = "".join(f'<th scope="col">{escape(one)}</th>' for one in head)
    body = ""
    for first, *rest in rows:
        cells = "".join(f"<td{_look(one)}>{escape(one)}</td>" for one in rest)
        body += f'<tr><th scope="row">{escape(first)}</th>{cells}</tr>'
    return (
        f'<div class="wide" tabindex="0" role="region" aria-label="{escape(name)}">'
        f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _look(cell: str) -> str:
    return ' class="number"' if cell[:1].isdigit() else ""


def picture(drawing: Drawing, words: str) -> str:
    """Return a drawing as an image, whose style is its own."""
    source = b64encode(drawing.svg().encode()).decode()
    return f'<img class="drawing" alt="{escape(words)}" src="data:image/svg+xml;base64,{source}">'


def notes(said: Iterable[str]) -> str:
    """Return notes as a list, if there are any."""
    rows = "".join(f"<li>{escape(one)}</li>" for one in said)
    return f'<ul class="notes">{rows}</ul>' if rows else ""


def paragraph(text: str, kind: str = "") -> str:
    return f'<p class="{kind}">{escape(text)}</p>' if kind else f"<p>{escape(text)}</p>"


def grouped(number: int) -> str:
    """Return a whole number with a narrow space between thousands, as people read it."""
    return f"{number:,}".replace(",", "\u202f")
