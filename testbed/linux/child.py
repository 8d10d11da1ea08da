"""Processes of the lab's own: each is a fork of the process that starts it, and has all of its objects."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress

from testbed.linux import kernel


class Child:
    """A process that does one thing."""

    def __init__(self, body: Callable[[], None], survives: bool = False) -> None:
        """Start it. Its exit code is 0 when `body` returns; an exception is shown and gives 1.

        Unless it `survives`, the kernel kills it when the process that started it ends.
        """
        sys.stdout.flush()  # what is written but not sent is the starter's, and the child has a copy
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
        """Send it a signal; it may have ended."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def wait(self) -> int:
        """Wait for its end; the exit code, negative for a signal."""
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def kill(self) -> None:
        """End it, and wait for that."""
        self.signal(signal.SIGKILL)
        with suppress(ChildProcessError):  # an experiment that waits for any process has collected it
            self.wait()
