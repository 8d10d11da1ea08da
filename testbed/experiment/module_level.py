"""The module level of a user's file: what it can import, and how long it may take where the file is read."""

from __future__ import annotations

import signal
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

import testbed
from testbed.errors import UsageError

_AGAIN_S = 1.0
"""The interval in s at which the exception is raised again, in case an except clause took the first one."""


class TooLongError(UsageError):
    """Raised if a file does not come to the end of its module level in time."""


class _OverError(BaseException):
    """Ends a module level that may catch every Exception."""


@contextmanager
def ending_within(seconds: float, path: Path) -> Iterator[None]:
    """End a block that takes longer, and name the line where it is; with 0 there is no limit.

    Only the main thread of a process has a timer; in others there is no limit either.
    """
    if not seconds or threading.current_thread() is not threading.main_thread():
        yield
        return

    def late(_: int, frame: FrameType | None) -> None:
        raise _OverError(_place(frame, path))

    before = signal.signal(signal.SIGALRM, late)
    left_s, interval_s = signal.setitimer(signal.ITIMER_REAL, seconds, _AGAIN_S)
    try:
        yield
    except _OverError as error:
        raise TooLongError(
            f"{path} did not come to the end of its module level within {seconds:g} s; it was {error}. This machine "
            "reads the file too, for its parameters: what takes longer belongs into the experiment's function"
        ) from None
    finally:
        signal.setitimer(signal.ITIMER_REAL, left_s, interval_s)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def importing_from_folder_of(path: Path) -> Iterator[None]:
    """Let code import the files beside `path`, as it can in a script; but a file there hides no package of Xoff's."""
    folder, ours = str(path.parent), str(Path(testbed.__path__[0]).parent)
    sys.path.insert(sys.path.index(ours) + 1 if ours in sys.path else 0, folder)
    try:
        yield
    finally:
        with suppress(ValueError):  # the code has removed it itself
            sys.path.remove(folder)


def _place(frame: FrameType | None, path: Path) -> str:
    """Return the innermost line of the file that is being executed, or else of the code that it has called."""
    frames = [found for found, _ in traceback.walk_stack(frame)]
    own = [found for found in frames if Path(found.f_code.co_filename).resolve() == path.resolve()]
    for one in (*own, *frames):
        return f"in {one.f_code.co_name}, at line {one.f_lineno} of {one.f_code.co_filename}"
    return "nowhere in Python"
