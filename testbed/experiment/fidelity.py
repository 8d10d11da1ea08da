"""The verdict on a run's fidelity, from samples of the lab's CPU that were taken while the experiment measured.

In virtual time a lab that is short of CPU is not slow, it is wrong: queues drain late and timers fire late.
So a run is `kept` when the CPU had idle time left in every window, and timers and agents were woken on time.

On `um` work of the CPU takes no lab time, and system calls take little. A program that makes one after the other has
all idle time and delays nobody: agents and timers go first. So idle time counts there only if a user asks for more of
it than is usual, and what is late counts as everywhere (decision 0591). That kernel counts idle time in ticks, ten in
a window; windows are joined until a single idle tick is as much as is required.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from itertools import pairwise, starmap
from typing import Any

from testbed.errors import UsageError
from testbed.experiment.output import Sample
from testbed.units import Duration

WINDOW_NS = 100_000_000


class Verdict(enum.StrEnum):
    KEPT = "kept"
    DEGRADED = "degraded"
    UNKNOWN = "unknown"  # the run was too short, or ended too early, for a verdict


class Phase(enum.StrEnum):
    """Parts of a run. Of those that a run marks, the last kind in this list counts."""

    NETWORK = "network"  # a network is up
    TRAFFIC = "traffic"  # traffic is running: flows, or frames that a measure sends
    MEASURING = "measuring"


@dataclass(frozen=True)
class Thresholds:
    """The bounds that a run has to keep for the verdict `kept`."""

    idle_percent: int = 1  # idle CPU in each window of 100 ms; on `um` only if it is more than this
    timer_late_ns: int = 1_000_000
    agent_late_ns: int = 1_000_000

    def changed(self, setting: str) -> Thresholds:
        """Return these thresholds with one changed, as in `idle=5%`, `timer=200us` or `agent=50us`."""
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
    """The verdict, the figures that it rests on, and the reasons why it is not better."""

    verdict: Verdict
    reasons: tuple[str, ...]
    windows: int
    idle_percent: float | None  # in the window in which the CPU was idle least
    timer_late_ns: int | None
    agent_late_ns: int | None
    thresholds: Thresholds

    @property
    def explained(self) -> str:
        """Return the verdict with its reasons."""
        return f"{self.verdict} ({'; '.join(self.reasons)})" if self.reasons else str(self.verdict)

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
    """Return the verdict over the windows inside `phases`, or over all windows if no phase was marked."""
    windows = [
        (before, after)
        for before, after in pairwise(samples)
        if not phases or any(start <= before.time_ns and after.time_ns <= end for start, end in phases)
    ]
    reasons = []
    least, latest = None, None
    if windows:
        least, latest = min(starmap(_idle, windows)), max(after.late_ns for _, after in windows)
        before, after = min(_spans(windows, thresholds), key=lambda span: _idle(*span))
        counts = not after.tick_ns or thresholds.idle_percent > Thresholds.idle_percent
        if counts and (found := _idle(before, after)) < thresholds.idle_percent:
            span = "a window of 100 ms"
            if after.tick_ns:
                ticks = _ticks(before, after)
                span = f"{Duration.from_ns(ticks * after.tick_ns)}, in which the kernel looked {ticks} times,"
            reasons.append(
                f"the CPU was busy: {span} had {found:g} % idle time, "
                f"{thresholds.idle_percent} % are required; a larger scale or less traffic helps"
            )
    for who, value, limit in (
        ("a timer", latest, thresholds.timer_late_ns),
        ("an agent", agent_late_ns, thresholds.agent_late_ns),
    ):
        if value is not None and value > limit:
            reasons.append(f"{who} was {Duration.from_ns(value)} late, {Duration.from_ns(limit)} are allowed")
    verdict = Verdict.DEGRADED if reasons else Verdict.KEPT
    if not reasons and not windows:
        verdict = Verdict.UNKNOWN
        reasons.append("no window of 100 ms was measured")
    least = None if least is None else round(least, 2)
    return Fidelity(verdict, tuple(reasons), len(windows), least, latest, agent_late_ns, thresholds)


_Span = tuple[Sample, Sample]


def _idle(before: Sample, after: Sample) -> float:
    """Return the idle time between two samples in percent."""
    return 100 * (after.idle_ns - before.idle_ns) / (after.time_ns - before.time_ns)


def _ticks(before: Sample, after: Sample) -> int:
    """Count the ticks of the kernel between two samples, which are never exactly on time."""
    return round((after.time_ns - before.time_ns) / after.tick_ns)


def _spans(windows: Sequence[_Span], thresholds: Thresholds) -> Iterator[_Span]:
    """Return the spans in which idle time can be seen: each window, or as many in a row as have enough ticks. Where
    fewer follow each other, all of them are one."""
    first = 0
    for place, (_, end) in enumerate(windows):
        begin = windows[first][0]
        is_last = place + 1 == len(windows) or windows[place + 1][0] is not end
        if not end.tick_ns or _ticks(begin, end) * thresholds.idle_percent >= 100:
            yield begin, end
            first += 1
        elif is_last and (first == 0 or windows[first - 1][1] is not begin):
            yield begin, end
        if is_last:
            first = place + 1


def _percent(text: str) -> int:
    if not re.fullmatch("([0-9]{1,2}|100)%?", text):
        raise UsageError("idle takes 0% to 100%")
    return int(text.removesuffix("%"))
