"""Reads a tar that holds regular files and nothing else, in little memory, whatever the file really is.

Python's `tarfile` reads headers that extend others into memory, as large as they claim to be, and follows links between
members. Here each member is one header of 512 octets and its data; all else is refused.
"""

from __future__ import annotations

import os
import stat
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

_BLOCK = 512
_STEP = 1 << 20


class MalformedError(Exception):
    """What is wrong with the tar, as a part of a sentence."""


class Member:
    """A file in the tar."""

    def __init__(self, name: str, size: int, source: IO[bytes]) -> None:
        self.name, self.size = name, size
        self._source, self._left = source, size

    def pieces(self) -> Iterator[bytes]:
        """All that is in it, a piece at a time."""
        while self._left:
            data = self._source.read(min(_STEP, self._left))
            if not data:
                raise MalformedError("it ends too early")
            self._left -= len(data)
            yield data


def opened(path: Path) -> IO[bytes]:
    """Open a regular file. Anything else is an OSError, at once: a FIFO would have us wait for a writer."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode) and not stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(0, "it is a pipe, socket or device, and no regular file")
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def members(source: IO[bytes]) -> Iterator[Member]:
    """The members of a tar, in order; each is read before the next one is taken."""
    while header := source.read(_BLOCK):
        if header == bytes(_BLOCK):
            return
        try:
            found = tarfile.TarInfo.frombuf(header, "utf-8", "strict")
        except (tarfile.TarError, ValueError):
            raise MalformedError("there is no header of a file where one should be") from None
        if found.type not in (tarfile.REGTYPE, tarfile.AREGTYPE) or found.size < 0:
            raise MalformedError(f"{found.name!a} in it is no regular file")
        start = source.tell()
        yield Member(found.name, found.size, source)
        source.seek(start + found.size + -found.size % _BLOCK)
    raise MalformedError("it ends too early")
