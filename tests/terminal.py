"""A terminal of a few lines that shows what a user would see: it takes the sequences that rich writes, and keeps
text."""

from __future__ import annotations

import re

_UNFINISHED = re.compile(r"\x1b(?:\[[?0-9;]*|\][^\x07\x1b]*)?$")
_SEQUENCE = re.compile(r"\x1b\[([?0-9;]*)([A-Za-z])|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)")


class Terminal:
    """A terminal with cursor movements, erasing and scrolling; it drops colours, and anything else is an error."""

    def __init__(self, rows: int = 24, columns: int = 80) -> None:
        self.rows, self.columns = rows, columns
        self.scrolled: list[str] = []
        """The lines that have left at the top."""
        self._lines = [""] * rows
        self._row = self._column = 0
        self._rest = ""

    @property
    def screen(self) -> list[str]:
        """Return the lines, without blanks at their ends."""
        return [line.rstrip() for line in self._lines]

    def feed(self, text: str) -> None:
        text, self._rest = self._rest + text, ""
        if found := _UNFINISHED.search(text):
            text, self._rest = text[: found.start()], found.group()
        at = 0
        for found in _SEQUENCE.finditer(text):
            self._write(text[at : found.start()])
            if found.group(2):
                self._command(found.group(1), found.group(2))
            at = found.end()
        self._write(text[at:])

    def _command(self, given: str, letter: str) -> None:
        number = int(given) if given.isdigit() else 1
        if letter == "A":
            self._row = max(0, self._row - number)
        elif letter == "B":
            self._row = min(self.rows - 1, self._row + number)
        elif letter == "G":
            self._column = number - 1
        elif letter == "K":
            self._lines[self._row] = "" if given == "2" else self._lines[self._row][: self._column]
        elif letter == "J":
            self._lines[self._row :] = [""] * (self.rows - self._row)
        elif letter not in "mhl":
            raise ValueError(f"the sequence {given}{letter} is none of those that this terminal takes")

    def _write(self, text: str) -> None:
        for character in text:
            if character == "\r":
                self._column = 0
            elif character == "\n":
                self._new_line()
            else:
                if self._column >= self.columns:
                    self._new_line()
                    self._column = 0
                line = self._lines[self._row].ljust(self._column)
                self._lines[self._row] = line[: self._column] + character + line[self._column + 1 :]
                self._column += 1

    def _new_line(self) -> None:
        if self._row < self.rows - 1:
            self._row += 1
        else:
            self.scrolled.append(self._lines.pop(0))
            self._lines.append("")
