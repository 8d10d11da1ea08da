"""The two consoles, and single lines on them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import IO

from rich.console import Console, ConsoleOptions, RenderableType
from rich.markup import escape
from rich.segment import Segment

from testbed.cli.screen import streams
from testbed.errors import plain


class _Console(Console):
    """A console whose text is neutral, and without emoji: an address such as fd00:a:1:: has none in it."""

    def __init__(self, *, stderr: bool) -> None:
        super().__init__(stderr=stderr, highlight=False, emoji=False)

    @property
    def file(self) -> IO[str]:
        return streams.exact(super().file)

    @file.setter
    def file(self, new: IO[str]) -> None:
        self._file = new

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=plain(segment.text))

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError  # rich would end the process with the code of a claim that failed


stderr = _Console(stderr=True)
stdout = _Console(stderr=False)


def shown(text: object) -> str:
    """Text from elsewhere within rich's markup: none of it is markup, and what rich would drop is written out."""
    return escape(plain(text))


def say(text: str) -> None:
    """One line about what Xoff itself is doing."""
    stderr.print(f"[dim]xoff:[/dim] {shown(text)}", soft_wrap=True)


def print_error(text: str) -> None:
    """The one message that a failure gets."""
    stderr.print(f"[bold red]xoff:[/bold red] {shown(text)}", soft_wrap=True)
