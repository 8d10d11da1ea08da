"""Child processes that run a Python function: each is a fork, so it has all objects of the process that starts it."""

from __future__ import annotations

import errno
import os
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NoReturn

from testbed.linux.process import kernel


def fork_each(
    children: Sequence[tuple[Sequence[Callable[[], object]], Callable[[object], None]]],
) -> list[int]:
    """Fork a process for each of `children`, one right after the other, and return their pids.

    A child makes its calls, and goes on with what the last one has returned. It survives its parent, and ends as a
    `Child` does. Its calls should run no Python: whatever a process touches after a fork, in parent and child, is
    copied. For calls that wait that is all a child takes until it has something to do.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    fork, pids = kernel.forking(), [0] * len(children)
    for place, (calls, go_on) in enumerate(children):
        pid = fork()
        if not pid:
            code = 1
            try:
                found: object = None
                for call in calls:
                    found = call()
                go_on(found)
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                _end(code)
        pids[place] = pid
    if min(pids, default=0) < 0:
        raise OSError(errno.EAGAIN, f"forking {len(children)} processes: {os.strerror(errno.EAGAIN)}")
    return pids


def _end(code: int) -> NoReturn:
    with suppress(OSError, ValueError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)


class Child:
    """A forked process that runs one function."""

    def __init__(self, body: Callable[[], None], survives: bool = False) -> None:
        """Start the process. Its exit code is 0 when `body` returns; an exception is printed and makes it 1.

        The kernel kills the process when its parent ends, unless it `survives`.
        """
        sys.stdout.flush()  # or the child would have a copy of what the parent has buffered, and write it once more
        sys.stderr.flush()
        # Where time is real, the parent may have ended before its child has asked to be told.
        parent = 0 if survives or kernel.in_lab else os.getpid()
        self.pid = kernel.fork()
        if self.pid == 0:
            code = 1
            try:
                if not survives:
                    kernel.die_with_parent(parent)
                body()
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                _end(code)

    def signal(self, number: int) -> None:
        """Send the process a signal; nothing happens if it has ended."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def wait(self) -> int:
        """Wait until the process ends, and return its exit code, which is negative if a signal killed it."""
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def kill(self) -> None:
        """Kill the process, and wait until it is gone."""
        self.signal(signal.SIGKILL)
        with suppress(ChildProcessError):  # an experiment that waits for any child has reaped it
            self.wait()
