"""Damaged lines of a result's files, which are left out and named by file and line."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from testbed.lab.results.foreign import ForeignError

MOST = 10_000
"""The most damaged lines of one file. A file with more is no log of a run, and is not read on."""
_NAMED = 3


class Damage:
    """The count of damaged lines, each once, however often its file is read."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._found: dict[tuple[str, int], str] = {}
        self._counts: Counter[str] = Counter()

    def add(self, file: str, line: int, why: str) -> None:
        """Count a line that is left out. `why` completes the sentence that begins with it: "is no event"."""
        if (file, line) in self._found:
            return
        self._found[file, line] = why
        self._counts[file] += 1
        if self._counts[file] > MOST:
            raise ForeignError(f"{self._folder / file}: {MOST} lines up to line {line} are damaged; line {line} {why}")

    def __len__(self) -> int:
        return len(self._found)

    def __str__(self) -> str:
        """Return one line that names the damaged lines, or the first of many; empty if there are none."""
        if not self._found:
            return ""
        named = [f"line {line} of {file} {why}" for (file, line), why in list(self._found.items())[:_NAMED]]
        more = len(self._found) - len(named)
        lines = f"{', '.join(named)}{f', and {more} more are damaged' if more else ''}"
        return f"{self._folder}: {lines}; the rest is read without {'it' if len(self._found) == 1 else 'them'}"
