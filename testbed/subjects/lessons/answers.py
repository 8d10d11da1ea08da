"""The kinds of questions: a number, a name, or a choice. Answers are compared with the student's own run."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from testbed.errors import UsageError
from testbed.subjects.lessons.check import NotYet, Seen
from testbed.units import Quantity, written


@dataclass(frozen=True)
class Number:
    """A question for a number, or with `unit` for a quantity such as "3.2ms", which may be off by a part of it."""

    key: str
    text: str
    truth: Callable[[Seen], float]
    hint: str
    unit: type[Quantity] | None = None
    within: float = 0.0

    @property
    def form(self) -> str:
        return f'text with a unit, as in "{self.unit.example}"' if self.unit else "a number"

    def solution(self, seen: Seen) -> str | float:
        value = self.truth(seen)
        return written(round(value), self.unit.reported) if self.unit else value

    def judge(self, given: Any, seen: Seen) -> None:
        """Raise NotYet unless `given` is right."""
        if self.unit:
            try:
                found: float = self.unit(str(given)).number
            except UsageError as error:
                raise NotYet(f"{error}") from None
        elif isinstance(given, bool) or not isinstance(given, int | float):
            raise NotYet(f"{given!r} is not a number; {self.form} is expected")
        else:
            found = given
        right = self.truth(seen)
        if abs(found - right) > abs(right) * self.within:
            raise NotYet(self.hint)


@dataclass(frozen=True)
class Name:
    """A question for a name, of which several may be right."""

    key: str
    text: str
    truth: Callable[[Seen], Collection[str]]
    hint: str
    form: str = "a name"

    def solution(self, seen: Seen) -> str:
        return min(self.truth(seen))

    def judge(self, given: Any, seen: Seen) -> None:
        if str(given).strip().lower() not in {name.lower() for name in self.truth(seen)}:
            raise NotYet(self.hint)


@dataclass(frozen=True)
class Choice:
    """A question with several answers, of which one is chosen by its letter."""

    key: str
    text: str
    choices: Mapping[str, str]
    right: str
    hint: str

    @property
    def form(self) -> str:
        return "a letter"

    def solution(self, seen: Seen) -> str:
        return self.right

    def judge(self, given: Any, seen: Seen) -> None:
        letter = str(given).strip().lower()
        if letter not in self.choices:
            raise NotYet(f"{given!r} is none of {', '.join(self.choices)}")
        if letter != self.right:
            raise NotYet(self.hint)


Question = Number | Name | Choice
