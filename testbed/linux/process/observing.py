"""Observers: processes that look at a running network and change nothing of it.

On `um` the kernel sees to that (`lab/um/linux/xoff_observers.c`). The system calls of a process that observes take no
time of the lab; what it draws of random numbers and process IDs, nobody else would have drawn. Its children are
observers for good: they run before all others, and whoever was interrupted goes on as if nothing had been. So between
any two moments of the lab an observer has done all that it had to do, and who waits for one never waits.

Other kernels have nothing like it. There an observer is an ordinary process, which takes time of the CPU.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from testbed.linux.process.forked_helper import Ending, ForkedHelper, PacketPipe
from testbed.linux.process.kernel import Timer, wait_readable

_DEVICE = Path("/dev/xoff-observe")
_PR_OBSERVES = 0x786F0001
_libc = ctypes.CDLL(None)


@contextmanager
def observing() -> Iterator[bool]:
    """Run the block as one that observes, and yield True if the kernel sees to it that this changes nothing.

    What belongs to the run stays out of the block: others would find out about it at another moment.
    """
    before = _libc.prctl(_PR_OBSERVES, 1, 0, 0, 0)
    try:
        yield before >= 0
    finally:
        if before == 0:
            _libc.prctl(_PR_OBSERVES, 0, 0, 0, 0)


class Observer(ForkedHelper[PacketPipe]):
    """A helper that observes. Its parent starts and stops it as one that observes, too."""

    def __init__(self, what: str, body: Callable[[PacketPipe], None], name: str) -> None:
        """Start the process; `body` sends READY when it has begun to observe."""
        with observing():
            super().__init__(what, body, PacketPipe.pair(), Ending.CONFIRMS, name=name)

    def stop(self) -> None:
        with observing():
            super().stop()


class Clock:
    """A file descriptor that becomes readable at a moment of the monotonic clock, for an observer.

    On `um` it is no timer of the kernel, which would wake others early (`lab/um/linux/xoff_observe_kern.c`).
    """

    def __init__(self) -> None:
        self._timer: Timer | None = None
        try:
            self.fd = os.open(_DEVICE, os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            self._timer = Timer()
            self.fd = self._timer.fd

    def set(self, moment_ns: int) -> None:
        """Make the descriptor readable at this moment, or at once if it has passed."""
        if self._timer is None:
            os.write(self.fd, struct.pack("=q", moment_ns))
        else:
            self._timer.set(moment_ns)

    def clear(self) -> None:
        """Make the descriptor unreadable until a moment is set again."""
        if self._timer is None:
            with suppress(BlockingIOError):
                os.read(self.fd, 8)
        else:
            self._timer.clear()


def moments(pipe: PacketPipe, first_ns: int, every_ns: int) -> Iterator[int]:
    """Yield a moment of the monotonic clock and those that follow at an interval, each when it has come, until the
    parent stops this observer.
    """
    clock, due_ns = Clock(), first_ns
    while True:
        clock.set(due_ns)
        if pipe.fileno() in wait_readable([clock.fd, pipe]):
            return
        clock.clear()
        yield due_ns
        due_ns += every_ns
