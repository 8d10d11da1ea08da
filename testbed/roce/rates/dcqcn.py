"""DCQCN's reaction point: how a sender answers congestion notifications.

Source: Zhu et al., "Congestion Control for Large-Scale RDMA Deployments", SIGCOMM 2015, section 3. A flow starts at
line rate. On a CNP

    Rt = Rc,   Rc = Rc (1 - alpha / 2),   alpha = (1 - g) alpha + g

and without one alpha = (1 - g) alpha at every `alpha_interval`. A timer and a byte counter count events since the last
decrease, T and B. At each event: while max(T, B) < F, fast recovery Rc = (Rt + Rc) / 2; once min(T, B) > F, hyper
increase; else additive increase. Both raise Rt first, and then Rc = (Rt + Rc) / 2.

`PAPER` has the paper's parameters. The paper leaves the rate of hyper increase open; it is that of the simulator that
its authors published (ns3-rdma). The minimum has no source: a rate must not reach 0. `MLX` is the variant of the
simulator of HPCC (Li et al., SIGCOMM 2019), which many others took from it, with the parameters of its configuration
file. It differs in three ways:

- Alpha is updated by a timer of its own, up if a CNP came since the last time, else down. It starts with the first
  CNP.
- The rate is decreased by a timer of its own, each `decrease_interval`, if a CNP came since the last time. It starts
  with the first CNP, which so decreases nothing at once, and 1 ns late, so that alpha's update of the same moment is
  before. Rt follows only if Rc has been increased since the last decrease.
- There is no byte counter, and the rate timer counts alone: T < F fast recovery, T == F additive, T > F hyper
  increase.

`CONNECTX` has the defaults that `mlxconfig` prints of cards of the ConnectX family: the same timers, with a byte
counter, so that stages are those of the paper, by both counters. What firmware can be set to beside that is in
`DcqcnParameters` from `decrease_divisor` on. `E810` has the defaults of Intel's driver of the E810, of which T, F and
the period of decreases are also the paper's, and the byte counter 150 000 octets; its increases are steps of a window,
where the paper's stay here. The lab's kernel knows none of these settings, nor separate timers with a
byte counter: such a flow is served by Python.

Runs in C: `testbed/lab/um/linux/xoff_roce_user.c`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from testbed.roce.rates.base import KernelRate, RateControl, RateControlError, register
from testbed.units import NEVER, Duration, Line, Rate, Size, read_quantities


@dataclass(frozen=True)
class DcqcnParameters:
    """The parameters of DCQCN, which are those of hardware; `Line.scale` brings them to the lab."""

    gain: float = 1 / 256
    """g"""
    initial_alpha: float = 1.0
    alpha_interval: Duration = Duration("55us")
    increase_interval: Duration = Duration("55us")
    byte_counter: Size | None = Size("10MB")
    fast_recovery: int = 5
    """F"""
    additive_increase: Rate = Rate("40Mb/s")
    hyper_increase: Rate = Rate("200Mb/s")
    minimum: Rate = Rate("40Mb/s")
    decrease_interval: Duration | None = None
    """The interval of decreases in the variant with separate timers; None: each CNP decreases the rate at once."""
    decrease_divisor: float = 2.0
    """Gd: a decrease is Rc = Rc (1 - alpha / Gd)."""
    least_decrease_factor: float = 0.0
    """The least part of its rate that a flow keeps in one decrease (min_dec_fac)."""
    first_rate: Rate | None = None
    """The rate that the first CNP sets (rate_to_set_on_first_cnp); None: it decreases like any other."""
    clamp_target: bool = False
    """True: Rt follows at every decrease, also with separate timers (clamp_tgt_rate)."""
    clamp_after_time: bool = True
    """With separate timers: True if Rt follows after the timer alone has increased the rate, and not only after the
    byte counter has (clamp_tgt_rate_after_time_inc)."""

    def __post_init__(self) -> None:
        read_quantities(self)
        for name, value, holds, meaning in (
            ("gain", self.gain, 0 < self.gain < 1, "between 0 and 1"),
            ("initial_alpha", self.initial_alpha, 0 < self.initial_alpha <= 1, "above 0 and at most 1"),
            ("fast_recovery", self.fast_recovery, self.fast_recovery >= 1, "1 or more"),
            ("alpha_interval", self.alpha_interval, self.alpha_interval.ns > 0, "1 ns or more"),
            ("increase_interval", self.increase_interval, self.increase_interval.ns > 0, "1 ns or more"),
            ("minimum", self.minimum, self.minimum.bps > 0, "above 0"),
            ("byte_counter", self.byte_counter, self.byte_counter is None or self.byte_counter.bytes > 0, "above 0"),
            ("decrease_divisor", self.decrease_divisor, self.decrease_divisor >= 1, "1 or more"),
            (
                "least_decrease_factor",
                self.least_decrease_factor,
                0 <= self.least_decrease_factor < 1,
                "0 or more and below 1",
            ),
            ("first_rate", self.first_rate, self.first_rate is None or self.first_rate.bps > 0, "above 0"),
        ):
            if not holds:
                raise RateControlError(f"DCQCN's {name} is {value}; it is {meaning}")

    @property
    def in_kernel(self) -> bool:
        """True if the lab's kernel knows all of these settings."""
        known = {name: getattr(PAPER, name) for name in _NOT_IN_KERNEL}
        both = self.decrease_interval is not None and self.byte_counter is not None
        return not both and all(getattr(self, name) == value for name, value in known.items())


