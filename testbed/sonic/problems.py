"""Findings about a config_db.json: each with the JSON path of what it is about, in one line."""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from testbed.errors import UsageError, plain

_MOST = 200
"""Of one severity. More are of no use, and a hostile file must not fill the memory."""
_LONGEST_VALUE = 60
_PLAIN_MEMBER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


class Severity(enum.StrEnum):
    ERROR = "error"
    """The file cannot be used as it is."""
    WARNING = "warning"
    """It can be used, and something in it contradicts itself or risks a loss."""
    IGNORED = "ignored"
    """It is valid, and Xoff does not model it."""


def path(*members: str) -> str:
    """A JSON path (RFC 9535): $.BUFFER_PG['Ethernet0|3-4'].profile"""
    steps = []
    for member in members:
        name = shortened(plain(member).replace("\n", "\\n").replace("\t", "\\t"))
        quoted = name.replace("\\", "\\\\").replace("'", "\\'")
        steps.append(f".{name}" if _PLAIN_MEMBER.fullmatch(name) else f"['{quoted}']")
    return "$" + "".join(steps)


def shortened(text: str) -> str:
    return text if len(text) <= _LONGEST_VALUE else text[:_LONGEST_VALUE] + "..."


def shown(value: object) -> str:
    """A value for a message: quoted, cut, and without control characters."""
    return ascii(value[:_LONGEST_VALUE] if isinstance(value, str) else value)[: _LONGEST_VALUE + 2]


@dataclass(frozen=True)
class Problem:
    """One finding. `rule` is a word for programs; `message` has no line break."""

    path: str
    severity: Severity
    rule: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.severity}: {self.message}"

    def as_json(self) -> dict[str, Any]:
        return {"path": self.path, "severity": str(self.severity), "rule": self.rule, "message": self.message}


@dataclass
class Problems:
    """Collects findings in the order in which they are met; after the first two hundred of a severity they are only
    counted."""

    found: list[Problem] = field(default_factory=list)
    left_out: int = 0

    def error(self, where: str, message: str, rule: str = "invalid") -> None:
        self._add(Problem(where, Severity.ERROR, rule, message))

    def warning(self, where: str, message: str, rule: str) -> None:
        self._add(Problem(where, Severity.WARNING, rule, message))

    def ignored(self, where: str, message: str, rule: str = "not modelled") -> None:
        self._add(Problem(where, Severity.IGNORED, rule, message))

    def _add(self, problem: Problem) -> None:
        if sum(other.severity is problem.severity for other in self.found) >= _MOST:
            self.left_out += 1
        elif problem not in self.found:
            self.found.append(problem)

    def of(self, severity: Severity) -> list[Problem]:
        return [problem for problem in self.found if problem.severity is severity]

    @property
    def errors(self) -> list[Problem]:
        return self.of(Severity.ERROR)

    @property
    def warnings(self) -> list[Problem]:
        return self.of(Severity.WARNING)


class ConfigDbError(UsageError):
    """A config_db.json that cannot be used, with everything that is wrong with it."""

    def __init__(self, name: str, problems: Iterable[Problem], left_out: int = 0) -> None:
        self.problems = tuple(problems)
        lines = [f"{name}: {problem}" for problem in self.problems]
        if left_out:
            lines.append(f"{name}: and {left_out} more")
        super().__init__("\n".join(lines))
