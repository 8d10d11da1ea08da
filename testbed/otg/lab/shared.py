"""The memory that the processes of a generator share: a tally for each flow and port, at each end."""

from __future__ import annotations

import mmap
from collections.abc import Sequence

from testbed.otg.counting import WORDS, Tally


class Tallies:
    """Tallies by name, each for sending and for receiving."""

    def __init__(self, names: Sequence[str]) -> None:
        size = WORDS * 2 * len(names)
        self._memory = mmap.mmap(-1, 8 * (size + 1))
        every = memoryview(self._memory).cast("q")
        words, self._commands = every[:size], every[size:]
        parts = [Tally(words[place : place + WORDS]) for place in range(0, len(words), WORDS)]
        self.sent = dict(zip(names, parts[::2], strict=False))
        self.received = dict(zip(names, parts[1::2], strict=False))

    @property
    def commands(self) -> int:
        """The number of commands given to senders. To look at it costs them no system call."""
        return self._commands[0]

    def count_command(self) -> None:
        self._commands[0] += 1

    def clear(self) -> None:
        for tally in (*self.sent.values(), *self.received.values()):
            tally.clear()
