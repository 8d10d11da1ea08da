"""The memory that the processes of a generator share: a tally for each flow and port, at each end."""

from __future__ import annotations

import mmap
from collections.abc import Sequence

from testbed.otg.counting import WORDS, Tally


class Tallies:
    """Tallies by name, each for what is sent and what is received."""

    def __init__(self, names: Sequence[str]) -> None:
        self._memory = mmap.mmap(-1, 8 * WORDS * 2 * max(1, len(names)))
        words = memoryview(self._memory).cast("q")
        parts = [Tally(words[place : place + WORDS]) for place in range(0, len(words), WORDS)]
        self.sent = dict(zip(names, parts[::2], strict=False))
        self.received = dict(zip(names, parts[1::2], strict=False))

    def clear(self) -> None:
        for tally in (*self.sent.values(), *self.received.values()):
            tally.clear()
