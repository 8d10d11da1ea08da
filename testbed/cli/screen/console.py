"""The consoles of standard output and standard error, and single lines on them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import IO

from rich.console import Console, ConsoleOptions, RenderableType
from rich.markup import escape
from rich.segment import Segment

from testbed.cli.screen import streams
from testbed.errors import message, plain


class _Console(Console):
    """A console that prints control characters as text and has no emoji, which fd00:a:1:: would contain otherwise."""

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
    """Return text from elsewhere for use within rich's markup: none of it is markup, and rich drops none of it."""
    return escape(plain(text))


def say(text: str) -> None:
    """Print a line about what Xoff itself is doing."""
    stderr.print(f"[dim]xoff:[/dim] {escape(message(text))}", soft_wrap=True)


def print_error(text: str) -> None:
    """Print the message about a failure."""
    stderr.print(f"[bold red]xoff:[/bold red] {escape(message(text))}", soft_wrap=True)
