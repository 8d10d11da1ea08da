"""The outcome of conformance cases: a result for each case and column, and the file `conformance.json`.

A column is a switch: the default one at a speed and with a buffer model, or the user's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from testbed.errors import UsageError
from testbed.experiment.definition import Experiment
from testbed.lab.results.foreign import ForeignFolder
from testbed.lab.results.result import Claim, Figure, Result, Status
from testbed.net.watch.description import NOT_COUNTED
from testbed.units import written

FILE = "conformance.json"
"""The file in the folder of the run, beside the result folders."""
SCHEMA = 1
_NUMBERED = re.compile(r"([ly]\d\d|tc\d\d|pt\d\d|lr\d\d)_", re.ASCII)
PLANS = ("pfc", "rocev2", "trimming", "llr")
"""SONiC's plans, by the words of `--plan`."""


def case_name(experiment: str) -> str:
    """Return a plan's name for the case of an experiment: L01 of l01_storm, WATCHDOG-TIMER of watchdog_timer."""
    match = _NUMBERED.match(experiment)
    return (match[1] if match else experiment.replace("_", "-")).upper()


def plan_of(case: str) -> str:
    """Return the plan that a case is of, by its name: TC01 to TC11 are the RoCEv2 plan's, PT01 to PT13 trimming's, and
    LR01 to LR20 that of LLR.
    """
    return {"TC": PLANS[1], "PT": PLANS[2], "LR": PLANS[3]}.get(case[:2], PLANS[0])


def ports_of(case: Experiment) -> int:
    """Return the number of ports of one kind that a case takes."""
    return int(getattr(case.body, "ports", 1))


def in_order(experiments: Iterable[Experiment]) -> dict[str, Experiment]:
    """Return cases by their names: those that a plan numbers, then the others."""
    by_name = {case_name(one.name): one for one in experiments}
    return dict(sorted(by_name.items(), key=lambda item: (not _NUMBERED.match(item[1].name), item[0])))


@dataclass(frozen=True)
class Cell:
    """The outcome of one case on one switch."""

    case: str
    column: str
    passed: bool
    reason: str
    """The reason why the run ended early; empty if it came to its end."""
    claims: tuple[Claim, ...]
    figures: tuple[Figure, ...]
    folder: str
    """The name of the result folder."""
    digest: str

    @classmethod
    def of(cls, column: str, result: Result) -> Cell:
        ended = result.status is Status.OK
        return cls(
            case_name(result.experiment), column, result.passed, "" if ended else result.reason or str(result.status),
            result.claims, result.figures, result.folder.name if result.folder else "", result.digest,
        )  # fmt: skip

    @property
    def main(self) -> Claim | None:
        """The claim that the matrix shows, which is the case's first; networks add a claim of their own."""
        return next((claim for claim in self.claims if claim.name != NOT_COUNTED), None)

    @property
    def measured(self) -> str:
        """The text that the matrix shows: the measured value of the main claim, or of the first claim that failed, with
        its name."""
        main, failed = self.main, self.failed_claims
        if failed and failed[0] is not main:
            return f"{failed[0].name}: {written(failed[0].measured, failed[0].unit)}"
        return written(main.measured, main.unit) if main else ""

    @property
    def failed_claims(self) -> list[Claim]:
        return [claim for claim in self.claims if not claim.passed]


@dataclass(frozen=True)
class ColumnPorts:
    """The ports of the user's switch that a column is about, by their SONiC names."""

    column: str
    ports: tuple[str, ...]
    """The ports with hosts: h1 is at the first."""
    about: str
    """The first port in words: speed and cable of the hardware, its profile and its headroom."""
    remedy: str = ""
    """The setting to change where the first port has too little headroom; empty where it has enough."""
    left_out: tuple[str, ...] = ()
    """Cases that take more ports of one kind than there are."""

    @property
    def in_words(self) -> str:
        cases = f"; {', '.join(self.left_out)} take more ports of one kind, and are left out" if self.left_out else ""
        return f"hosts at {', '.join(self.ports)}; {self.ports[0]}: {self.about}{cases}"


@dataclass(frozen=True)
class Matrix:
    """All cells of a run; columns and cases are in the order in which they were run."""

    switch: str
    """The user's file; empty for the default switch."""
    columns: tuple[str, ...]
    summaries: dict[str, str]
    """A sentence about each case, by its name."""
    cells: tuple[Cell, ...]
    tested: tuple[ColumnPorts, ...] = ()
    """The ports that each column tested, where the switch is the user's; empty otherwise."""

    @property
    def passed(self) -> bool:
        return all(cell.passed for cell in self.cells)

    def cell(self, case: str, column: str) -> Cell | None:
        """Return the cell of a case and a column, or None if that run was not made."""
        return next((one for one in self.cells if (one.case, one.column) == (case, column)), None)

    def as_json(self) -> dict[str, Any]:
        return {
            "schema": SCHEMA,
            "switch": self.switch,
            "passed": self.passed,
            "columns": list(self.columns),
            "cases": [{"case": case, "summary": summary} for case, summary in self.summaries.items()],
            "cells": [asdict(cell) for cell in self.cells],
            "tested": [asdict(one) for one in self.tested],
        }

    @classmethod
    def read(cls, folder: Path) -> Matrix:
        """Read the matrix of a folder."""
        with ForeignFolder(folder).reading(FILE, "`xoff switch conformance`", UsageError) as content:
            return cls(
                str(content["switch"]),
                tuple(map(str, content["columns"])),
                {str(one["case"]): str(one["summary"]) for one in content["cases"]},
                tuple(map(_cell, content["cells"])),
                tuple(map(_tested, content.get("tested", ()))),
            )


def _tested(content: dict[str, Any]) -> ColumnPorts:
    column, about, remedy = (str(content[name]) for name in ("column", "about", "remedy"))
    ports, left_out = (tuple(map(str, content[name])) for name in ("ports", "left_out"))
    if not ports:
        raise ValueError(f"column {column[:40]!r} has no ports")
    return ColumnPorts(column, ports, about, remedy, left_out)


def _cell(content: dict[str, Any]) -> Cell:
    lists = {"claims": tuple(map(Claim.of, content["claims"])), "figures": tuple(map(Figure.of, content["figures"]))}
    return Cell(**content | lists)
