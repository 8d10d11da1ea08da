"""Rows of a test plan that runs on models rather than in the lab, and the plan's record of them, CSV.

The fields are those of SONiC's Scale-Up Test Standard, 6.1. A row that could not be run is no pass.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

FIELDS = (
    "Timestamp", "Scenario_ID", "Frame_Size", "Source_IP", "Dest_IP", "Test_Case", "Config_Params", "Expected_Value",
    "Measured_Value", "Pass/Fail", "Notes",
)  # fmt: skip
NOT_RUN = "NOT RUN"


@dataclass(frozen=True)
class PlanRow:
    """One thing that a case looks at."""

    case: str
    what: str
    """The quantity; a counter has its own name."""
    expected: str
    measured: str
    passed: bool | None
    """True if it came out; None if it was not run, for a reason that is in the notes."""
    settings: str = ""
    frame: str = "-"
    """The lengths of frames, with FCS."""
    at_ns: int = 0
    """The time of the model when it was looked at."""
    notes: str = ""

    @property
    def verdict(self) -> str:
        return NOT_RUN if self.passed is None else "PASS" if self.passed else "FAIL"


@dataclass(frozen=True)
class PlannedCase:
    """A case of the plan: the plan's own words, and the function that runs it."""

    text: str
    run: Callable[[], list[PlanRow]]


Plan = Mapping[str, PlannedCase]
"""The cases of a plan by their names, in its order."""


def as_csv(rows: Iterable[PlanRow]) -> str:
    """Return the record of some rows."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(FIELDS)
    for one in rows:
        writer.writerow((one.at_ns, "model", one.frame, "-", "-", one.case, one.settings, f"{one.what}: {one.expected}",
                         one.measured, one.verdict, one.notes))  # fmt: skip
    return out.getvalue()


def near(measured: float, theory: float, most: float = 0.05) -> bool:
    """Report whether a value is less than so much away from theory, 5 % by the standard's 6.2."""
    return measured == theory if not theory else abs(measured - theory) / theory < most
