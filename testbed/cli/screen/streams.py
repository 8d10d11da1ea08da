"""The standard streams: opened where they are missing, and an error on them does not end a run.

What is written to them can only be read: names and messages come from files, routers and jobs, so each character that
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
    """Standard output takes no more, and its reader has not gone away by itself."""

    exit_code = 3

    def __init__(self, error: OSError) -> None:
        super().__init__(f"standard output cannot be written: {error.strerror or error}")


class Stream:
    """A text stream that is neutral and keeps its first error; the rest of it is the stream's own."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream
        self.exact = _Exact(self)
        self.error: OSError | None = None
        self.lasts = False
        """Swallow what comes after an error, and the error too."""

    @property
    def lost(self) -> OutputError | None:
        """What has not been written although its reader is there: one that has gone is no loss."""
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
        """Drop what waits in the buffer: the interpreter would report it when it ends."""
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
    """A stream to which everything is written as it is."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self.write = stream.write_exactly

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)


def exact(stream: IO[str]) -> IO[str]:
    """Return a stream for those who control the terminal: text from elsewhere is theirs to make neutral."""
    return cast(IO[str], stream.exact) if isinstance(stream, Stream) else stream


def write_data(text: str, stream: IO[str] | None = None) -> None:
    """Write what is made for a file or another program: as it is, but for a terminal."""
    stream = stream or sys.stdout
    exact(stream).write(plain(text) if stream.isatty() else text)


@contextmanager
def standard() -> Iterator[Stream]:
    """Standard output and error as such streams; yields the first. What they cannot encode becomes question marks."""
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
    """From now on no closed or full standard output ends the command; `main` reports at the end what was lost."""
    if isinstance(sys.stdout, Stream):
        sys.stdout.lasts = True
