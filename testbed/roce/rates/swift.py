"""Swift: a window by the difference between the round trip and a target.

Source: Kumar et al., "Swift: Delay is Simple and Effective for Congestion Control in the Datacenter", SIGCOMM 2020,
algorithm 1 and section 3.5. With cwnd the window in packets, at each acknowledgement of n packets

    delay < target                      cwnd += ai n / cwnd, or ai n if cwnd < 1
    else, once in a round trip          cwnd *= max(1 - beta (delay - target) / delay, 1 - max_mdf)

    target = base + hops h + max(0, min(a / sqrt(cwnd) + b, range))
    a = range / (1 / sqrt(least) - 1 / sqrt(most)),  b = -a / sqrt(most)

where `range` is added in full at `least` packets of window and not at all at `most`. A window below one packet is a
pace: one packet under way, and one in round trip / cwnd. After a loss cwnd *= 1 - max_mdf, once in a round trip; after
`reset_after` retransmissions in a row it is the minimum.

Delay here is the whole round trip, from the packet that is given to the port to its acknowledgement. Hosts of the lab
have no delay of their own, so that it is the fabric's, and Swift's second window, for the delay of hosts, is not there.
The way of a packet through bridges does not show in its TTL, so `hops` is a setting.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from testbed.roce.rates.base import Acknowledgement, RateControl, RateControlError, register
from testbed.units import Duration, Line, read_quantities


@dataclass(frozen=True)
class SwiftParameters:
    """The parameters of Swift, whose times are those of hardware; `Line.scale` brings them to the lab."""

    base_target: Duration = Duration("20us")
    """The target of a flow with a large window over no hop at all."""
    hop: Duration = Duration("3us")
    """The target for each hop."""
    hops: int = 2
    """The hops of the flow's way: its cables."""
    flow_range: Duration = Duration("100us")
    """The most that small windows, that is many flows, add to the target."""
    flow_least: float = 0.1
    flow_most: float = 100.0
    """The windows at which all of `flow_range` is added, and nothing."""
    additive_increase: float = 1.0
    """ai, in packets for each round trip."""
    decrease: float = 0.8
    """beta"""
    most_decrease: float = 0.5
    """max_mdf"""
    least_window: float = 0.01
    most_window: float = 1000.0
    reset_after: int = 5

    def __post_init__(self) -> None:
        read_quantities(self)
        if not 0 < self.flow_least < self.flow_most:
            raise RateControlError(
                f"Swift's flow_least is {self.flow_least} and flow_most {self.flow_most}; the least is above 0 and "
                "below the most"
            )
        if not 0 < self.least_window < self.most_window or self.most_window < 1:
            raise RateControlError(
                f"Swift's windows are {self.least_window} to {self.most_window} packets; the least is above 0 and "
                "below the most, which is 1 or more"
            )
        if not self.base_target.ns or self.hops < 0:
            raise RateControlError(
                f"Swift's base_target is {self.base_target} and hops {self.hops}; it waits for no time"
            )
        for name, value in (("decrease", self.decrease), ("most_decrease", self.most_decrease)):
            if not 0 < value < 1:
                raise RateControlError(f"Swift's {name} is {value}; it is between 0 and 1")
        if self.additive_increase <= 0:
            raise RateControlError(f"Swift's additive_increase is {self.additive_increase}; it is above 0")


class Swift(RateControl):
    """One flow's window and target."""

    counts_acknowledgements = True

    def __init__(self, line: Line, parameters: SwiftParameters | None = None) -> None:
        super().__init__(line)
        self.parameters = k = parameters or SwiftParameters()
        self._base_ns = line.scale.lab(k.base_target).ns + k.hops * line.scale.lab(k.hop).ns
        self._range_ns = line.scale.lab(k.flow_range).ns
        least, most = 1 / math.sqrt(k.flow_least), 1 / math.sqrt(k.flow_most)
        self._slope = self._range_ns / (least - most)
        self._offset = -self._slope * most
        self.packets = k.most_window
        """cwnd"""
        self.round_trip_lab_ns = self._base_ns
        self._last_decrease_ns: int | None = None
        self._losses = 0
        self._packet_octets = 1
        self._begun = False
        self._apply()

    @property
    def target_lab_ns(self) -> float:
        """The delay that the window is to come to, in the lab's time."""
        scaled = self._slope / math.sqrt(self.packets) + self._offset
        return self._base_ns + max(0.0, min(scaled, self._range_ns))

    def on_sent(self, now_lab_ns: int, octets: int) -> None:
        if octets > self._packet_octets:
            self._packet_octets = octets
            if not self._begun:  # what the line has under way in a round trip without queues
                self._begun = True
                self.packets = self._base_ns * self.line.rate.bps / (octets * 8_000_000_000)
            self._apply()

    def on_acknowledged(self, now_lab_ns: int, acknowledged: Acknowledgement) -> None:
        if acknowledged.round_trip_lab_ns is None:
            return
        k, delay_ns = self.parameters, acknowledged.round_trip_lab_ns
        may_decrease = self._may_decrease(now_lab_ns)
        self.round_trip_lab_ns, self._losses = delay_ns, 0
        target_lab_ns = self.target_lab_ns
        if delay_ns < target_lab_ns:
            step = k.additive_increase * acknowledged.packets
            self.packets += step / self.packets if self.packets >= 1 else step
        elif may_decrease:
            self._decrease(now_lab_ns, max(1 - k.decrease * (delay_ns - target_lab_ns) / delay_ns, 1 - k.most_decrease))
        self._apply()

    def on_loss(self, now_lab_ns: int) -> None:
        self._losses += 1
        if self._losses >= self.parameters.reset_after:
            self._decrease(now_lab_ns, 0.0)
        elif self._may_decrease(now_lab_ns):
            self._decrease(now_lab_ns, 1 - self.parameters.most_decrease)
        self._apply()

    def state(self) -> dict[str, float]:
        return {"rate_lab_bps": self.rate_lab_bps, "window": self.packets, "round_trip_lab_ns": self.round_trip_lab_ns}

    def _may_decrease(self, now_lab_ns: int) -> bool:
        return self._last_decrease_ns is None or now_lab_ns - self._last_decrease_ns >= self.round_trip_lab_ns

    def _decrease(self, now_lab_ns: int, factor: float) -> None:
        self.packets *= factor
        self._last_decrease_ns = now_lab_ns

    def _apply(self) -> None:
        k, line_bps = self.parameters, float(self.line.rate.bps)
        self.packets = min(max(self.packets, k.least_window), k.most_window)
        self.window = max(1, int(self.packets))
        if self.packets >= 1:
            self.rate_lab_bps = line_bps
        else:
            wanted = self.packets * self._packet_octets * 8_000_000_000 / max(1, self.round_trip_lab_ns)
            self.rate_lab_bps = min(max(wanted, 1.0), line_bps)


register("swift", Swift)
