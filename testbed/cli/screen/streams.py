"""The standard streams, which are opened where they are missing, and whose errors do not end a run.

Text on them can only be read: names and messages come from files, routers and jobs, so each character that
could give an order to a terminal is written out, whoever prints it and however. What means to give orders, such as rich
with its colours, or is made for a program takes `exact` or `write_data`.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, cast

from testbed.errors import XoffError, plain


class OutputError(XoffError):
    """Raised if standard output takes no more, and its reader has not gone away by itself."""

    exit_code = 3

    def __init__(self, error: OSError) -> None:
        super().__init__(f"standard output cannot be written: {error.strerror or error}")


class Stream:
    """A text stream that writes out control characters and keeps its first error; the rest is the stream's own."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream
        self.exact = _Exact(self)
        self.error: OSError | None = None
        self.lasts = False
        """True if the stream swallows its errors, and the output after them."""

    @property
    def lost(self) -> OutputError | None:
        """The error by which output was lost, or None; output for a reader that has gone is not lost."""
        if self.error is None or self.error.errno in (errno.EPIPE, errno.EIO):
            return None
        return OutputError(self.error)

    def write(self, text: str) -> int:
        return self.write_exactly(plain(text))

    def write_exactly(self, text: str) -> int:
        if self.error is None:
            try:
                return self._stream.write(text)
            except OSError as error:
                self._fail(error)
        self._raise()
        return len(text)

    def flush(self) -> None:
        if self.error is None:
            try:
                return self._stream.flush()
            except OSError as error:
                self._fail(error)
        self._raise()

    def _fail(self, error: OSError) -> None:
        """Drop the buffer, which the interpreter would report when it ends."""
        self.error = error
        try:
            nothing = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nothing, self._stream.fileno())
            os.close(nothing)
            self._stream.flush()
        except (OSError, ValueError):  # a stream without a descriptor
            pass

    def _raise(self) -> None:
        if self.error is not None and not self.lasts:
            raise self.error

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)


class _Exact:
    """The same stream, which writes everything as it is."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self.write = stream.write_exactly

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)


def exact(stream: IO[str]) -> IO[str]:
    """Return the stream for code that controls the terminal, and that itself writes out control characters in other
    text."""
    return cast(IO[str], stream.exact) if isinstance(stream, Stream) else stream


def write_data(text: str, stream: IO[str] | None = None) -> None:
    """Write data for a file or another program; only a terminal gets control characters written out."""
    stream = stream or sys.stdout
    exact(stream).write(plain(text) if stream.isatty() else text)


@contextmanager
def standard() -> Iterator[Stream]:
    """Replace standard output and error by such streams, and yield the first. They write a question mark for what they
    cannot encode."""
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:  # closed by the parent process: the next file would get its number
            if (opened := os.open(os.devnull, os.O_RDWR)) != number:
                os.dup2(opened, number)
                os.close(opened)
            setattr(sys, name, os.fdopen(number, mode, closefd=False))
    before = sys.stdout, sys.stderr
    for stream in before:
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    out, err = Stream(sys.stdout), Stream(sys.stderr)
    err.lasts = True  # a message that cannot be read is no reason to stop
    sys.stdout, sys.stderr = out, err
    try:
        yield out
    finally:
        for ours in (out, err):
            ours.lasts = True
            ours.flush()
        sys.stdout, sys.stderr = before


def outlast() -> None:
    """Let no closed or full standard output end the command from now on; `main` reports lost output at the end."""
    if isinstance(sys.stdout, Stream):
        sys.stdout.lasts = True
