"""The measurements of a case of the standard in the lab: claims of its run, with the moment of each.

The command makes rows of the standard's record of them (`testbed.lab.studies.plan_rows`).
"""

from __future__ import annotations

import time
from typing import Any

from testbed.experiment.run import Run
from testbed.lab.studies.plan_rows import ENDS, MOMENTS, claim_name


class Measured:
    """The claims of a case."""

    def __init__(self, run: Run, case: str, scale: int) -> None:
        self.run, self.case, self.scale = run, case, scale
        self._moments: list[int] = []
        self.ends = ("-", "-")
        """The addresses of source and destination."""

    def begins(self, net: Any, source: str = "h1", target: str = "r") -> None:
        """Note whose addresses the record gets."""
        self.ends = net[source].IP(), net[target].IP()

    def claim(self, what: str, measured: Any, frame: int | str = "-", settings: str = "", **bounds: Any) -> None:
        """Report a quantity beside what the standard expects."""
        self._moments.append(time.monotonic_ns() // self.scale)
        self.run.claim(claim_name(what, frame, settings), measured, **bounds)

    def share(self, what: str, theory: float, measured: float, frame: int | str = "-", settings: str = "") -> None:
        """Report a share of the line, which is within 5 % of theory (6.2 of the standard)."""
        found = round(measured, 4)
        self.claim(what, found, frame, settings, at_least=round(theory * 0.9501, 4), at_most=round(theory * 1.0499, 4))

    def end(self) -> None:
        """Report moments and addresses, for the record."""
        self.run.figure(MOMENTS, self._moments)
        self.run.figure(ENDS, list(self.ends))
