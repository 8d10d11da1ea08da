"""The run of an experiment: it takes figures, claims and events, and has the seed and the clock.

Everything it reports goes out at once, one JSON line each, so a run that is cut short keeps what it had.
"""

from __future__ import annotations

import json
import math
import os
import random
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any, TextIO

from testbed.errors import UsageError
from testbed.experiment.demand import Board, Demand
from testbed.experiment.fidelity import Phase
from testbed.experiment.output import EVENT_LOG, PUBLISHED_LOG
from testbed.units import Quantity, Scale

LARGEST_NOTE = 1 << 20
_LONGEST_MESSAGE = 10_000
DEEPEST = 32


_CURRENT: ContextVar[Run | None] = ContextVar("run", default=None)


class Run:
    """The run of one experiment, whose function gets it as its first argument."""

    def __init__(
        self,
        seed: int,
        start_ns: int,
        directory: Path,
        notes: TextIO,
        *,
        capture_octets: int = 0,
        series_ns: int = 0,
        follower: int = -1,
        board: Board | None = None,
    ) -> None:
        self.seed = seed
        self.rng = random.Random(seed)
        self.directory = directory
        """The folder whose files come out in the result folder."""
        self.capture_octets = capture_octets
        """The number of octets of each frame that networks capture on all cables; with 0 they capture nothing."""
        self.series_ns = series_ns
        """The interval at which networks record time series; with 0 the experiment itself records what it needs."""
        self.follower = follower
        """The descriptor to which networks report their progress (`net/watch/progress.py`), or -1."""
        self._open_marks = 0
        """The marks of `measuring` that have begun and not ended."""
        self.is_in_lab_time = False
        """True if the rates and times of its networks are values of the lab."""
        self._start_ns = start_ns
        self._notes = notes
        self._board = board
        self._figures: set[str] = set()
        """The names of the figures so far."""
        self._at_end: dict[str, list[Mapping[str, Any]]] = {}
        """Events that are written at the end, by file."""
        self._demands: dict[int, Demand] = {}
        self._own_code: set[tuple[str, str, str]] = set()
        """The demands of what runs, by the number of each."""
        # O_APPEND and one write a line: agents of the same run may write the same log.
        self._events = os.open(directory / EVENT_LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    @staticmethod
    def current() -> Run | None:
        """Return the run of the experiment at work in this process, or None outside an experiment."""
        return _CURRENT.get()

    @property
    def start_ns(self) -> int:
        """The moment at which the experiment started, by the lab's monotonic clock."""
        return self._start_ns

    @property
    def lab_ns(self) -> int:
        """The time since the experiment started, in ns of the lab."""
        return time.monotonic_ns() - self._start_ns

    def figure(self, name: str, value: Any, unit: str = "") -> None:
        """Report a number that the run found. Rates, times, sizes and lengths bring their unit: b/s, ns, B, m.

        Each figure of a run has a name of its own.
        """
        if str(name) in self._figures:
            raise UsageError(
                f"figure {name}: the run has reported a figure of this name; give each its own, as in "
                f'run.figure("second case: {name}", ...)'
            )
        (found,), own_unit = _as_numbers(value)
        self._note("figure", name=str(name), value=plain(found), unit=own_unit or str(unit))
        self._figures.add(str(name))

    def figure_of_each(self, name: str, value: Any) -> None:
        """Report a figure that networks or parts of a run have in common: the second `lost` is `lost (2)`."""
        number, own = 1, name
        while own in self._figures:
            number += 1
            own = f"{name} ({number})"
        self.figure(own, value)

    def claim(
        self,
        name: str,
        measured: Any,
        *,
        equals: Any = None,
        at_least: Any = None,
        at_most: Any = None,
    ) -> bool:
        """Report what was measured beside what must come out; a claim that fails does not stop the run."""
        bounds = {"equals": equals, "at_least": at_least, "at_most": at_most}
        bounds = {bound: value for bound, value in bounds.items() if value is not None}
        if not bounds or ("equals" in bounds and len(bounds) > 1):
            raise UsageError(f"claim {name}: give equals=, or at_least= and/or at_most=")
        passed = holds(measured, **bounds)
        (found, *values), unit = _as_numbers(measured, *bounds.values())
        expected = {bound: plain(value) for bound, value in zip(bounds, values, strict=True)}
        self._note("claim", name=str(name), expected=expected, measured=plain(found), passed=passed, unit=unit)
        return passed

    def published(
        self, name: str, measured: Any, *, value: Any, source: str, within: Any = None, differs: str = ""
    ) -> None:
        """Report what was measured beside the `value` that others have published, and where: the `source`.

        With a tolerance, `within`, it is a claim: "5%" of the value, or as much in the value's own unit, or 0. Without
        one nothing is claimed, and both are shown. `differs` says what is not as it was there.
        """
        if within is None:
            self.figure(name, measured)
        else:
            self.claim(name, measured, **bounds_around(name, value, within))
        (found, stated), unit = _as_numbers(measured, value)
        line = {
            "t_ns": time.monotonic_ns(),
            "name": str(name),
            "published": plain(stated),
            "measured": plain(found),
            "unit": unit,
            "within": None if within is None else str(within),
            "source": str(source),
            "differs": str(differs),
        }
        self.lines_at_end(PUBLISHED_LOG, [line])

    def event(self, kind: str, /, **fields: Any) -> None:
        """Append a line to the run's event log."""
        if taken := sorted(fields.keys() & {"t", "event"}):
            raise UsageError(f"event {kind}: every line has its own {taken[0]}; name the field otherwise")
        line = {"t": self.lab_ns, "event": kind} | {key: plain(value) for key, value in fields.items()}
        os.write(self._events, json.dumps(line).encode() + b"\n")

    def history(self, lines: Callable[[int], Iterable[str]]) -> None:
        """Append the lines of a log kept elsewhere, which `lines` makes for the time at which the run began."""
        os.write(self._events, "".join(f"{line}\n" for line in lines(self._start_ns)).encode())

    def lines(self, file: str, events: Iterable[Mapping[str, Any]]) -> None:
        """Append to a file of JSON lines: events with a `t_ns` by the lab's monotonic clock. No events, no file.

        In the file it is `lab_ns`, since the run began: all times of a file are the hardware's, but for those that have
        `lab` in their names.
        """
        lines = [
            json.dumps(
                {"lab_ns": event["t_ns"] - self._start_ns}
                | {name: value for name, value in event.items() if name != "t_ns"}
            )
            for event in events
        ]
        if lines:
            with (self.directory / file).open("a", encoding="utf-8") as log:
                log.write("\n".join(lines) + "\n")

    def lines_at_end(self, file: str, events: Iterable[Mapping[str, Any]]) -> None:
        """Append to a file of JSON lines as `lines` does, when the experiment's function has ended.

        Nothing is written before, so that what is logged of one network takes no time of the next one.
        """
        self._at_end.setdefault(file, []).extend(events)

    def write_rest(self) -> None:
        """Write the lines that were kept for the end; whoever runs the job calls it."""
        for file, events in self._at_end.items():
            self.lines(file, events)
        self._at_end.clear()

    @contextmanager
    def measuring(self) -> Iterator[None]:
        """Mark the part of the run whose fidelity counts.

        Without a mark it is the time while traffic is running, and without traffic the time while networks are up.
        """
        self._open_marks += 1
        try:
            with self._phase(Phase.MEASURING):
                yield
        finally:
            self._open_marks -= 1

    @contextmanager
    def traffic_is_running(self) -> Iterator[None]:
        """Mark the time while traffic is running, unless the experiment itself marks the part that counts."""
        if self._open_marks:
            yield
            return
        with self._phase(Phase.TRAFFIC):
            yield

    @contextmanager
    def network_is_up(self) -> Iterator[None]:
        """Mark the time between a network's set-up and the end of it: both keep the CPU busy, and nothing is wrong."""
        with self._phase(Phase.NETWORK):
            yield

    def sets_up(self, nodes: int) -> None:
        """Tell that a network of so many nodes is being set up."""
        self._note("set_up", nodes=nodes, t=self.lab_ns)

    def demands(self, who: int, demand: Demand | None) -> None:
        """Tell the work that `who` asks for from a moment of the monotonic clock on; None: it asks for no more.

        This takes no time of the lab.
        """
        self._demands.pop(who, None)
        if demand is not None:
            self._demands[who] = replace(demand, begin_ns=max(0, demand.begin_ns - self._start_ns))
        if self._board is not None:
            self._board.write(self._demands.values())

    def agent_lateness(self, worst_ns: int) -> None:
        """Report how late an agent was woken at worst."""
        self._note("agent_lateness", worst_ns=int(worst_ns))

    def ran_rate_control(self, name: str, how: str) -> None:
        """Report how a rate control of the user's runs; each once."""
        self._ran("rate_control", name, how)

    def ran_switch_rule(self, name: str, how: str) -> None:
        """Report how a rule of the user's for switches runs; each once."""
        self._ran("switch_rule", name, how)

    def _ran(self, kind: str, name: str, how: str) -> None:
        if (kind, name, how) not in self._own_code:
            self._own_code.add((kind, name, how))
            self._note(kind, name=name, how=how)

    def failed(self, error: BaseException) -> None:
        """Report the exception that ends the run."""
        message = str(error)
        if isinstance(error, ModuleNotFoundError) and error.name:
            message += f"; --with {error.name.partition('.')[0]} brings a package that the lab lacks"
        self._note("failure", type=type(error).__name__, message=message[:_LONGEST_MESSAGE])

    @contextmanager
    def _phase(self, phase: Phase) -> Iterator[None]:
        self._note("phase", phase=phase, begins=True, t=self.lab_ns)
        try:
            yield
        finally:
            self._note("phase", phase=phase, begins=False, t=self.lab_ns)

    def _note(self, note: str, **content: Any) -> None:
        line = json.dumps({"note": note} | content) + "\n"
        if len(line) > LARGEST_NOTE:
            raise UsageError(
                f"{note} {content['name']} has {len(line)} octets, and {LARGEST_NOTE} can be reported; "
                "what is written to a file in run.directory comes out too"
            )
        self._notes.write(line)
        self._notes.flush()


@contextmanager
def running(run: Run) -> Iterator[None]:
    """Make `run` the current one for as long as the block lasts."""
    token = _CURRENT.set(run)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def holds(measured: Any, **bounds: Any) -> bool:
    """Return whether a measured value is within the bounds of a claim: `equals`, `at_least`, `at_most`."""
    # What could not be measured, such as the round trip of a ping without an answer, is in no bounds.
    return measured is not None and all(
        (bound == "equals" and measured == value)
        or (bound == "at_least" and measured >= value)
        or (bound == "at_most" and measured <= value)
        for bound, value in bounds.items()
    )


def _as_numbers(*values: Any) -> tuple[list[Any], str]:
    """Return the values with numbers in place of quantities, and the unit of all these numbers.

    Where a value has numbers of several kinds there is no such unit, and each quantity has its own one beside it.
    """
    kinds = {kind for value in values for kind in _kinds(value)}
    unit = kind.reported if len(kinds) == 1 and issubclass(kind := kinds.pop(), Quantity) else ""
    return [_replaced(value, bool(unit)) for value in values], unit


def _kinds(value: Any, nesting: int = DEEPEST) -> Iterator[type]:
    if isinstance(value, (list, tuple, dict)) and nesting:
        for item in value.values() if isinstance(value, dict) else value:
            yield from _kinds(item, nesting - 1)
    elif value is not None:  # what could not be measured
        yield type(value)


def _replaced(value: Any, bare: bool, nesting: int = DEEPEST) -> Any:
    if isinstance(value, Quantity):
        return value.number if bare else {"value": value.number, "unit": value.reported}
    if isinstance(value, dict) and nesting:
        return {name: _replaced(item, bare, nesting - 1) for name, item in value.items()}
    if isinstance(value, (list, tuple)) and nesting:
        return [_replaced(item, bare, nesting - 1) for item in value]
    return value


def plain(value: Any, nesting: int = DEEPEST) -> Any:
    """Return a value as JSON can hold it; quantities and numbers that are not finite are text, as people write them."""
    if isinstance(value, (Quantity, Scale)) or (isinstance(value, float) and not math.isfinite(value)):
        return str(value)
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if nesting == 0:
        raise UsageError(f"what is nested deeper than {DEEPEST} times cannot be reported")
    if isinstance(value, (list, tuple)):
        return [plain(item, nesting - 1) for item in value]
    if isinstance(value, dict):
        return {str(key): plain(item, nesting - 1) for key, item in value.items()}
    raise UsageError(f"{value!r} cannot be reported; numbers, texts, lists and units can")


_PERCENT = re.compile(r"(\d{1,3}(?:\.\d{1,6})?) ?%", re.ASCII)


def bounds_around(name: str, value: Any, within: Any) -> dict[str, Any]:
    """Return the bounds of a claim around a published value; `within` is as in `Run.published`."""
    if within == 0:
        return {"equals": value}
    if isinstance(within, str):
        if not (percent := _PERCENT.fullmatch(within)):
            raise UsageError(f"published {name}: within is {within!r}; write a part of the value such as '5%'")
        part = Fraction(percent[1]) / 100
        is_exact = isinstance(value, Quantity)
        room = value * part.numerator // part.denominator if is_exact else value * float(part)
    elif isinstance(value, Quantity) == isinstance(within, Quantity):
        room = within
    else:
        raise UsageError(f"published {name}: within is {within!r} and the value {value!r}; give both the same unit")
    return {"at_least": value - room, "at_most": value + room}
