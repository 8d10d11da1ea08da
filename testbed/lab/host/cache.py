"""The cache of what Xoff builds, which stays whole when builders race or die.

Three rules. Whatever is published appears by one rename, so a half-built thing never has the final name.
Whatever is temporary sits in an `owned` directory: its owner holds a lock on it while it lives, and the
next Xoff that starts removes those whose owner is gone, however it went. And whatever is taken from the cache runs as
the user, so no other user but root may be able to change it (`ownership.py`).
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from testbed.errors import XoffError
from testbed.lab.host import ownership

_OWNER = ".owner"
_UNUSED_S = 14 * 86400.0
Report = Callable[[str], None]


def quiet(_: str) -> None:
    """Ignore a report."""


class DiskFullError(XoffError):
    """A disk has no room for a file that has to be written."""

    exit_code = 3


class CacheError(XoffError):
    """The cache cannot be used."""

    exit_code = 3


def root() -> Path:
    """The user's cache directory: `XOFF_CACHE`, else `$XDG_CACHE_HOME/xoff`, else `~/.cache/xoff`.

    CacheError if another user could put something into it, or in its place.
    """
    return own(_chosen())


def _chosen() -> Path:
    if chosen := os.environ.get("XOFF_CACHE"):
        return Path(chosen).absolute()
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    try:
        return (base if base.is_absolute() else Path("~/.cache").expanduser()) / "xoff"
    except RuntimeError:  # neither $HOME nor an entry in the list of users
        raise CacheError(f"user {os.geteuid()} has no home folder; set XOFF_CACHE to a folder for the cache") from None


def own(path: Path, *names: str) -> Path:
    """Return `path`, if no other user but root can change it, nor the files of these names in it."""
    for one in (path, *(path / name for name in names)):
        if found := ownership.weakness(one):
            step, why = found
            way_out = "set XOFF_CACHE to a folder of your own, as in XOFF_CACHE=~/.cache/xoff"
            if ownership.belongs_to_us(step):
                way_out = f"chmod -R go-w {step}, if you trust what is in it, or {way_out}"
            raise CacheError(
                f"{step} {why}. What is in the cache runs as you, so no other user may be able to change it: {way_out}"
            )
    return path


def folder(*parts: str) -> Path:
    """Return a folder of the cache, which is made if it is not there."""
    for path in (root(), root().joinpath(*parts)):
        _make(path)
    return own(path)


def _make(path: Path) -> None:
    """Make a folder, and those above it, that others cannot write to, whatever our umask is."""
    with usable(path):
        for one in (*reversed(path.parents), path):
            one.mkdir(mode=0o755, exist_ok=True)


@contextmanager
def usable(path: Path) -> Iterator[None]:
    """Turn the system's refusals of `path` into an error with the way out."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise DiskFullError(f"the disk of the cache is full: {path}") from error
        if isinstance(error, (FileExistsError, NotADirectoryError, IsADirectoryError)):
            way_out = "it is in the way of the cache: remove it, or set XOFF_CACHE to another folder"
        else:
            way_out = "the cache needs it: set XOFF_CACHE to a folder that you can write to"
        raise CacheError(f"{error.filename or path}: {error.strerror}; {way_out}") from error


@contextmanager
def locked(name: str, report: Report) -> Iterator[None]:
    """Hold the lock `name` among all Xoff processes of this user; report when another one has it."""
    path = folder() / f"{name}.lock"
    with ExitStack() as held:
        with usable(path):
            handle = held.enter_context(path.open("w"))
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            report(f"waiting for another xoff that is at work on the {name}")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


@contextmanager
def owned(purpose: str, parent: Path | None = None, *, private: bool = True) -> Iterator[Path]:
    """Yield a new temporary directory that is gone afterwards, whatever happens to this process.

    Others cannot enter it, unless it is not `private`: the image builder enters its own under another user id. In that
    of a machine are sockets, and a process that can connect to one controls that machine.
    """
    if parent is None:
        parent = folder("tmp")
    with ExitStack() as held:
        _make(parent)
        with usable(parent):
            sweep(parent)
            with _sweeping(parent):  # it is never visible without its owner
                path = Path(tempfile.mkdtemp(prefix=f"{purpose}-", dir=parent))
                path.chmod(0o700 if private else 0o755)
                handle = held.enter_context((path / _OWNER).open("w"))
                fcntl.flock(handle, fcntl.LOCK_EX)
        try:
            yield path
        finally:
            _remove(path)


def elsewhere(work: Path) -> Path:
    """Return a directory among the system's temporary ones that is removed with the owned directory `work`.

    A builder that becomes other users needs one: it cannot enter a home that is closed to others.
    """
    path = _elsewhere(work)
    with usable(path):
        path.mkdir()
        path.chmod(0o755)
    return path


