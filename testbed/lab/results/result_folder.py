"""The folder of a result while its run is made: it is new, has room reserved, and is removed if nothing came of it.

A run that is killed cannot remove its folder. The file in which room is reserved is locked while its run lives, so the
next run that gets a folder beside it finds those that no process holds, and removes them, with their folders where
nothing else is in them.
"""

from __future__ import annotations

import fcntl
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from testbed.errors import UsageError
from testbed.lab.results import container
from testbed.lab.results.collect import RESERVE

_ROOM = 1 << 18
"""The reserved octets, which are given back when the disk fills up, so that the result still fits."""
_BEGINS_WITHIN_S = 60.0


def new_folder(parent: Path, name: str) -> Path:
    """Create the folder NAME-001 or the next that is free, and return it; no result is ever overwritten."""
    remove_abandoned(parent)
    for number in range(1, 100_000):
        folder = parent / f"{name}-{number:03d}"
        try:
            folder.mkdir(parents=True)
            return folder
        except FileExistsError:
            if parent.exists() and not parent.is_dir():
                raise UsageError(f"--out {parent} is a file; name a folder") from None
        except OSError as error:
            raise UsageError(f"results cannot go to {parent}: {error.strerror}{container.whose()}") from None
    raise UsageError(f"{parent} is full of {name} results; choose another --out")


@contextmanager
def reserved(folder: Path) -> Iterator[None]:
    """Hold the folder, with room in it, while a run is made. OSError where there is no room."""
    path, draft = folder / RESERVE, folder / _draft_of(RESERVE)
    with draft.open("xb") as handle:
        try:
            with suppress(OSError):  # a file system without locks, on which nothing is removed either
                fcntl.flock(handle, fcntl.LOCK_EX)
            draft.rename(path)  # it is never visible without its lock
            handle.write(bytes(_ROOM))
            handle.flush()
            yield
        finally:
            for one in (draft, path):
                one.unlink(missing_ok=True)


def remove_abandoned(parent: Path) -> list[Path]:
    """Remove the reserved room of runs that were killed, and their folders where nothing else is in them; return the
    folders that were removed.
    """
    removed = []
    with suppress(OSError), os.scandir(parent) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False) and _remove_if_abandoned(Path(entry.path)):
                removed.append(Path(entry.path))
    return removed


def _remove_if_abandoned(folder: Path) -> bool:
    # A draft is without its lock for a moment while its run begins.
    found = [_remove_room(folder / RESERVE), _remove_room(folder / _draft_of(RESERVE), older_s=_BEGINS_WITHIN_S)]
    if any(found):
        with suppress(OSError):  # what the run had is kept
            folder.rmdir()
            return True
    return False


def _remove_room(path: Path, older_s: float = 0.0) -> bool:
    """Remove a file in which room was reserved, if no run holds it; return True if it was removed."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:  # it has none, as every folder of a run that came to its end
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode) or time.time() - status.st_mtime < older_s:
            return False
        path.unlink()
        return True
    except OSError:  # of a run that lives, or of another user
        return False
    finally:
        os.close(handle)


def _draft_of(name: str) -> str:
    return f"{name}.new"
