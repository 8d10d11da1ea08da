"""Child processes that run a Python function: each is a fork, so it has all objects of the process that starts it."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress

from testbed.linux.process import kernel


class Child:
    """A forked process that runs one function."""

    def __init__(self, body: Callable[[], None], survives: bool = False) -> None:
        """Start the process. Its exit code is 0 when `body` returns; an exception is printed and makes it 1.

        The kernel kills the process when its parent ends, unless it `survives`.
        """
        sys.stdout.flush()  # or the child would have a copy of what the parent has buffered, and write it once more
        sys.stderr.flush()
        self.pid = kernel.fork()
        if self.pid == 0:
            code = 1
            try:
                if not survives:
                    kernel.die_with_parent()
                body()
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                with suppress(OSError, ValueError):
                    sys.stdout.flush()
                    sys.stderr.flush()
                os._exit(code)

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
