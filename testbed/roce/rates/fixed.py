"""A constant rate.

Runs in C: `testbed/lab/um/linux/xoff_roce_user.c`.
"""

from __future__ import annotations

from testbed.roce.rates.base import KernelRate, RateControl, register
from testbed.units import Line, Rate


class Fixed(RateControl):
    """A rate on the wire in the lab; without one, the line's."""

    def __init__(self, line: Line, rate: Rate | None = None) -> None:
        super().__init__(line)
        if rate is not None:
            self.rate_lab_bps = min(rate.bps, line.rate.bps)

    def in_kernel(self) -> tuple[KernelRate, dict[str, float]] | None:
        if type(self) is not Fixed:
            return None
        return KernelRate.FIXED, {"rate_bps": self.rate_lab_bps, "line_bps": self.line.rate.bps}


register("fixed", Fixed)
