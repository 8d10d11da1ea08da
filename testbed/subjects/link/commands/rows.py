"""The rows of a case that runs on a model of a link, and what a row compares."""

from __future__ import annotations

from typing import Protocol

from testbed.lab.studies.plan_rows import PlanRow, near


class Timed(Protocol):
    """A model with a time."""

    @property
    def now_ns(self) -> int:
        """The model's time."""
        ...


class Rows:
    """The rows of a case."""

    def __init__(self, case: str, model: str) -> None:
        self.case, self.model, self.made = case, model, list[PlanRow]()

    def add(self, link: Timed, what: str, expected: object, measured: object, *, passed: bool, **more: object) -> None:
        """Add what a link has given; `more` are settings, frame and notes."""
        words = {name: str(value) for name, value in more.items()}
        notes = "; ".join(filter(None, (self.model, words.pop("notes", ""))))
        row = PlanRow(self.case, what, str(expected), str(measured), passed, at_ns=link.now_ns, notes=notes, **words)
        self.made.append(row)

    def equal(self, link: Timed, what: str, expected: object, measured: object, **more: object) -> None:
        self.add(link, what, expected, measured, passed=expected == measured, **more)

    def share(self, link: Timed, what: str, theory: float, measured: float, **more: object) -> None:
        """Add a share of the line, which has to be within 5 % of theory."""
        words = f"{theory:.4f} of the line, within 5 %"
        self.add(link, what, words, f"{measured:.4f}", passed=near(measured, theory), **more)
