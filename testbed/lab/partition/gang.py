"""The machines of a partitioned network: they begin together, and what ends one early ends all.

To whoever follows the run they are one job. Part 0 writes its stream: all parts report the same, for all run the same
script. The streams of the others are read here, for how they end, what they found, and their fidelity.
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import IO, Any, Protocol

from testbed.experiment.fidelity import Fidelity, Thresholds, Verdict
from testbed.experiment.output import CAPTURES, RUN_SERIES, Record, StreamError
from testbed.lab.partition.relay import LOST
from testbed.lab.results.collect import Collector
from testbed.lab.results.result import Status

_TAIL = 4000
_LOOK_S, _LOOKS = 0.15, 4
"""The seconds between two looks at whether a part is stopped, and the number of looks that end all."""
_WORSE = (Verdict.KEPT, Verdict.UNKNOWN, Verdict.DEGRADED)


class Part(Protocol):
    """The machine of one part."""

    stream: Path

    def lost(self) -> str | None: ...
    def send(self, record: Record) -> None: ...
    def cpu_s(self) -> float | None: ...
    def used_cpu_s(self) -> float | None: ...
    def spins(self) -> str | None: ...
    def stopped(self) -> str | None: ...
    def close(self) -> None: ...


class _Other:
    """The state of a part that is not the first."""

    def __init__(self, number: int, machine: Part, folder: Path) -> None:
        self.number, self.machine = number, machine
        self.errors = b""
        """The end of what it wrote to its standard error."""
        self.collector = Collector(folder, self._take)
        self._stream: IO[bytes] = machine.stream.open("rb")
        self.failure: tuple[Status, str] | None = None

    def _take(self, data: bytes, is_error: bool) -> None:
        if is_error:
            self.errors = (self.errors + data)[-_TAIL:]

    def read(self) -> None:
        """Take what has come, and note a failure."""
        lost = self.machine.lost()
        data = self._stream.read()
        try:
            self.collector.feed(data)
        except StreamError as error:
            self.failure = self.failure or (Status.LOST, str(error))
        if self.failure is None and self.collector.ended is not None:
            status, reason = self.collector.status()
            if status is not Status.OK:
                self.failure = status, reason
        elif self.failure is None and lost is not None and not data:
            self.failure = Status.LOST, lost

    def close(self) -> None:
        self._stream.close()
        self.collector.close()


class Gang:
    """The parts of one network at work, as a `RunningJob`."""

    def __init__(self, machines: Sequence[Part], folder: Path, where: Sequence[str] = ()) -> None:
        """`where` has the machines of the parts by their names, if they are not all this one."""
        self._where = where
        self._first, self.stream = machines[0], machines[0].stream
        self._machines = machines
        self._others = []
        for number, machine in enumerate(machines[1:], 1):
            place = folder / f"part-{number}"
            place.mkdir()
            self._others.append(_Other(number, machine, place))
        self._next_look_s = 0.0
        self._stopped_looks = [0] * len(machines)
        self._hangs: str | None = None

    def lost(self) -> str | None:
        for other in self._others:
            other.read()
        self._look_for_stopped(time.monotonic())
        lost = self._first.lost()
        return None if lost is None else f"{self._named(0)}: {lost}"

    def _look_for_stopped(self, now_s: float) -> None:
        """Note a part that was stopped in several looks. If all are, somebody makes a break, and no part hangs."""
        if now_s < self._next_look_s or self._hangs is not None:
            return
        self._next_look_s = now_s + _LOOK_S
        stopped = [machine.stopped() for machine in self._machines]
        if None not in stopped:
            stopped = [None] * len(stopped)
        for part, what in enumerate(stopped):
            self._stopped_looks[part] = self._stopped_looks[part] + 1 if what else 0
            if self._stopped_looks[part] >= _LOOKS:
                self._hangs = f"{self._named(part)}: {what}, and the others wait for it"

    def _named(self, part: int) -> str:
        return f"part {part} on {self._where[part]}" if self._where else f"part {part}"

    def failure(self) -> tuple[Status, str] | None:
        """Return how a part other than the first failed, and which; None if none has. A part that is stopped has
        failed, also if it is the first.

        A part that failed because another had gone is named only if no other is.
        """
        if (other := self._failed()) is None or other.failure is None:
            return None if self._hangs is None else (Status.LOST, self._hangs)
        status, reason = other.failure
        return status, f"{self._named(other.number)}: {reason}"

    def _failed(self) -> _Other | None:
        failed = [other for other in self._others if other.failure is not None]
        return min(failed, key=lambda other: is_consequence(other.failure), default=None)

    def have_ended(self) -> bool:
        """Return True if all parts but the first have ended well."""
        return all(other.collector.ended is not None for other in self._others)

    def errors(self) -> bytes:
        """Return what the part that failed wrote to its standard error at the end."""
        other = self._failed()
        return b"" if other is None else other.errors

    def difference(self, first: Collector) -> str | None:
        """Return what a part found that the first did not find so; None if all agree."""
        found = _found(first)
        for other in self._others:
            theirs = _found(other.collector)
            if theirs == found:
                continue
            for (what, value), (other_what, other_value) in zip(found, theirs, strict=False):
                if what == other_what and value != other_value:
                    return (
                        f"{what} is {value} in part 0 and {other_value} in part {other.number}; every part must find "
                        "the same, so an experiment with partitions cannot measure by the clock of its script"
                    )
            return f"part {other.number} has other figures and claims than part 0; every part must report the same"
        return None

    def live(self, follow: Callable[[Any], None]) -> Callable[[Any], None]:
        """Have `follow` called with what all parts report of their networks, as of one; return the function that takes
        the lines of the first part.
        """
        joined = LiveLines(len(self._machines), follow)
        for other in self._others:
            other.collector.live = partial(joined.take, other.number)
        return partial(joined.take, 0)

    def bring(self, first: Collector, *, series: bool) -> Iterator[str]:
        """Have the captures of all parts in the folder of the first, and the rows of all if the run has time `series`,
        as each part has those of its own nodes; yield what the others say of their captures.
        """
        for place in RUN_SERIES if series else ():
            first.join_series([other.collector for other in self._others], place)
        for other in self._others:
            first.adopt(other.collector, CAPTURES)
            for line in other.errors.decode(errors="replace").splitlines():
                if line.startswith(f"{CAPTURES}:"):
                    yield f"part {other.number}: {line}"

    def fidelity(self, first: Fidelity, thresholds: Thresholds) -> Fidelity:
        """Return the worst fidelity of all parts."""
        worst = first
        for other in self._others:
            theirs = other.collector.fidelity(thresholds)
            if _WORSE.index(theirs.verdict) > _WORSE.index(worst.verdict):
                reasons = tuple(f"part {other.number}: {reason}" for reason in theirs.reasons)
                worst = replace(theirs, reasons=reasons)
        return worst

    def send(self, record: Record) -> None:
        for machine in self._machines:
            machine.send(record)

    def cpu_s(self) -> float | None:
        """Return the CPU time of the busiest kernel."""
        times = [machine.cpu_s() for machine in self._machines]
        return None if None in times else max(time for time in times if time is not None)

    def used_cpu_s(self) -> float | None:
        """Return the CPU time of all kernels' processes."""
        times = [machine.used_cpu_s() for machine in self._machines]
        return None if None in times else sum(time for time in times if time is not None)

    def spins(self) -> str | None:
        return next((found for machine in self._machines if (found := machine.spins()) is not None), None)

    def close(self) -> None:
        for machine in self._machines:
            machine.close()
        for other in self._others:
            other.close()


