"""The end of a command by a signal before it can say anything: one line and an exit code, and no traceback.

The front door and `python -m testbed` import for some tenths of a second. What ends a command then has nothing to clean
up. It imports little, because every call waits for it.
"""

from __future__ import annotations

import os
import signal
from types import FrameType

WORDS = {
    signal.SIGINT: "interrupted",
    signal.SIGTERM: "terminated",
    signal.SIGHUP: "the terminal has gone",
    signal.SIGQUIT: "quit",
}
"""The words for each signal that ends a command."""


def begin() -> None:
    """Have these signals end the process with a line from now on, also those that `hold` has kept back."""
    for number in WORDS:
        if signal.getsignal(number) is not signal.SIG_IGN:  # as under nohup
            signal.signal(number, _end)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, WORDS)


def hold() -> None:
    """Keep these signals back until the program that this process becomes takes them."""
    signal.pthread_sigmask(signal.SIG_BLOCK, WORDS)


def _end(number: int, frame: FrameType | None) -> None:
    os.write(2, f"xoff: {WORDS[signal.Signals(number)]}\n".encode())
    os._exit(128 + number)
