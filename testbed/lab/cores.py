"""Which CPU core a lab gets.

A QEMU with the instruction clock is two threads that hand over to each other all the time, so a second core
is of no use to it: without record mode it even doubles the wall time, with it `bench/lab.py` shows some per
cent. The processes of User-Mode Linux hand over to each other with every system call, which takes twice as long
or more from core to core. Labs side by side, of whichever xoff, get different cores.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from testbed.lab import cache


def available() -> list[int]:
    """The cores we may use."""
    return sorted(os.sched_getaffinity(0))


@contextmanager
def one() -> Iterator[int]:
    """A core that no other lab of this user has; if all are taken, share one."""
    folder = cache.root() / "cores"
    folder.mkdir(parents=True, exist_ok=True)
    cores = available()
    with ExitStack() as held:
        for core in reversed(cores):  # the first one is where most systems put their interrupts
            handle = held.enter_context((folder / str(core)).open("w"))
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            yield core
            return
        yield cores[os.getpid() % len(cores)]


@contextmanager
def pinned(core: int | None) -> Iterator[None]:
    """What this thread starts meanwhile can use this core only; any, if none is given."""
    before = os.sched_getaffinity(0)
    if core is not None:
        os.sched_setaffinity(0, {core})  # inherited; of this thread only
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
