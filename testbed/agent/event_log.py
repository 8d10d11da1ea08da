"""The event log: fixed records in anonymous memory, one log for each agent.

A record costs an agent about a microsecond of the lab's time, and outlives the agent. Its number is decoded when it is
read, by the table `EVENTS` of `testbed.agent.events`.
"""

from __future__ import annotations

import json
import os
import struct
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from testbed.agent.events import BY_NAME, EVENTS
from testbed.switch.pfc import PRIORITIES_IN

RECORD = struct.Struct("=QHHIq")
"""A record: time_ns, kind, slot, priorities, value."""
Record = tuple[int, int, int, int, int]
"""A record: time_ns, kind, slot, priorities, value."""


@dataclass(frozen=True)
class LoggedEvent:
    """One event; `kind` is its name and `detail` its fields."""

    lab_ns: int
    """The moment by the lab's clock."""
    kind: str
    port: str
    priorities: tuple[int, ...]
    detail: dict[str, Any]

    @property
    def t_ns(self) -> int:
        """The old name of `lab_ns`."""
        warnings.warn("event.t_ns is event.lab_ns since Xoff 0.1, for it is the lab's time", FutureWarning, 2)
        return self.lab_ns

    def __str__(self) -> str:
        """Return a line of a text log."""
        where = [self.port] if self.port else []
        if self.priorities:
            where.append(f"priority {','.join(map(str, self.priorities))}")
        return f"{self.lab_ns / 1e9:.9f} {' '.join(where) or '-'}: {BY_NAME[self.kind].text.format(**self.detail)}"


def new() -> int:
    """Return memory for one agent's log, as a file descriptor."""
    return os.memfd_create("xoff-events", os.MFD_CLOEXEC)


def content(log: int) -> bytes:
    """Return all of a log, as it is."""
    return os.pread(log, os.fstat(log).st_size, 0)


def read(log: int, start: int = 0) -> Iterator[Record]:
    """Yield all records of a log from an offset on."""
    size = os.fstat(log).st_size - start
    data = os.pread(log, size - size % RECORD.size, start)
    yield from RECORD.iter_unpack(data)


def decoded(record: Record, ports: dict[int, str]) -> LoggedEvent:
    time_ns, kind, slot, mask, value = record
    event = EVENTS[kind]
    return LoggedEvent(time_ns, event.name, ports.get(slot, ""), PRIORITIES_IN[mask & 0xFF], event.detail(value))


def lines(records: Iterable[Record], ports: dict[int, str], since_ns: int) -> Iterator[str]:
    """Yield the records of a log as lines of a run's event log, with times counted from `since_ns`.

    Thousands of events differ in their time and value only, so the rest of a line is made once: a log takes a twentieth
    of the lab's time that it takes to encode each event by itself.
    """
    patterns: dict[tuple[int, int, int, int], str] = {}
    for record in records:
        time_ns, kind, slot, mask, value = record
        key = (kind, slot, mask, 0 if EVENTS[kind].is_plain else value)
        pattern = patterns.get(key)
        if pattern is None:
            pattern = patterns[key] = _pattern(decoded(record, ports), value if EVENTS[kind].is_plain else None)
        yield pattern % (time_ns - since_ns, value)


def _pattern(event: LoggedEvent, value: int | None) -> str:
    """Return a line with places for time and value, in this order, or None if the line is for this event's value
    alone.
    """
    parts = [f"{_quoted('event')}: {_quoted(event.kind)}", f"{_quoted('port')}: {_quoted(event.port)}"]
    parts.append(f"{_quoted('priorities')}: {_quoted(event.priorities)}")
    place = "%.0s"  # consumes the value and prints nothing
    for name, content in event.detail.items():
        if value is not None:
            parts.append(f"{_quoted(name)}: %d")
            place = ""
        else:
            parts.append(f"{_quoted(name)}: {_quoted(content)}")
    return '{"t": %d, ' + ", ".join(parts) + "}" + place


def _quoted(value: object) -> str:
    """Return a text as JSON in a pattern has it."""
    return json.dumps(value).replace("%", "%%")
