"""Statistics of a workload: completion times, slowdown, percentiles by size, Jain's index."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from testbed.units import Duration, Rate, Size
from testbed.workload.transfers import WorkloadError


@dataclass(frozen=True)
class Completion:
    """A transfer that is complete."""

    size: Size
    took: Duration


@dataclass(frozen=True)
class Unloaded:
    """The network without other traffic: what the best completion time is computed from."""

    line: Rate
    delay: Duration
    """The delay from source to target, with everything that does not depend on the size."""
    payload: int = 1024
    overhead: int = 82
    """Octets of a packet: its data, and what it has on the wire beside them."""
    sends_at_once: bool = False
    """A port of the lab that is free sends a packet at once, and is then busy for the time that it takes. So a transfer
    is complete when its last packet is sent, and switches on the way add nothing."""

    def best(self, size: Size) -> Duration:
        """The completion time of a transfer that has the network for itself."""
        packets = -(-size.bytes // self.payload)
        octets = size.bytes + packets * self.overhead
        if self.sends_at_once:
            octets = (packets - 1) * (self.payload + self.overhead)
        return self.line.time_for(Size.from_bytes(octets)) + self.delay


def slowdown(completion: Completion, network: Unloaded) -> float:
    """Return the slowdown, which is the completion time divided by the best one."""
    return float(completion.took / network.best(completion.size))


def percentile(values: Iterable[float], percent: float) -> float:
    """Return the smallest value that this part of all does not exceed (nearest rank)."""
    ordered = sorted(values)
    if not ordered:
        raise WorkloadError("there is no percentile of nothing")
    if not 0 < percent <= 100:
        raise WorkloadError(f"percentile {percent!r}; it is above 0 and at most 100")
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


def by_size(
    completions: Sequence[Completion], network: Unloaded, bounds: Sequence[Size], percents: Sequence[float] = (50, 99)
) -> dict[str, dict[str, float]]:
    """Return the slowdown by classes of sizes: each up to one of the bounds, and those above the last."""
    found: dict[str, dict[str, float]] = {}
    rest = list(completions)
    for bound in (*bounds, None):
        inside = [one for one in rest if bound is None or one.size <= bound]
        rest = [one for one in rest if bound is not None and one.size > bound]
        if not inside:
            continue
        values = [slowdown(one, network) for one in inside]
        row = {f"p{percent:g}": round(percentile(values, percent), 3) for percent in percents}
        name = f"above {bounds[-1]}" if bound is None and bounds else f"up to {bound}" if bound else "all"
        found[name] = {"flows": len(inside), "mean": round(sum(values) / len(values), 3), **row}
    return found


def jain(values: Sequence[float]) -> float:
    """Return Jain's index: 1 if all are equal, 1/n if one has everything."""
    squares = len(values) * sum(value * value for value in values)
    return float(sum(values) ** 2 / squares) if squares else 0.0
