"""The module level of a user's file: what it can import, how long it may take where the file is read, and that of a
file of others: it is not executed on this machine if the environment says so.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

import testbed
from testbed.errors import UsageError

VARIABLE = "XOFF_READ_IN_LAB"
"""Set in the environment, it has the lab alone execute files that do not come with Xoff."""
_OURS = Path(testbed.__path__[0]).resolve().parent
_LOOKS = 30
"""The parts of the limit after each of which it is looked at."""
_AGAIN_S = 1.0
"""The interval in s at which the exception is raised again, in case an except clause took the first one."""
WAITING = 20
"""The factor by which a file may take longer that waits, or whose CPU others have."""


class _OverError(BaseException):
    """Ends a module level that may catch every Exception."""


@contextmanager
def ending_within(seconds: float, path: Path) -> Iterator[None]:
    """End a block that takes more seconds of CPU time, and name the line where it is; with 0 there is no limit.

    On a busy machine a good file takes many times as long by the clock, so what waits has a longer limit. Only the main
    thread of a process has a timer; in others there is no limit either.
    """
    if not seconds or threading.current_thread() is not threading.main_thread():
        yield
        return

    begin_s, begin_cpu_s = time.monotonic(), time.process_time()

    def look(_: int, frame: FrameType | None) -> None:
        used_all = time.process_time() - begin_cpu_s >= seconds
        if used_all or time.monotonic() - begin_s >= WAITING * seconds:
            signal.setitimer(signal.ITIMER_REAL, _AGAIN_S, _AGAIN_S)
            limit = f"{seconds:g} s of CPU time" if used_all else f"{WAITING * seconds:g} s"
            raise _OverError(limit, _place(frame, path))

    before = signal.signal(signal.SIGALRM, look)
    interval_s = seconds / _LOOKS
    left_s, left_interval_s = signal.setitimer(signal.ITIMER_REAL, interval_s, interval_s)
    try:
        yield
    except _OverError as error:
        limit, place = error.args
        raise UsageError(
            f"{path} did not come to the end of its module level within {limit}; it was {place}. This machine reads "
            "the file too, for its parameters: what takes longer belongs into the experiment's function"
        ) from None
    finally:
        signal.setitimer(signal.ITIMER_REAL, left_s, left_interval_s)
        signal.signal(signal.SIGALRM, before)


def is_read_in_lab(path: Path) -> bool:
    """Return True if this machine must not execute the file: it is not one of Xoff's, and the environment says so."""
    return os.environ.get(VARIABLE, "") not in ("", "0") and not path.resolve().is_relative_to(_OURS)


@contextmanager
def importing_from_folder_of(path: Path) -> Iterator[None]:
    """Let code import the files beside `path`, as it can in a script; but a file there hides no package of Xoff's.

    Whoever executes a user's file does it in this context, so a file that this machine must not execute ends here.
    """
    if is_read_in_lab(path):
        raise UsageError(
            f"{path} is for the lab alone, as {VARIABLE} is set, and this command reads it on this machine, too; look "
            "at it, and call the command without the variable"
        )
    folder, ours = str(path.parent), str(Path(testbed.__path__[0]).parent)
    sys.path.insert(sys.path.index(ours) + 1 if ours in sys.path else 0, folder)
    try:
        yield
    finally:
        with suppress(ValueError):  # the code has removed it itself
            sys.path.remove(folder)


def _place(frame: FrameType | None, path: Path) -> str:
    """Return the innermost line of the file that is being executed, or else of the code that it has called."""
    frames = [inner for inner, _ in traceback.walk_stack(frame)]
    own = [inner for inner in frames if Path(inner.f_code.co_filename).resolve() == path.resolve()]
    for one in (*own, *frames):
        return f"in {one.f_code.co_name}, at line {one.f_lineno} of {one.f_code.co_filename}"
    return "nowhere in Python"
