"""TIMELY: a rate by the gradient of the round trip.

Source: Mittal et al., "TIMELY: RTT-based Congestion Control for the Datacenter", SIGCOMM 2015, section 4.3 and its
parameters. At each completion, with rtt the round trip and d the moving average of its differences, each divided by the
minimum round trip,

    rtt < T_low           rate += delta
    rtt > T_high          rate *= 1 - beta (1 - T_high / rtt)
    d <= 0                rate += N delta, N = 5 from the fifth time in a row on, else 1
    else                  rate *= 1 - beta d

It needs no marks and no notifications. Two things differ, since a queue pair measures one round trip after the other,
not one for each segment (decision 0371): a difference is divided by the time between the two measurements if that is
longer than the minimum round trip, and delta is a part of the line.

Runs in C: `testbed/lab/um/linux/xoff_roce_user.c`.
"""

from __future__ import annotations

from dataclasses import dataclass

from testbed.roce.rates.base import KernelRate, RateControl, RateControlError, register
from testbed.units import Duration, Line, Rate, read_quantities

_STEPS = 250


@dataclass(frozen=True)
class TimelyParameters:
    """The parameters of TIMELY, which are those of hardware; `Line.scale` brings them to the lab."""

    low: Duration = Duration("50us")
    high: Duration = Duration("500us")
    minimum_round_trip: Duration = Duration("20us")
    additive_increase: Rate | None = None
    """delta. None: a 250th of the line; the paper has 10 Mb/s on a line of 10 Gb/s."""
    average: float = 0.875
    """The weight of a new difference."""
    decrease: float = 0.8
    hyper_after: int = 5
    minimum: Rate = Rate("10Mb/s")

    def __post_init__(self) -> None:
        read_quantities(self)
        if not self.low < self.high:
            raise RateControlError(f"TIMELY's low is {self.low} and its high {self.high}; low is below high")
        if not self.minimum_round_trip.ns:
            raise RateControlError("TIMELY's minimum_round_trip is 0; it is above 0")
        for name, value in (("average", self.average), ("decrease", self.decrease)):
            if not 0 < value <= 1:
                raise RateControlError(f"TIMELY's {name} is {value}; it is above 0 and at most 1")


class Timely(RateControl):
    """One flow's rate and gradient."""

    def __init__(self, line: Line, parameters: TimelyParameters | None = None) -> None:
        super().__init__(line)
        self.parameters = k = parameters or TimelyParameters()
        self._low_ns, self._high_ns = line.scale.lab(k.low).ns, line.scale.lab(k.high).ns
        self._least_ns = line.scale.lab(k.minimum_round_trip).ns
        step = line.rate // _STEPS if k.additive_increase is None else line.scale.lab(k.additive_increase)
        self._step_bps = step.bps
        self._minimum_bps = min(line.scale.lab(k.minimum).bps, line.rate.bps)
        self._previous: tuple[int, int] | None = None
        """The last round trip, and when it was measured."""
        self.gradient = 0.0
        """The averaged growth of round trips; 0.5: a queue gets longer by half a second of the line in each second."""
        self._falling = 0

    def on_round_trip(self, now_lab_ns: int, round_trip_lab_ns: int) -> None:
        k = self.parameters
        if self._previous is not None:
            previous_ns, at_ns = self._previous
            growth = (round_trip_lab_ns - previous_ns) / max(self._least_ns, now_lab_ns - at_ns)
            self.gradient = (1 - k.average) * self.gradient + k.average * growth
        self._previous = round_trip_lab_ns, now_lab_ns
        rate = self.rate_lab_bps
        if round_trip_lab_ns < self._low_ns:
            self._falling = 0
            rate += self._step_bps
        elif round_trip_lab_ns > self._high_ns:
            self._falling = 0
            rate *= 1 - k.decrease * (1 - self._high_ns / round_trip_lab_ns)
        elif self.gradient <= 0:
            self._falling += 1
            rate += self._step_bps * (5 if self._falling >= k.hyper_after else 1)
        else:
            self._falling = 0
            rate *= max(0.0, 1 - k.decrease * self.gradient)
        self.rate_lab_bps = float(min(max(rate, self._minimum_bps), self.line.rate.bps))

    def in_kernel(self) -> tuple[KernelRate, dict[str, float]] | None:
        if type(self) is not Timely:
            return None
        k = self.parameters
        return KernelRate.TIMELY, {
            "rate_bps": self.rate_lab_bps,
            "line_bps": self.line.rate.bps,
            "additive_bps": self._step_bps,
            "minimum_bps": self._minimum_bps,
            "average": k.average,
            "decrease": k.decrease,
            "low_ns": self._low_ns,
            "high_ns": self._high_ns,
            "least_ns": self._least_ns,
            "hyper_after": k.hyper_after,
        }

    def state(self) -> dict[str, float]:
        return {"rate_lab_bps": self.rate_lab_bps, "gradient": self.gradient}


register("timely", Timely)
