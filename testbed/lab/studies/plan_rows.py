"""Rows of a test plan that runs on models and in the lab beside them, and the plan's record of them, CSV.

The fields are those of SONiC's Scale-Up Test Standard, 6.1. A row that could not be run is no pass. In the lab a case
is a run of an experiment: its claims are the rows. A claim's name has the frames' length and the settings behind the
quantity, as `claim_name` puts them.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from testbed.lab.results.result import Claim, Result, Status, expectation
from testbed.units import written

FIELDS = (
    "Timestamp", "Scenario_ID", "Frame_Size", "Source_IP", "Dest_IP", "Test_Case", "Config_Params", "Expected_Value",
    "Measured_Value", "Pass/Fail", "Notes",
)  # fmt: skip
NOT_RUN = "NOT RUN"
MODEL, LAB = "model", "lab"
"""The origin of a row: the standard's Scenario_ID."""
MOMENTS = "moments of the claims in ns of the hardware"
ENDS = "addresses of source and destination"
"""The figures of a case in the lab that its rows have, too."""
SIZES = tuple(
    base + x for base in (64, 128, 256, 512, 1518, 2048, 4096, 9216) for x in (-1, 0, 1)
    if 64 <= base + x <= 9216 and (base, x) != (64, -1)
)  # fmt: skip
"""64+x, 128+x, ... 9216+x with x of 0, +1 and -1, but for 64-1 and 9216+1."""
_FRAME = "; frame "


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
    """The time of the model, or of the hardware that the lab stands for, when it was looked at."""
    notes: str = ""
    scenario: str = MODEL
    source: str = "-"
    destination: str = "-"

    @property
    def verdict(self) -> str:
        return NOT_RUN if self.passed is None else "PASS" if self.passed else "FAIL"


@dataclass(frozen=True)
class PlannedCase:
    """A case of the plan: the plan's own words, and the function that runs it."""

    text: str
    run: Callable[[], list[PlanRow]]
    """A function that runs it on a model."""
    experiment: str = ""
    """The file in `experiments/` that runs it in the lab, by its parameter `case`; empty: it has a model alone."""


Plan = Mapping[str, PlannedCase]
"""The cases of a plan by their names, in its order."""


def as_csv(rows: Iterable[PlanRow]) -> str:
    """Return the record of some rows."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(FIELDS)
    for one in rows:
        writer.writerow(
            (one.at_ns, one.scenario, one.frame, one.source, one.destination, one.case, one.settings,
             f"{one.what}: {one.expected}", one.measured, one.verdict, one.notes)
        )  # fmt: skip
    return out.getvalue()


def near(measured: float, theory: float, most: float = 0.05) -> bool:
    """Report whether a value is less than so much away from theory, 5 % by the standard's 6.2."""
    return measured == theory if not theory else abs(measured - theory) / theory < most


def claim_name(what: str, frame: object = "-", settings: str = "") -> str:
    """Return the name of a claim that is a row."""
    return f"{what}{_FRAME}{frame}; {settings}"


def rows_of_run(case: str, result: Result) -> list[PlanRow]:
    """Return the rows of a case that ran in the lab; one that fails if the run did not come to its end."""
    figures = {one.name: one.value for one in result.figures}
    moments, ends = iter(figures.get(MOMENTS, ())), figures.get(ENDS, ("-", "-"))
    rows = [_row_of(case, claim) for claim in result.claims]
    if result.status is not Status.OK:
        rows.append(PlanRow(case, "the run in the lab", "its end", result.reason or str(result.status), False))
    made = []
    for row in rows:
        at_ns = next(moments, 0) if row.frame else 0
        made.append(
            replace(row, frame=row.frame or "-", at_ns=at_ns, scenario=LAB, source=ends[0], destination=ends[1])
        )
    return made


def _row_of(case: str, claim: Claim) -> PlanRow:
    what, behind, rest = claim.name.partition(_FRAME)
    frame, _, settings = rest.partition("; ")
    measured = written(claim.measured, claim.unit)
    return PlanRow(case, what, expectation(claim), measured, claim.passed, settings, frame if behind else "")