_NOT_IN_KERNEL = "decrease_divisor", "least_decrease_factor", "first_rate", "clamp_target", "clamp_after_time"

PAPER = DcqcnParameters()
MLX = replace(
    PAPER,
    alpha_interval=Duration("1us"),
    increase_interval=Duration("900us"),
    byte_counter=None,
    fast_recovery=1,
    additive_increase=Rate("50Mb/s"),
    hyper_increase=Rate("100Mb/s"),
    minimum=Rate("100Mb/s"),
    decrease_interval=Duration("4us"),
)

CONNECTX = DcqcnParameters(
    gain=5 / 1024,
    initial_alpha=1023 / 1024,
    alpha_interval=Duration("1us"),
    increase_interval=Duration("300us"),
    byte_counter=Size.from_bytes(32_767 * 64),
    fast_recovery=1,
    additive_increase=Rate("5Mb/s"),
    hyper_increase=Rate("50Mb/s"),
    minimum=Rate("1Mb/s"),
    decrease_interval=Duration("4us"),
    least_decrease_factor=0.5,
)

E810 = replace(
    PAPER,
    byte_counter=Size.from_bytes(150_000),
    decrease_interval=Duration("50us"),
    least_decrease_factor=0.01,
)

_BEHIND_ALPHA = Duration("1ns")
"""The time between alpha's update and the variant's decrease, which would be at one moment."""