def _elsewhere(work: Path) -> Path:
    """Return the path of that directory.

    Its name follows from the path of `work`: no file of a cache decides what is removed.
    """
    return Path(tempfile.gettempdir(), f"xoff-{hashlib.sha256(os.fsencode(work)).hexdigest()[:16]}")


def sweep(parent: Path | None = None) -> list[Path]:
    """Remove owned directories whose owner is gone; return what was removed."""
    removed: list[Path] = []
    parent = own(parent or root() / "tmp")
    if not parent.is_dir():
        return removed
    with _sweeping(parent):
        for marker in parent.glob(f"*/{_OWNER}"):
            try:
                with marker.open("r+") as handle:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    _remove(marker.parent)
                    removed.append(marker.parent)
            except OSError:  # of a process that runs, or of another user
                continue
    return removed


def _remove(work: Path) -> None:
    """Remove an owned directory, and what it has elsewhere."""
    _remove_elsewhere(work)
    remove_tree(work)


def _remove_elsewhere(work: Path) -> None:
    other = _elsewhere(work)
    if ownership.belongs_to_us(other) and not other.is_symlink():
        remove_tree(other)


def remove_tree(path: Path) -> None:
    """Remove a directory and all in it, also what a builder has made as other users of a namespace of ours."""
    shutil.rmtree(path, ignore_errors=True)
    if path.exists() and os.geteuid() != 0:
        import subprocess  # seldom needed, and every call of the front door reads this file

        with suppress(OSError):  # mmdebstrap has what it takes to be those users
            subprocess.run(["mmdebstrap", "--unshare-helper", "rm", "-rf", str(path)], capture_output=True, check=False)
            shutil.rmtree(path, ignore_errors=True)


@contextmanager
def _sweeping(parent: Path) -> Iterator[None]:
    """Keep other sweepers and makers of owned directories out for a moment."""
    here = os.open(parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(here, fcntl.LOCK_EX)
        yield
    finally:
        os.close(here)


def used(path: Path) -> Path:
    """Note that what was published at `path` is in use, so that it is not pruned."""
    try:
        os.utime(path)
    except FileNotFoundError:
        raise
    except OSError:
        pass  # a cache that we may not write to, and so not prune
    return path


def prune(pattern: str) -> None:
    """Remove what has not been used for weeks, such as snapshots of code that has changed."""
    for path, used_s in _last_used(pattern).items():
        if time.time() - used_s > _UNUSED_S:
            shutil.rmtree(path, ignore_errors=True)


def keep_newest(pattern: str, number: int, spared_s: float = 0.0) -> None:
    """Remove all but those that were used last, or within the last `spared_s` seconds."""
    last_used = _last_used(pattern)
    for path in sorted(last_used, key=last_used.__getitem__)[:-number]:
        if time.time() - last_used[path] >= spared_s:
            shutil.rmtree(path, ignore_errors=True)


def _last_used(pattern: str) -> dict[Path, float]:
    found = {}
    for path in root().glob(pattern):
        with suppress(FileNotFoundError):  # another xoff prunes too
            found[path] = path.stat().st_mtime
    return found


def leave_only(work: Path, *names: str) -> None:
    """Remove everything from an owned directory but these, and what keeps it owned; others cannot write to these.

    After that the times of files may be noted: publishing changes nothing more of them.
    """
    _remove_elsewhere(work)
    for path in work.iterdir():
        if path.name not in (*names, _OWNER):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    for name in names:
        ownership.protect(work / name)


def bytecode(checkout: Path) -> Path:
    """Return the folder of the compiled modules of a checkout, which itself stays clean."""
    name = hashlib.sha256(os.fsencode(checkout)).hexdigest()[:16]
    return used(folder(f"bytecode-{name}"))


def publish(built: Path, final: Path) -> None:
    """Give the finished directory `built` its final name, in place of whatever was there."""
    with usable(final):
        if final.is_dir() and not final.is_symlink():
            shutil.rmtree(final)
        else:
            final.unlink(missing_ok=True)
        ownership.protect(built)
        built.chmod(0o755)
        built.rename(final)
    (final / _OWNER).unlink(missing_ok=True)


def link(theirs: Path, ours: Path) -> None:
    """Give a folder outside of the cache a name in it; a link that leads nowhere is in nobody's way."""
    with usable(ours):
        ours.unlink(missing_ok=True)
        ours.symlink_to(theirs)


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def require_room(path: Path, needed: int, what: str) -> None:
    """Raise DiskFullError if something would not fit on the disk."""
    with usable(path):
        path.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(path).free
    if free < needed:
        raise DiskFullError(
            f"no room for {what}: {path} has {free >> 20} MB free and {needed >> 20} MB are needed; "
            "free some, or set XOFF_CACHE to a directory on another disk"
        )
