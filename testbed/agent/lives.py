"""The process that is the agent, or the speaker, of a node at this moment: the one that holds a lock.

The kernel releases the lock when the process ends, however it ends, and gives it to one at a time. So a supervisor that
did not fork these processes finds those that run, and a node never has two agents.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
from collections.abc import Callable
from functools import partial

_LOCK = struct.Struct("=hh4xqqi4x")
"""The struct flock of fcntl.h on x86-64: type, whence, start, length, process."""


class Lives:
    """The locks of all that a supervisor forks, by a number for each."""

    def __init__(self) -> None:
        self._file = os.memfd_create("xoff-lives", os.MFD_CLOEXEC)

    def acquire(self, number: int) -> bool:
        """Become the holder until this process ends; return False if another process is."""
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, number)
        except OSError as error:
            if error.errno in (errno.EACCES, errno.EAGAIN):
                return False
            raise
        return True

    def acquiring(self, number: int) -> Callable[[], object]:
        """Return `acquire` as one system call, which raises OSError if another process is the holder."""
        return partial(fcntl.lockf, self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, number)

    def holder(self, number: int) -> int:
        """Return the process that holds a lock, or 0 if there is none."""
        request = _LOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, number, 1, 0)
        kind, _, _, _, pid = _LOCK.unpack(fcntl.fcntl(self._file, fcntl.F_GETLK, request))
        return 0 if kind == fcntl.F_UNLCK else int(pid)

    def open_holder(self, number: int) -> tuple[int, int] | None:
        """Return the process that holds a lock and a descriptor of it, which becomes readable when it ends; None if
        there is none.

        It may end, and its number be given to another process, between two system calls: so it is looked up twice.
        """
        while pid := self.holder(number):
            try:
                process = os.pidfd_open(pid)
            except ProcessLookupError:
                continue
            if self.holder(number) == pid:
                return pid, process
            os.close(process)
        return None

    def close(self) -> None:
        """Close the file in this process; others have it."""
        os.close(self._file)
