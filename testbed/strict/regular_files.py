"""Files that a user names: regular ones up to a size, so that a pipe or an endless file holds no command."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import IO


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


def octets(path: Path, most: int) -> bytes:
    """Return the content of a regular file of at most so many octets; anything else is an OSError."""
    with opened(path) as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise OSError(errno.EFBIG, f"it has more than {most} octets")
    return content


def text(path: Path, most: int) -> str:
    """Return the text of such a file, which is UTF-8; anything else is an OSError."""
    try:
        return octets(path, most).decode()
    except UnicodeDecodeError:
        raise OSError(errno.EILSEQ, "it is no text") from None


def _require_file(seen: os.stat_result) -> None:
    if stat.S_ISDIR(seen.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(seen.st_mode):
        raise OSError(errno.EINVAL, "it is a pipe, socket or device, and not a regular file")
