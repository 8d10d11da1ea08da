"""HPCC: a window by what the ports on the way say of their queues and lines (INT).

Source: Li et al., "HPCC: High Precision Congestion Control", SIGCOMM 2019, algorithm 1. At each acknowledgement, for
each port on the way, with the stamps of this acknowledgement and of the one before,

    u = min(queue, queue before) / (B T) + (octets sent between) / (time between) / B

The largest u is the way's; U is its average, U = (1 - t / T) U + (t / T) u with t the time between, at most T. Then

    U >= eta, or `stages` increases in a row       W = Wc / (U / eta) + W_AI
    else                                            W = Wc + W_AI

Wc follows W once in a round trip: at the first acknowledgement of a packet that was sent after Wc was last set. The
pace is W / T. T is the round trip of a packet without queues, which is a setting, and the first window is B T.

Ports stamp a packet when it comes to its queue, not when it leaves it (decision 0575): what they say is older by the
time in that queue. Both parts of u are of one moment, so that u is right for it.
"""

from __future__ import annotations

from dataclasses import dataclass

from testbed.frames.telemetry import Stamp
from testbed.roce.rates.base import Acknowledgement, RateControl, RateControlError, register
from testbed.units import Duration, Line, Size, read_quantities

_STALE_NS = 1 << 31
"""Stamps that are further apart cannot be told from those of another turn of their clock."""

_LEAST_LOAD = 1e-6
"""A way over which nothing was sent between two stamps: no division by 0."""


@dataclass(frozen=True)
class HpccParameters:
    """The parameters of HPCC, whose times are those of hardware; `Line.scale` brings them to the lab."""

    base_round_trip: Duration = Duration("13us")
    """T; not less than the round trip of a packet without queues, or the line is not filled."""
    utilisation: float = 0.95
    """eta"""
    stages: int = 5
    """maxStage"""
    additive_increase: Size | None = None
    """W_AI. None: W_init (1 - eta) / `flows`."""
    flows: int = 20
    """The most flows that are to share a line without a queue."""

    def __post_init__(self) -> None:
        read_quantities(self)
        if not self.base_round_trip.ns:
            raise RateControlError("HPCC's base_round_trip is 0; it is above 0")
        if not 0 < self.utilisation <= 1:
            raise RateControlError(f"HPCC's utilisation is {self.utilisation}; it is above 0 and at most 1")
        if self.stages < 0 or self.flows < 1:
            raise RateControlError(f"HPCC's stages are {self.stages} and flows {self.flows}; 0 and 1 are the least")


class Hpcc(RateControl):
    """One flow's window, and the stamps of its last acknowledgement."""

    counts_acknowledgements = True
    needs_telemetry = True

    def __init__(self, line: Line, parameters: HpccParameters | None = None) -> None:
        super().__init__(line)
        self.parameters = k = parameters or HpccParameters()
        self._base_ns = line.scale.lab(k.base_round_trip).ns
        self._first_octets = line.rate.bps * self._base_ns / 8_000_000_000
        given = k.additive_increase
        self._step_octets = float(given.bytes) if given else self._first_octets * (1 - k.utilisation) / k.flows
        self.window_octets = self._reference = self._first_octets
        """W and Wc."""
        self.load = 0.0
        """U"""
        self._stage = 0
        self._update_from = -1
        self._before: tuple[Stamp, ...] = ()
        self._before_ns = 0
        self._packet_octets = 1
        self._apply()

    def on_sent(self, now_lab_ns: int, octets: int) -> None:
        if octets > self._packet_octets:
            self._packet_octets = octets
            self._apply()

    def on_acknowledged(self, now_lab_ns: int, acknowledged: Acknowledgement) -> None:
        stamps, before, before_ns = acknowledged.stamps, self._before, self._before_ns
        if not stamps:
            return  # nothing on the way stamps
        self._before, self._before_ns = stamps, now_lab_ns
        if len(before) != len(stamps) or now_lab_ns - before_ns >= _STALE_NS:
            return  # the first ones, or those of another way
        is_next_round = acknowledged.until > self._update_from
        self._measure(before, stamps)
        self._decide(is_next_round)
        if is_next_round:
            self._update_from = acknowledged.next
        self._apply()

    def state(self) -> dict[str, float]:
        return {"rate_lab_bps": self.rate_lab_bps, "window_octets": self.window_octets, "load": self.load}

    def _measure(self, before: tuple[Stamp, ...], stamps: tuple[Stamp, ...]) -> None:
        most, between_ns = -1.0, 0
        for old, new in zip(before, stamps, strict=True):
            time_ns, octets = new.since(old)
            if not time_ns or not new.kbps:
                continue
            line_octets = new.kbps / 8_000_000  # in a nanosecond
            queue = min(new.queue_octets, old.queue_octets) / (line_octets * self._base_ns)
            load = queue + octets / time_ns / line_octets
            if load > most:
                most, between_ns = load, time_ns
        if most >= 0:
            weight = min(between_ns, self._base_ns) / self._base_ns
            self.load = (1 - weight) * self.load + weight * most

    def _decide(self, is_next_round: bool) -> None:
        k = self.parameters
        if self.load >= k.utilisation or self._stage >= k.stages:
            self.window_octets = self._reference * k.utilisation / max(self.load, _LEAST_LOAD) + self._step_octets
            stage = 0
        else:
            self.window_octets = self._reference + self._step_octets
            stage = self._stage + 1
        self.window_octets = min(max(self.window_octets, self._step_octets), self._first_octets)
        if is_next_round:
            self._stage, self._reference = stage, self.window_octets

    def _apply(self) -> None:
        self.window = max(1, -(-int(self.window_octets) // self._packet_octets))
        self.rate_lab_bps = min(self.window_octets * 8_000_000_000 / self._base_ns, float(self.line.rate.bps))


register("hpcc", Hpcc)
