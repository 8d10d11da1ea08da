"""The event log: fixed records in anonymous memory, one log for each process that writes one.

An agent writes to mapped memory (`MappedLog`), which takes no system call; others append to the file. A record outlives
the process that wrote it. Its number is decoded when it is read, by the table `EVENTS` of `testbed.agent.events`.
"""

from __future__ import annotations

import json
import mmap
import os
import struct
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from testbed.agent.events import BY_NAME, EVENTS
from testbed.linux.flow_device import address_of
from testbed.switch.pfc import PRIORITIES_IN

RECORD = struct.Struct("=QHHIq")
"""A record: time_ns, kind, slot, priorities, value."""
Record = tuple[int, int, int, int, int]
"""A record: time_ns, kind, slot, priorities, value."""
_SIZE = RECORD.size
_FRONT = _SIZE
"""The octets before the first record. The first eight are the end of what a `MappedLog` has written, and 0 in a file
that others append to: there it is the end of the file."""
_MOST_AT_ONCE = 32
"""More records than one event leads to."""
_PART = 1 << 20
"""The octets by which a mapped log grows: some 43 000 records."""


@dataclass(frozen=True)
class LoggedEvent:
    """One event; `kind` is its name and `detail` its fields."""

    lab_ns: int
    """The moment by the lab's clock."""
    kind: str
    port: str
    priorities: tuple[int, ...]
    detail: dict[str, Any]

    def __str__(self) -> str:
        """Return a line of a text log."""
        where = [self.port] if self.port else []
        if self.priorities:
            where.append(f"priority {','.join(map(str, self.priorities))}")
        return f"{self.lab_ns / 1e9:.9f} {' '.join(where) or '-'}: {BY_NAME[self.kind].text.format(**self.detail)}"


class MappedLog:
    """The log of an agent, which is its only writer at a moment: a record is in memory that is shared with the readers.

    First comes the record, then the end behind it in one store, so a process that is killed in between leaves no part
    of a record. The memory is mapped by the first record, in the process that writes it.
    """

    def __init__(self, log: int) -> None:
        self._log = log
        self._end = self._room = 0
        self._noted: list[Record] = []
        self.note = self._noted.append
        """Note a record for `write_noted`, which costs the CPU less."""

    def write_noted(self) -> None:
        for record in self._noted:
            self.add(*record)
        self._noted.clear()

    def add(self, time_ns: int, kind: int, slot: int, mask: int, value: int) -> None:
        at = self._end
        if at + _SIZE > self._room:
            at = self._map()
        RECORD.pack_into(self._memory, at, time_ns, kind, slot, mask, value)
        self._end = self._written[0] = at + _SIZE

    def room(self) -> tuple[int, int, int]:
        """Return the address of the memory, where the next record goes and where the memory ends, for who else writes
        records there: first the record, then the end. There is room for _MOST_AT_ONCE.
        """
        while self._end + _MOST_AT_ONCE * _SIZE > self._room:
            self._end = self._map()
        return address_of(self._memory), self._end, self._room

    def follow(self) -> None:
        """Go on behind what somebody else has written."""
        self._end = self._written[0]

    def close(self) -> None:
        """Unmap the memory. The file stays."""
        if self._room:
            self._written.release()
            self._memory.close()
            self._end = self._room = 0

    def _map(self) -> int:
        """Map the file as it is, or with one more part if there is no room, and return where the next record goes."""
        full = self._room
        self.close()
        size = os.fstat(self._log).st_size
        if size <= full or size < _PART:
            size = full + _PART
            os.ftruncate(self._log, size)
        self._memory = mmap.mmap(self._log, size)
        self._written = memoryview(self._memory).cast("Q")
        self._room = size
        at = self._written[0] = self._written[0] or _FRONT  # without it, all of the file would be records
        return at if at + _SIZE <= size else self._map()


def new() -> int:
    """Return memory for one process's log, as a file descriptor."""
    log = os.memfd_create("xoff-events", os.MFD_CLOEXEC)
    os.write(log, bytes(_FRONT))
    return log


def read(log: int, start: int = 0) -> Iterator[Record]:
    """Yield all records of a log, except those in the first `start` octets of records."""
    # Not by fstat: who writes to a file whose times were asked for reads the clock for a finer one.
    end = int.from_bytes(os.pread(log, 8, 0), sys.byteorder) or os.lseek(log, 0, os.SEEK_END)
    size = end - _FRONT - start
    data = os.pread(log, size - size % _SIZE, _FRONT + start)
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