class Dcqcn(RateControl):
    """One flow's Rc, Rt and alpha."""

    needs_marks = True

    def __init__(self, line: Line, parameters: DcqcnParameters = PAPER) -> None:
        super().__init__(line)
        self.parameters = parameters
        scale, k = line.scale, parameters
        self._line_bps = float(line.rate.bps)
        self._alpha_ns = scale.lab(k.alpha_interval).ns
        self._increase_ns = scale.lab(k.increase_interval).ns
        self._decrease_ns = 0 if k.decrease_interval is None else scale.lab(k.decrease_interval).ns
        self._bytes = k.byte_counter.bytes if k.byte_counter else 0
        self._additive_bps = scale.lab(k.additive_increase).bps
        self._hyper_bps = scale.lab(k.hyper_increase).bps
        self._minimum_bps = min(float(scale.lab(k.minimum).bps), self._line_bps)
        self._first_bps = None if k.first_rate is None else float(scale.lab(k.first_rate).bps)
        self.target_lab_bps = self._line_bps
        """Rt"""
        self.alpha = k.initial_alpha
        self.timer_events = self.byte_events = 0
        """T and B"""
        self._sent_octets = 0
        self._alpha_due_ns = self._increase_due_ns = self._decrease_due_ns = NEVER
        self._has_cnp = False  # since alpha was updated
        self._wants_decrease = False

    @property
    def deadline_lab_ns(self) -> int:
        # Alpha has no deadline: nothing but a decrease reads it, and that brings it up to date first.
        return min(self._increase_due_ns, self._decrease_due_ns if self._wants_decrease else NEVER)

    def on_cnp(self, now_lab_ns: int) -> None:
        self.on_deadline(now_lab_ns)
        if not self._decrease_ns:
            self._decrease(now_lab_ns)
            self.alpha = (1 - self.parameters.gain) * self.alpha + self.parameters.gain
            self._alpha_due_ns = now_lab_ns + self._alpha_ns
            return
        if self._alpha_due_ns == NEVER:  # the first CNP
            self._alpha_due_ns = now_lab_ns + self._alpha_ns
            self._decrease_due_ns = now_lab_ns + self._decrease_ns + self.line.scale.lab(_BEHIND_ALPHA).ns
        else:
            self._has_cnp = True
            late_ns = now_lab_ns - self._decrease_due_ns  # the timer runs on while no CNP comes
            self._decrease_due_ns += max(0, -(-late_ns // self._decrease_ns)) * self._decrease_ns
        self._wants_decrease = True
        self.on_deadline(now_lab_ns)

    def on_sent_run(self, now_lab_ns: int, octets: int, many: int) -> None:
        if self._bytes and self._increase_due_ns != NEVER:
            super().on_sent_run(now_lab_ns, octets, many)

    def on_sent(self, now_lab_ns: int, octets: int) -> None:
        if not self._bytes or self._increase_due_ns == NEVER:
            return  # before the first CNP the rate is the line's
        self._sent_octets += octets
        if self._sent_octets >= self._bytes:
            self._sent_octets -= self._bytes
            self.byte_events += 1
            self._increase()

    def on_deadline(self, now_lab_ns: int) -> None:
        while True:
            due_ns = min(self.deadline_lab_ns, self._alpha_due_ns)
            if due_ns > now_lab_ns:
                return
            if due_ns == self._alpha_due_ns:
                self._update_alpha(now_lab_ns)
            elif self._wants_decrease and due_ns == self._decrease_due_ns:
                self._decrease(due_ns)
                self._decrease_due_ns += self._decrease_ns
            else:
                self._increase_due_ns += self._increase_ns
                self.timer_events += 1
                self._increase()

    def settle(self, now_lab_ns: int) -> None:
        self.on_deadline(now_lab_ns)  # alpha's updates have no deadline of their own

    def in_kernel(self) -> tuple[KernelRate, dict[str, float]] | None:
        if type(self) is not Dcqcn or not self.parameters.in_kernel:
            return None
        return KernelRate.DCQCN, {
            "rate_bps": self.rate_lab_bps,
            "line_bps": self._line_bps,
            "gain": self.parameters.gain,
            "alpha": self.alpha,
            "additive_bps": self._additive_bps,
            "hyper_bps": self._hyper_bps,
            "minimum_bps": self._minimum_bps,
            "alpha_ns": self._alpha_ns,
            "increase_ns": self._increase_ns,
            "decrease_ns": self._decrease_ns,
            "behind_ns": self.line.scale.lab(_BEHIND_ALPHA).ns,
            "bytes": self._bytes,
            "recovery": self.parameters.fast_recovery,
        }

    def state(self) -> dict[str, float]:
        return {"rate_lab_bps": self.rate_lab_bps, "target_lab_bps": self.target_lab_bps, "alpha": self.alpha}

    def _update_alpha(self, now_lab_ns: int) -> None:
        """Each update that is due until now, or until the next thing that is due; all but the first are decays."""
        gain, until_ns = self.parameters.gain, min(now_lab_ns, self.deadline_lab_ns)
        times = max(1, (until_ns - self._alpha_due_ns) // self._alpha_ns + 1)
        self.alpha *= _power(1 - gain, times)
        if self._has_cnp:
            self.alpha += gain * _power(1 - gain, times - 1)
            self._has_cnp = False
        self._alpha_due_ns += times * self._alpha_ns

    def _decrease(self, now_lab_ns: int) -> None:
        k, before_bps = self.parameters, self.rate_lab_bps
        has_increased = self.byte_events or (self.timer_events and k.clamp_after_time)
        if not self._decrease_ns or k.clamp_target or has_increased:
            self.target_lab_bps = before_bps
        factor = max(1 - self.alpha / k.decrease_divisor, k.least_decrease_factor)
        if self._first_bps is None:
            self.rate_lab_bps = max(self._minimum_bps, before_bps * factor)
        else:
            self.rate_lab_bps = max(self._minimum_bps, min(self._first_bps, before_bps))
            self._first_bps = None
        self.timer_events = self.byte_events = self._sent_octets = 0
        self._increase_due_ns = now_lab_ns + self._increase_ns
        self._wants_decrease = False

    def _increase(self) -> None:
        recovery = self.parameters.fast_recovery
        if self._decrease_ns and not self._bytes:  # the count before this event decides
            stage = self.timer_events - 1
            least = most = stage
        else:
            least, most = sorted((self.timer_events, self.byte_events))
        if least > recovery:
            self.target_lab_bps += self._hyper_bps
        elif most >= recovery:
            self.target_lab_bps += self._additive_bps
        self.target_lab_bps = min(self.target_lab_bps, self._line_bps)
        self.rate_lab_bps = min((self.target_lab_bps + self.rate_lab_bps) / 2, self._line_bps)


def _power(base: float, exponent: int) -> float:
    """Return a power, by squaring: the kernel has no other, and C libraries differ in the last bit of theirs."""
    found = 1.0
    while exponent:
        if exponent & 1:
            found *= base
        base *= base
        exponent >>= 1
    return found


def _paper(line: Line) -> Dcqcn:
    return Dcqcn(line, PAPER)


def _mlx(line: Line) -> Dcqcn:
    return Dcqcn(line, MLX)


def _connectx(line: Line) -> Dcqcn:
    return Dcqcn(line, CONNECTX)


def _e810(line: Line) -> Dcqcn:
    return Dcqcn(line, E810)


register("dcqcn", _paper)
register("dcqcn-mlx", _mlx)
register("dcqcn-connectx", _connectx)
register("dcqcn-e810", _e810)
