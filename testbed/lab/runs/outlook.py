"""The outlook of a run while it runs: what it does now, how long that will take on this machine, and how much is left.

Before anything of a part of the run is done, the forecast is what it took where it was measured, times the CPU time
that the lab's kernel took to boot here over what it took there. The more of it is done, the more counts how long that
has taken.
"""

from __future__ import annotations

from dataclasses import dataclass

from testbed.lab.engines.forecast import duration
from testbed.lab.engines.load import RunCosts
from testbed.lab.results.collect import Collector

_SLOWEST, _FASTEST = 20.0, 0.05
"""The machines, by the time that they take, beyond which the boot's time is not taken to be the machine's."""
_WITH_FEW_FLOWS, _WITH_FLOWS = 1.2, 1.6
"""The memory of a network with flows, over that of its nodes alone."""
_KNOWN = 0.25
"""The part of the flows' time after which only what it took counts."""


@dataclass(frozen=True)
class Outlook:
    """The present part of a run."""

    what: str
    """The name of this part: "network of 70 nodes" or "flows"."""
    takes_s: float | None
    """The seconds that this part is expected to take on this machine, from its begin to its end; None if not known."""
    left_s: float | None
    """The seconds of these that are left."""
    done: float | None = None
    """The part of the flows' time in the lab that is over, 0 to 1."""
    lab_s: float | None = None
    """The flows' time in the lab."""

    @property
    def announcement(self) -> str:
        """A line to be shown when the part begins; empty if there is no forecast."""
        if self.takes_s is None:
            return ""
        how_long = "" if self.lab_s is None else f" of {self.lab_s:.3g} s of lab time"
        return f"{self.what}{how_long}: about {duration(self.takes_s)} on this machine"

    def __str__(self) -> str:
        done = "" if self.done is None else f" {self.done * 100:.0f} %"
        left = "" if self.left_s is None else f", about {duration(self.left_s)} left"
        return f"{self.what}{done}{left}"


class Forecaster:
    """Makes the outlook of one run again and again, of what has come from the lab."""

    def __init__(self, costs: RunCosts | None) -> None:
        self._costs = costs
        self._largest = 0
        """The nodes of the largest network whose memory was looked at."""
        self._factor = 1.0
        self._part: tuple[object, ...] = ()
        self._begun_s = 0.0
        """The time at which the present part was first seen."""
        self._done, self._takes_s = 0.0, 0.0
        """The part of the flows' time when it was last heard of, and how long all was then expected to take."""

    def booted(self, cpu_s: float | None) -> None:
        """Take the CPU time in s that the lab's kernel took until the job began."""
        if self._costs is not None and cpu_s:
            self._factor = min(_SLOWEST, max(_FASTEST, cpu_s / self._costs.boot_s))

    def shortage(self, run: Collector, memory_mb: int | None) -> str:
        """Return a warning, once, if a network that is being set up may not fit into the job's memory; else nothing."""
        if self._costs is None or memory_mb is None or run.nodes <= self._largest:
            return ""
        self._largest = run.nodes
        needed_mb = run.nodes * self._costs.node_mb
        if needed_mb * _WITH_FEW_FLOWS <= memory_mb:
            return ""
        return (
            f"a network of {run.nodes} nodes takes about {needed_mb / 1000:.1f} GB, and its flows more, but the job "
            f"may have {memory_mb / 1000:.1f} GB; --memory {_rounded(needed_mb * _WITH_FLOWS)} gives it more"
        )

    def outlook(self, run: Collector, now_s: float) -> Outlook | None:
        """Return the outlook at a moment of wall time since the run began; None if nothing is known of what it does."""
        if run.setting_up_ns is not None:
            return self._set_up(run.nodes, run.setting_up_ns, now_s)
        if run.demands:
            return self._traffic(run, now_s)
        self._part = ()
        return None

    def _set_up(self, nodes: int, since_ns: int, now_s: float) -> Outlook:
        self._begin((nodes, since_ns), now_s)
        takes_s = None if self._costs is None else self._costs.set_up_s(nodes) * self._factor
        return Outlook(f"network of {nodes} nodes", takes_s, self._left(takes_s, now_s))

    def _traffic(self, run: Collector, now_s: float) -> Outlook:
        begin_ns = min(one.begin_ns for one in run.demands)
        lab_ns = max(one.end_ns for one in run.demands) - begin_ns
        forecast_s = None
        if self._costs is not None:
            forecast_s = self._factor * sum(self._costs.traffic_s(one, run.nodes) for one in run.demands)
        done = min(1.0, max(0.0, (run.virtual_ns - begin_ns) / lab_ns)) if lab_ns else 1.0
        if self._begin(run.demands, now_s) or done > self._done:
            took_s = now_s - self._begun_s
            self._done, measured_s = done, took_s / done if done else 0.0
            known = 1.0 if forecast_s is None else min(1.0, done / _KNOWN)
            self._takes_s = known * measured_s + (1 - known) * (forecast_s or 0.0)
        takes_s = self._takes_s if done or forecast_s is not None else None
        left_s = self._left(takes_s, now_s) if done < 1 else None  # it takes longer than was expected
        return Outlook("flows", forecast_s, left_s, done, lab_ns / 1e9)

    def _begin(self, part: tuple[object, ...], now_s: float) -> bool:
        if part == self._part:
            return False
        self._part, self._begun_s, self._done, self._takes_s = part, now_s, 0.0, 0.0
        return True

    def _left(self, takes_s: float | None, now_s: float) -> float | None:
        return None if takes_s is None else max(0.0, takes_s - (now_s - self._begun_s))


def _rounded(mb: float) -> int:
    return -(-int(mb) // 500) * 500