def is_consequence(failure: tuple[Status, str] | None) -> bool:
    """Return True if a part failed because another one had gone (`net/partition/cut.py:PartGoneError`), or its
    machine."""
    return failure is not None and ("PartGoneError" in failure[1] or LOST in failure[1])


def _found(collector: Collector) -> list[tuple[str, str]]:
    """Return the figures and claims of a part, each with its name and value as text."""
    figures = [(f"the figure {one.name!r}", json.dumps(one.value)) for one in collector.figures]
    return figures + [(f"the claim {one.name!r}", json.dumps(one.measured)) for one in collector.claims]


_MOST = 1000
"""The most lines of a part that wait for those of the others; then the oldest are left out."""
_DURING, _END, _BEGIN = range(3)


class LiveLines:
    """The lines of all parts, which a function gets as lines of one network."""

    def __init__(self, parts: int, follow: Callable[[Any], None]) -> None:
        self._waiting = [deque[Any](maxlen=_MOST) for _ in range(parts)]
        self._follow = follow

    def take(self, part: int, line: Any) -> None:
        """Take a line of a part."""
        self._waiting[part].append(line)
        while all(self._waiting):
            # One part can have ended, or be at the next network, when another has a line more of this one.
            kind = min(_kind(waiting[0]) for waiting in self._waiting)
            lines = [waiting.popleft() for waiting in self._waiting if _kind(waiting[0]) == kind]
            self._follow(_joined(lines) if kind == _DURING else lines[0])


def _kind(line: Any) -> int:
    if isinstance(line, dict):
        return _BEGIN if "network" in line else _END if "end" in line else _DURING
    return _DURING


def _joined(lines: list[Any]) -> Any:
    """Return the use of all buffers, and the events in the order of time."""
    t_ns, used, events = 0, dict[Any, Any](), list[Any]()
    for line in lines:
        match line:
            case {"t": int(now_ns), "used": dict(cells), "events": list(new)}:
                t_ns = max(t_ns, now_ns)
                used |= cells
                events += [event for event in new if isinstance(event, list) and event and type(event[0]) is int]
    return {"t": t_ns, "used": used, "events": sorted(events, key=lambda event: event[0])}
