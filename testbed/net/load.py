"""Whether a network's traffic is more than the lab's CPU carries: a forecast, before anything starts.

On the engine `um` the CPU is free in virtual time, so nothing overloads it. On `vm` and `realtime` each frame takes
the CPU time of its way from host to host; a lab that is late no longer keeps the times of the scale. The costs are
measured by `bench/load.py`, which writes load_costs.json.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from fractions import Fraction
from importlib import resources

from testbed.errors import UsageError
from testbed.units import Rate

FILE = "load_costs.json"
_WIRE = 24
"""Preamble, gap and FCS: what a frame of the lab takes of its line beyond its octets."""
_ROOM = Fraction(4, 5)
"""Of the CPU, for frames."""


class OverloadError(UsageError):
    """A run that the lab's CPU cannot carry at its scale."""


@dataclass(frozen=True)
class Load:
    """Ports that send at line rate at once."""

    ports: int
    rate: Rate
    """Of each, of the hardware."""
    frame: int
    """Octets without FCS."""
    switches: int = 1
    """On a frame's way."""

    def share(self, scale: int, costs: dict[str, float]) -> Fraction:
        """Of the lab's CPU; above 1 it is late."""
        per_frame = costs["host_us"] + costs["switch_us"] * self.switches
        frames_per_s = Fraction(self.rate.bps, scale) * self.ports / (8 * (self.frame + _WIRE))
        return frames_per_s * Fraction(per_frame).limit_denominator(1000) / 10**6

    def least_scale(self, costs: dict[str, float]) -> int:
        """The smallest of 1, 2, 5, 10, 20, 50, ... that leaves the CPU some room: line rates can be divided by it."""
        exact = self.share(1, costs) / _ROOM
        scale = 1
        while scale < exact:
            scale = scale * 5 // 2 if str(scale)[0] == "2" else scale * 2
        return scale


def costs() -> dict[str, float]:
    """Of a frame, in microseconds of the lab's CPU."""
    found: dict[str, float] = json.loads((resources.files("testbed.net") / FILE).read_text())["costs"]
    return found


def require(load: Load, scale: int, cpu_is_free: bool) -> None:
    """OverloadError if the lab would be late."""
    if cpu_is_free:
        return
    table = costs()
    share = load.share(scale, table)
    if share > _ROOM:
        raise OverloadError(
            f"{load.ports} ports that send frames of {load.frame} B at {load.rate} would take "
            f"{float(share * 100):.0f} % of "
            f"the lab's CPU at scale {scale}, and {float(_ROOM * 100):.0f} % is the most: give --scale "
            f"{load.least_scale(table)}, longer frames, or --engine um, where work of the CPU takes no time"
        )
