"""Lists of what is wrong with something that a user wrote: each finding with its place, and all of them from one pass.

A place is whatever the reader of a format counts in: line and column, a JSON path, the name of a field.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, TypeVar

from testbed.errors import UsageError, plain

P = TypeVar("P")

MOST = 100
"""The most problems of one severity. More are of no use, and a hostile file must not fill the memory."""
_LONGEST_VALUE = 60
_PLAIN_MEMBER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


class Severity(enum.StrEnum):
    ERROR = "error"
    """The file cannot be used as it is."""
    WARNING = "warning"
    """It can be used, and something in it contradicts itself or is not what it seems."""
    IGNORED = "ignored"
    """It is valid, and Xoff does not model it."""


@dataclass(frozen=True, order=True)
class Position:
    """A place in a text; line and column count from 1."""

    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.line}:{self.column}"


@dataclass(frozen=True)
class Problem(Generic[P]):
    """One finding."""

    place: P
    severity: Severity
    message: str
    """One sentence, without a line break."""
    expected: str = ""
    """The right thing in its place; empty if there is nothing to add."""
    rule: str = ""
    """A word for programs that pick out certain findings; empty if the format has none."""

    def __str__(self) -> str:
        tail = f"; expected {self.expected}" if self.expected else ""
        return f"{self.place}: {self.severity}: {self.message}{tail}"

    def as_json(self) -> dict[str, Any]:
        place, told = self.place, {"severity": str(self.severity), "message": self.message}
        if isinstance(place, Position):
            return {"line": place.line, "column": place.column, **told, "expected": self.expected}
        return {"path": str(place), **told, "rule": self.rule}


@dataclass
class Problems(Generic[P]):
    """Collects findings in the order in which they come; after the first `MOST` of a severity they are only counted.

    Errors and warnings are limited each for itself, so that warnings cannot displace an error.
    """

    found: list[Problem[P]] = field(default_factory=list)
    left_out: int = 0

    def error(self, place: P, message: str, expected: str = "", *, rule: str = "invalid") -> None:
        self.add(Problem(place, Severity.ERROR, message, expected, rule))

    def warning(self, place: P, message: str, expected: str = "", *, rule: str = "") -> None:
        self.add(Problem(place, Severity.WARNING, message, expected, rule))

    def ignored(self, place: P, message: str, *, rule: str = "not modelled") -> None:
        self.add(Problem(place, Severity.IGNORED, message, rule=rule))

    def add(self, problem: Problem[P]) -> None:
        """Add a finding, once."""
        if problem in self.found:
            return
        if sum(other.severity is problem.severity for other in self.found) >= MOST:
            self.left_out += 1
        else:
            self.found.append(problem)

    def with_severity(self, severity: Severity) -> list[Problem[P]]:
        """Return the findings of one severity."""
        return [problem for problem in self.found if problem.severity is severity]

    @property
    def errors(self) -> list[Problem[P]]:
        return self.with_severity(Severity.ERROR)

    @property
    def warnings(self) -> list[Problem[P]]:
        return self.with_severity(Severity.WARNING)


class ProblemsError(UsageError):
    """A file that cannot be used, with everything that is wrong with it."""

    before_place: ClassVar[str] = ": "
    """The text between the file's name and a place; ":" where editors read name:line:column."""

    def __init__(self, name: str, problems: Iterable[Problem[Any]], left_out: int = 0) -> None:
        self.problems = tuple(problems)
        lines = [f"{name}{self.before_place}{problem}" for problem in self.problems]
        if left_out:
            lines.append(f"{name}: and {left_out} more")
        super().__init__("\n".join(lines))


def json_path(*members: str) -> str:
    """Return a JSON path (RFC 9535), as in $.BUFFER_PG['Ethernet0|3-4'].profile"""
    steps = []
    for member in members:
        name = shortened(plain(member).replace("\n", "\\n").replace("\t", "\\t"))
        quoted = name.replace("\\", "\\\\").replace("'", "\\'")
        steps.append(f".{name}" if _PLAIN_MEMBER.fullmatch(name) else f"['{quoted}']")
    return "$" + "".join(steps)


def shortened(text: str) -> str:
    """Return a text, or the beginning of a long one."""
    return text if len(text) <= _LONGEST_VALUE else text[:_LONGEST_VALUE] + "..."


def shown(value: object) -> str:
    """Return a value for a message: quoted, without control characters, and only the beginning of a long one."""
    if isinstance(value, str):
        return repr(shortened(value))
    if isinstance(value, int) and value.bit_length() > 1000:  # Python writes no number of thousands of digits
        return f"a number of {value.bit_length()} bits"
    return shortened(str(value).lower() if isinstance(value, bool) else repr(value))
