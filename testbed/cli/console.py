"""The two consoles, and single lines on them."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape

from testbed.errors import plain


class _Console(Console):
    """Without emoji: an address such as fd00:a:1:: has none in it."""

    def __init__(self, *, stderr: bool) -> None:
        super().__init__(stderr=stderr, highlight=False, emoji=False)

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError  # rich would end the process with the code of a claim that failed


stderr = _Console(stderr=True)
stdout = _Console(stderr=False)


def shown(text: object) -> str:
    """Text from elsewhere within rich's markup, without any control sequence."""
    return escape(plain(text))


def say(text: str) -> None:
    """One line about what Xoff itself is doing."""
    stderr.print(f"[dim]xoff:[/dim] {shown(text)}", soft_wrap=True)


def print_error(text: str) -> None:
    """The one message that a failure gets."""
    stderr.print(f"[bold red]xoff:[/bold red] {shown(text)}", soft_wrap=True)
