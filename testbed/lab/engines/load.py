"""A forecast of the CPU time that a network's traffic takes, made before anything starts.

On the engine `um` CPU work takes no virtual time, so nothing overloads it. On `vm` and `realtime` each frame takes CPU
time on its way from host to host, and a lab that is overloaded no longer keeps the times of its scale. `bench/load.py`
measures the costs and writes load_costs.json.
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
"""The octets of preamble, FCS and interframe gap, which a frame takes of its line beyond its own."""
_ROOM = Fraction(4, 5)
"""The share of the CPU that frames may take."""


class OverloadError(UsageError):
    """A run whose traffic the lab's CPU cannot carry at its scale."""


@dataclass(frozen=True)
class Load:
    """The traffic of ports that all send at line rate at once."""

    ports: int
    rate: Rate
    """The line rate of each port, as the hardware has it."""
    frame: int
    """The octets of a frame without FCS."""
    switches: int = 1
    """The number of switches on a frame's way."""

    def share(self, scale: int, costs: dict[str, float]) -> Fraction:
        """Return the share of the lab's CPU that the traffic takes; above 1 the lab is late."""
        per_frame = costs["host_us"] + costs["switch_us"] * self.switches
        frames_per_s = Fraction(self.rate.bps, scale) * self.ports / (8 * (self.frame + _WIRE))
        return frames_per_s * Fraction(per_frame).limit_denominator(1000) / 10**6

    def least_scale(self, costs: dict[str, float]) -> int:
        """Return the smallest scale of 1, 2, 5, 10, 20, 50, ... that the CPU can carry with some room."""
        exact = self.share(1, costs) / _ROOM
        scale = 1
        while scale < exact:
            scale = scale * 5 // 2 if str(scale)[0] == "2" else scale * 2
        return scale


def frame_costs() -> dict[str, float]:
    """Return the costs of a frame in microseconds of the lab's CPU."""
    found: dict[str, float] = json.loads((resources.files("testbed.lab.engines") / FILE).read_text())["costs"]
    return found


def require(load: Load, scale: int, cpu_work_takes_no_time: bool) -> None:
    """Raise OverloadError if the lab would be late at this scale."""
    if cpu_work_takes_no_time:
        return
    table = frame_costs()
    share = load.share(scale, table)
    if share > _ROOM:
        raise OverloadError(
            f"{load.ports} ports that send frames of {load.frame} B at {load.rate} would take "
            f"{float(share * 100):.0f} % of "
            f"the lab's CPU at scale {scale}, and {float(_ROOM * 100):.0f} % is the most: give --scale "
            f"{load.least_scale(table)}, longer frames, or --engine um, where work of the CPU takes no time"
        )
