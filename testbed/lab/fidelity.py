"""Whether the lab kept its bounds: a verdict from samples of its CPU, taken while the experiment measured.

In virtual time a lab that is short of CPU is not slow, it is wrong: queues drain late and timers fire late.
So a run is `kept` when the CPU had idle time left in every window, and timers and agents were woken on time.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from itertools import pairwise
from typing import Any

from testbed.errors import UsageError
from testbed.lab.wire import Sample
from testbed.units import Duration

WINDOW_NS = 100_000_000


class Verdict(enum.StrEnum):
    KEPT = "kept"
    DEGRADED = "degraded"
    UNKNOWN = "unknown"  # the run was too short, or ended too early, for a verdict


class Phase(enum.StrEnum):
    """Parts of a run. Of those that a run marks, the last kind in this list counts."""

    NETWORK = "network"  # a network is up
    MEASURING = "measuring"


@dataclass(frozen=True)
class Thresholds:
    """What a run may not fall short of."""

    idle_percent: int = 1  # idle CPU in each window of 100 ms
    timer_late_ns: int = 1_000_000
    agent_late_ns: int = 1_000_000

    def changed(self, setting: str) -> Thresholds:
        """These thresholds with one changed: `idle=5%`, `timer=200us` or `agent=50us`."""
        name, _, value = setting.partition("=")
        try:
            if name == "idle":
                return replace(self, idle_percent=_percent(value))
            if name == "timer":
                return replace(self, timer_late_ns=Duration(value).ns)
            if name == "agent":
                return replace(self, agent_late_ns=Duration(value).ns)
        except UsageError as error:
            raise UsageError(f"--fidelity {setting}: {error}") from None
        raise UsageError(f"--fidelity {setting}: there are idle=5%, timer=200us and agent=200us")


@dataclass(frozen=True)
class Fidelity:
    """The verdict, what it rests on, and why it is not better."""

    verdict: Verdict
    reasons: tuple[str, ...]
    windows: int
    idle_percent: float | None  # of the window with the least
    timer_late_ns: int | None
    agent_late_ns: int | None
    thresholds: Thresholds

    def as_json(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)} | {
            "reasons": list(self.reasons),
            "thresholds": asdict(self.thresholds),
        }


def judge(
    samples: Sequence[Sample],
    phases: Sequence[tuple[int, int]],
    agent_late_ns: int | None,
    thresholds: Thresholds,
) -> Fidelity:
    """The verdict over the windows inside `phases`; over all of them if no phase was marked."""
    idle: list[float] = []
    late: list[int] = []
    for before, after in pairwise(samples):
        span = (before.time_ns, after.time_ns)
        if phases and not any(start <= span[0] and span[1] <= end for start, end in phases):
            continue
        idle.append(100 * (after.idle_ns - before.idle_ns) / (span[1] - span[0]))
        late.append(after.late_ns)
    reasons = []
    least, latest = (min(idle), max(late)) if idle else (None, None)
    if least is not None and least < thresholds.idle_percent:
        reasons.append(
            f"the CPU was busy: a window of 100 ms had {least:g} % idle time, "
            f"{thresholds.idle_percent} % are required; a larger scale or less traffic helps"
        )
    for who, value, limit in (
        ("a timer", latest, thresholds.timer_late_ns),
        ("an agent", agent_late_ns, thresholds.agent_late_ns),
    ):
        if value is not None and value > limit:
            reasons.append(f"{who} was {Duration.from_ns(value)} late, {Duration.from_ns(limit)} are allowed")
    verdict = Verdict.DEGRADED if reasons else Verdict.KEPT
    if not reasons and not idle:
        verdict = Verdict.UNKNOWN
        reasons.append("no window of 100 ms was measured")
    least = None if least is None else round(least, 2)
    return Fidelity(verdict, tuple(reasons), len(idle), least, latest, agent_late_ns, thresholds)


def _percent(text: str) -> int:
    if not re.fullmatch("([0-9]{1,2}|100)%?", text):
        raise UsageError("idle takes 0% to 100%")
    return int(text.removesuffix("%"))
