"""A constant rate."""

from __future__ import annotations

from testbed.roce.rates.base import Line, RateControl, register
from testbed.units import Rate


class Fixed(RateControl):
    """A rate on the wire in the lab; without one, the line's."""

    def __init__(self, line: Line, rate: Rate | None = None) -> None:
        super().__init__(line)
        if rate is not None:
            self.rate_bps = min(rate.bps, line.rate.bps)


register("fixed", Fixed)
