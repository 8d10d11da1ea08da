"""Files that commands write for their users: they appear whole, or not at all."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from testbed.errors import UsageError
from testbed.lab.host.cache import DiskFullError
from testbed.lab.results.foreign import ForeignFolder


@contextmanager
def whole_file(path: Path, results: Sequence[Path], option: str = "--out") -> Iterator[BinaryIO]:
    """Yield a file that is at `path` when the block has ended.

    `results` are the folders that the command reads. They may be from elsewhere: in one of them no link is followed,
    and what has the file's name is replaced. Elsewhere the path is the user's. A symbolic link stays, and the file that
    it names is written; a device or a pipe (`--out /dev/stdout`) is written to itself, as a rename would remove it.
    """
    try:
        if (inside := _inside(path, results)) is not None:
            folder, name = inside
        elif path.is_dir():
            raise IsADirectoryError(errno.EISDIR, "it is a folder")
        elif path.exists() and not path.is_file():
            with path.open("wb") as out:
                yield out
            return
        else:
            place = path.resolve()
            folder, name = ForeignFolder(place.parent), place.name
        with folder.create(name) as out:
            yield out
    except OSError as error:
        reason = "it is a folder" if error.errno == errno.EISDIR else error.strerror or error
        text = f"{path}: {reason}; {option} names another place"
        raise (DiskFullError if error.errno in (errno.ENOSPC, errno.EDQUOT) else UsageError)(text) from None


def _inside(path: Path, results: Sequence[Path]) -> tuple[ForeignFolder, str] | None:
    """Return the result folder that a path leads into, by whatever way, and the rest of the path."""
    for ancestor in path.absolute().parents:
        for folder in results:
            rest = path.absolute().relative_to(ancestor)
            if rest.parts[:1] != ("..",) and ancestor.exists() and folder.exists() and ancestor.samefile(folder):
                return ForeignFolder(folder), str(rest)
    return None
