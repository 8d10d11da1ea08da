"""Reads a tar that holds regular files and nothing else, in little memory, whatever the file really is.

Python's `tarfile` reads headers that extend others into memory, as large as they claim to be, and follows links between
members. Here each member is one header of 512 octets and its data; all else is refused.
"""

from __future__ import annotations

import errno
import os
import stat
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

_BLOCK = 512
_STEP = 1 << 20
_LARGEST = 1 << 50
"""The limit of a member's size in octets: files can be read so far, and a header can hold a larger number."""


class MalformedError(Exception):
    """A tar that cannot be read; the message is the reason, as a part of a sentence."""


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
    """Open a regular file, also through a link. Anything else is an OSError: a FIFO waits for its other end."""
    _require_file(path.stat())  # opening a device may set something going
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        _require_file(os.fstat(descriptor))  # it may be another one by now
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def _require_file(seen: os.stat_result) -> None:
    if stat.S_ISDIR(seen.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(seen.st_mode):
        raise OSError(errno.EINVAL, "it is a pipe, socket or device, and not a regular file")


def members(source: IO[bytes]) -> Iterator[Member]:
    """The members of a tar, in order; each is read before the next one is taken."""
    while header := source.read(_BLOCK):
        if header == bytes(_BLOCK):
            return
        try:
            found = tarfile.TarInfo.frombuf(header, "utf-8", "strict")
        except (tarfile.TarError, ValueError):
            raise MalformedError("there is no header of a file where one should be") from None
        if found.type not in (tarfile.REGTYPE, tarfile.AREGTYPE) or not 0 <= found.size < _LARGEST:
            raise MalformedError(f"{found.name!a} in it is no regular file")
        start = source.tell()
        yield Member(found.name, found.size, source)
        source.seek(start + found.size + -found.size % _BLOCK)
    raise MalformedError("it ends too early")
