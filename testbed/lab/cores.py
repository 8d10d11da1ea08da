"""Which CPU core a lab gets.

A QEMU with the instruction clock is two threads that hand over to each other all the time, so a second core
is of no use to it: without record mode it even doubles the wall time, with it `bench/lab.py` shows some per
cent. Labs side by side, of whichever xoff, get different cores.
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
