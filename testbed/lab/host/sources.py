"""The state of source files, by their names, sizes and times: what was made of them is kept while it stays the same.

Xoff's own code is a thousand files. To read them, and to put them together as the lab gets them, takes longer than
anything else that this machine does for a short run; to look at their times takes a thirtieth of that.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

_SETTLED_NS = 2 * 10**9
_Seen = tuple[str, int, int, int, int]


@dataclass(frozen=True)
class Stamp:
    """The state of source files."""

    name: str
    """A digest of their names, sizes, times and inodes: another file, or a changed one, has another."""
    changed_ns: int
    """The moment of the last change, by the clock of the file system."""

    @property
    def is_settled(self) -> bool:
        """True if the last change is some time ago. Two changes in quick succession can have one time, so nothing that
        is made of files before that is to be kept.
        """
        return time.time_ns() - self.changed_ns > _SETTLED_NS


def stamp(places: Iterable[Path]) -> Stamp:
    """Return the state of files, and of all files below folders, but for compiled ones."""
    digest, newest = hashlib.sha256(), 0
    for place in places:
        for path, size, inode, *times in sorted(_files(place)):
            digest.update(f"{path}\0{size}\0{inode}\0{times}\n".encode(errors="surrogateescape"))
            newest = max(newest, *times)
    return Stamp(digest.hexdigest()[:16], newest)


def _files(place: Path) -> Iterator[_Seen]:
    if place.is_dir():
        yield from _below(str(place))
    else:
        yield _seen(str(place), place.stat())


def _below(folder: str) -> Iterator[_Seen]:
    for entry in os.scandir(folder):
        if entry.is_dir(follow_symlinks=False):
            if entry.name != "__pycache__":
                yield from _below(entry.path)
        elif not entry.name.endswith(".pyc"):
            yield _seen(entry.path, entry.stat())


def _seen(path: str, status: os.stat_result) -> _Seen:
    return path, status.st_size, status.st_ino, status.st_mtime_ns, status.st_ctime_ns
