"""Errors and warnings of a policy file: each with line and column, what is wrong and what was expected, and all of them
collected in one pass."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from testbed.errors import UsageError

_MOST = 100
"""More problems than this in one file are of no use, and a hostile file must not fill the memory."""
_TOO_MANY = 1000
_LONGEST_VALUE = 60


@dataclass(frozen=True, order=True)
class Position:
    """Where something stands in a file; both count from 1."""

    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.line}:{self.column}"


START = Position(1, 1)


class Severity(enum.StrEnum):
    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True)
class Problem:
    """One finding."""

    position: Position
    severity: Severity
    message: str
    expected: str = ""  # what would have been right; empty where there is nothing to add

    def __str__(self) -> str:
        tail = f"; expected {self.expected}" if self.expected else ""
        return f"{self.position}: {self.severity}: {self.message}{tail}"

    def as_json(self) -> dict[str, Any]:
        return {
            "line": self.position.line,
            "column": self.position.column,
            "severity": str(self.severity),
            "message": self.message,
            "expected": self.expected,
        }


@dataclass
class Problems:
    """Collects findings; after the first hundred errors they are only counted, and a thousand more are enough."""

    found: list[Problem] = field(default_factory=list)
    left_out: int = 0

    def error(self, position: Position, message: str, expected: str = "") -> None:
        self._add(Problem(position, Severity.ERROR, message, expected))

    def warning(self, position: Position, message: str, expected: str = "") -> None:
        self._add(Problem(position, Severity.WARNING, message, expected))

    def _add(self, problem: Problem) -> None:
        # Errors and warnings are limited each for itself, so that warnings cannot displace an error.
        if sum(other.severity is problem.severity for other in self.found) >= _MOST:
            self.left_out += 1
        else:
            self.found.append(problem)

    @property
    def exhausted(self) -> bool:
        """There are so many that nothing more is to be learned: whoever reads the file stops."""
        return self.left_out >= _TOO_MANY

    @property
    def errors(self) -> list[Problem]:
        return sorted((p for p in self.found if p.severity is Severity.ERROR), key=lambda p: p.position)

    @property
    def warnings(self) -> list[Problem]:
        return sorted((p for p in self.found if p.severity is Severity.WARNING), key=lambda p: p.position)


class PolicyError(UsageError):
    """A policy that cannot be used, with everything that is wrong with it."""

    def __init__(self, name: str, problems: Iterable[Problem], left_out: int = 0) -> None:
        self.problems = tuple(problems)
        lines = [f"{name}:{problem}" for problem in self.problems]
        if left_out:
            lines.append(f"{name}: and {left_out} more")
        super().__init__("\n".join(lines))


def shown(text: str) -> str:
    """A value for a message: quoted, cut, and without control characters."""
    return repr(text if len(text) <= _LONGEST_VALUE else text[:_LONGEST_VALUE] + "...")
