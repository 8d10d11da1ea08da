"""A file that a command writes for its user: it appears whole, or not at all."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from testbed.errors import UsageError
from testbed.lab.cache import DiskFullError


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """Where to write what is to be at `path`, which is renamed to it at the end of the block.

    A device or a pipe, as in `-o /dev/stdout`, is written to itself: a rename would remove it. A symbolic link stays,
    and the file that it names is written.
    """
    try:
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, "it is a folder")
        if path.exists() and not path.is_file():
            yield path
            return
        place = path.resolve()
        draft = place.with_name(f".{place.name}.draft")
        try:
            yield draft
            draft.replace(place)
        finally:
            draft.unlink(missing_ok=True)
    except OSError as error:
        text = f"{path}: {error.strerror or error}; -o names another place"
        raise (DiskFullError if error.errno in (errno.ENOSPC, errno.EDQUOT) else UsageError)(text) from None
