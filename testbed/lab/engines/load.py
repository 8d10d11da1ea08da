"""A forecast of the CPU time that networks and their traffic take.

On `vm` and `realtime` each frame takes CPU time of the lab on its way from host to host, and a lab that is overloaded
no longer keeps the times of its scale: `require` refuses such a load before anything starts. On `um` CPU work takes no
virtual time, so nothing overloads it; there the forecast says how long the user waits (`RunCosts`). `bench/load.py`
measures the costs and writes load_costs.json.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from importlib import resources
from typing import Any

from testbed.errors import UsageError
from testbed.experiment.demand import Demand
from testbed.units import Rate

FILE = "load_costs.json"
_WIRE = 24
"""The octets of preamble, FCS and interframe gap, which a frame takes of its line beyond its own."""
_ROOM = Fraction(4, 5)
"""The share of the CPU that frames may take."""
_LIKE_ANY = "udp"
"""The transport whose costs one has that was not measured, as that of a plugin."""


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
    found: dict[str, float] = _table()["vm"]
    return found


def _table() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((resources.files("testbed.lab.engines") / FILE).read_text())
    return found


@dataclass(frozen=True)
class RunCosts:
    """The CPU time and the memory that runs took on the machine where they were measured."""

    boot_s: float
    """The CPU time of the lab's kernel from its start until the job begins. It is the same work in each run, so it
    shows how fast another machine is."""
    job_s: float
    """The CPU time of a run with a network, beside its nodes and their traffic: its boot, its imports, its end."""
    node_s: float
    """The CPU time of a node of a network, for its set-up and its end."""
    node_mb: float
    """The memory of a node, in MB."""
    second_us: float
    """The CPU time of each second of the lab, for what looks at the CPU again and again."""
    idle_us: float
    """The CPU time of a node, for each second of the lab in which nothing happens."""
    frames: Mapping[str, Mapping[str, float]]
    """The CPU times of each transport, in us: of a frame at its hosts (`host_us`) and at each switch or router
    (`switch_us`), and of a flow for each second of the lab, whatever it sends, for its timers and for what its
    processes look at again and again (`second_us`)."""

    @classmethod
    def of(cls, engine: str) -> RunCosts | None:
        """Return the costs on an engine, or None if they are not known."""
        found = _table().get(engine, {})
        return cls(**found) if "boot_s" in found else None

    def run_s(self, nodes: int, *demands: Demand) -> float:
        """Return what a run takes with one network, from its start to its end."""
        return self.job_s + self.set_up_s(nodes) + sum(self.traffic_s(one, nodes) for one in demands)

    def set_up_s(self, nodes: int) -> float:
        """Return what a network takes for its set-up, and later for its end."""
        return nodes * self.node_s

    def traffic_s(self, demand: Demand, nodes: int) -> float:
        """Return what flows take, in a network of so many nodes."""
        took_us = demand.lab_ns / 1e9 * (self.second_us + nodes * self.idle_us)
        for transport, frames in demand.frames.items():
            costs = self.frames.get(transport, self.frames[_LIKE_ANY])
            took_us += frames * costs["host_us"] + demand.hops.get(transport, 0) * costs["switch_us"]
            took_us += demand.flows.get(transport, 0) * demand.lab_ns / 1e9 * costs["second_us"]
        return took_us / 1e6


def require(load: Load, scale: int, cpu_work_takes_no_time: bool) -> None:
    """Raise UsageError if the lab would be late at this scale."""
    if cpu_work_takes_no_time:
        return
    table = frame_costs()
    share = load.share(scale, table)
    if share > _ROOM:
        raise UsageError(
            f"{load.ports} ports that send frames of {load.frame} B at {load.rate} would take "
            f"{float(share * 100):.0f} % of "
            f"the lab's CPU at scale {scale}, and {float(_ROOM * 100):.0f} % is the most: give --scale "
            f"{load.least_scale(table)}, longer frames, or --engine um, where work of the CPU takes no time"
        )
