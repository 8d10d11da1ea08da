"""The CPU cores that each lab gets.

A QEMU with the instruction clock is two threads that hand over to each other all the time, so a second core
is of no use to it: without record mode it even doubles the wall time, with it `bench/lab.py` shows some per
cent. User-Mode Linux hands over to its processes with every system call. On two cores each side polls for its
turn, which takes a tenth of the time of a process switch; on one core they sleep and wake each other. Labs side
by side, of whichever xoff, get different cores. Where other programs want the second core, polling makes a lab slower,
by 1.5 to 2.6: then it gets one.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from testbed.lab.host import cache

_SIDE_BY_SIDE = "XOFF_LABS_SIDE_BY_SIDE"
_LOOKS, _LOOK_S = 8, 0.001
_LOAD = Path("/proc/loadavg")


def available() -> list[int]:
    """Return the cores that this process may use."""
    return sorted(os.sched_getaffinity(0))


def share(labs: int) -> None:
    """Divide the cores among this many labs at once, also those of programs that this one starts from now on.

    Without a call, one lab may have all that it can use. Where cores are divided already, they are not for fewer labs.
    """
    os.environ[_SIDE_BY_SIDE] = str(max(labs, _labs_side_by_side()))


@contextmanager
def shared(labs: int) -> Iterator[None]:
    """Divide the cores among labs for as long as the block lasts."""
    before = os.environ.get(_SIDE_BY_SIDE)
    share(labs)
    try:
        yield
    finally:
        del os.environ[_SIDE_BY_SIDE]
        if before is not None:
            os.environ[_SIDE_BY_SIDE] = before


def _labs_side_by_side() -> int:
    return int(os.environ.get(_SIDE_BY_SIDE, "1"))


@contextmanager
def taken(most: int) -> Iterator[frozenset[int]]:
    """Yield up to `most` cores that no other lab of this user has; if all are taken, one that is shared."""
    folder = cache.folder("cores")
    cores = available()
    wanted = max(min(most, len(cores) // _labs_side_by_side()), 1)
    if wanted > 1:
        wanted = max(min(wanted, _unused()), 1)
    free: set[int] = set()
    with ExitStack() as held:
        for core in reversed(cores):  # the first one is where most systems put their interrupts
            with cache.usable(folder):
                handle = held.enter_context((folder / str(core)).open("w"))
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            free.add(core)
            if len(free) == wanted:
                break
        yield frozenset(free) or frozenset({cores[os.getpid() % len(cores)]})


def are_free(labs: int) -> bool:
    """Return True if each of so many labs can have a core that nobody else uses."""
    return labs <= len(available()) // _labs_side_by_side() and labs <= _unused()


def _unused() -> int:
    """Return the number of this machine's cores on which nothing else runs, by several looks at what is runnable."""
    others = 0.0
    for _ in range(_LOOKS):
        time.sleep(_LOOK_S)
        try:
            runnable = int(_LOAD.read_text().split()[3].split("/")[0])
        except (OSError, ValueError, IndexError):
            return len(available())
        others += (runnable - 1) / _LOOKS  # without this process
    return round((os.cpu_count() or 1) - others)


@contextmanager
def pinned(cores: Collection[int] | None) -> Iterator[None]:
    """Confine what this thread starts in the block to these cores; to none if `cores` is None."""
    before = os.sched_getaffinity(0)
    if cores is not None:
        os.sched_setaffinity(0, cores)  # inherited; of this thread only
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
