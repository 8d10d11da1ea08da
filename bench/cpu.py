"""The CPU time of everything that a block starts, however it ends, and the memory of labs.

Processes of `um` end without being waited for, so getrusage() misses half of what they took. The kernel's task clock
(perf_event_open(2)), inherited by all children, counts them; it needs no root where `kernel.perf_event_paranoid` is 2
or less.
"""

from __future__ import annotations

import ctypes
import os
import resource
import struct
import time

_SYSCALL, _SOFTWARE, _TASK_CLOCK, _CLOSE_ON_EXEC = 298, 1, 1, 8
_SIZE, _INHERITED = 112, 1 << 1


class Meter:
    """The CPU time in s of this process's children since the meter was made."""

    def __init__(self) -> None:
        attributes = struct.pack("=IIQQQQQ", _SOFTWARE, _SIZE, _TASK_CLOCK, 0, 0, 0, _INHERITED).ljust(_SIZE, b"\0")
        library = ctypes.CDLL(None, use_errno=True)
        self._file = library.syscall(_SYSCALL, attributes, 0, -1, -1, _CLOSE_ON_EXEC)
        if self._file < 0:
            raise OSError(ctypes.get_errno(), "perf_event_open: CPU time cannot be measured; as root set "
                          "kernel.perf_event_paranoid to 2")  # fmt: skip
        self._own_s = time.thread_time()

    def read_s(self) -> float:
        """Return the time so far, without that of this thread."""
        (all_ns,) = struct.unpack("q", os.read(self._file, 8))
        return float(all_ns) / 1e9 - (time.thread_time() - self._own_s)

    def close(self) -> None:
        os.close(self._file)


def most_mb() -> int:
    """Return the most memory in MB of any lab of `um` that has ended, whose kernel has all of it."""
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10
