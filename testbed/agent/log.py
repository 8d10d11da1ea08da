"""The event log: fixed records in anonymous memory, one log for each agent.

A record costs an agent about a microsecond of the lab's time, and outlives the agent. It is put into words when
somebody reads it.
"""

from __future__ import annotations

import enum
import json
import os
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from testbed.linux.port_program import DROP_REASONS
from testbed.pfc.record import Ignored, PfcEvent

RECORD = struct.Struct("=QHHIq")
"""time_ns, kind, slot, priorities, value."""


class AgentEvent(enum.IntEnum):
    """What an agent itself adds to the kinds of `testbed.pfc.record`."""

    DROP = 100  # value: reason << 32 | octets
    THRESHOLD = 101  # the buffer told of a crossing; value: cells in the shared pool
    QUEUE_STOPPED = 102  # value: ns since the PFC frame was at the port
    FRAME_SENT = 103  # value: ns since the crossing
    QUEUE_EMPTIED = 104
    AGENT_STARTED = 105
    AGENT_DIED = 106  # value: exit status
    SEND_FAILED = 107  # value: errno
    PFC_SET = 108  # by DCBX: PFC is on for these priorities and no other
    DEFENSE_SET = 109  # what comes in on these priorities is discarded
    ETS_SET = 110
    APPLICATIONS_SET = 111  # value: entries
    HEADROOM_MEASURED = 113  # value: the longest round trip, in ns
    HEADROOM_DEFAULT = 114  # nothing is measured: the configured headroom holds
    TUNNEL_XOFF = 115  # sent through a reverse tunnel; value: microseconds since the threshold was passed
    TUNNEL_XON = 116
    TUNNEL_REFRESH = 117
    TUNNEL_RECEIVED = 118  # a PFC frame for these priorities came through one, and this port has obeyed it; value: ns
    TUNNEL_LEARNED = 119
    SR_INSTALLED = 120  # as the controller requested; value: a policy, a tunnel or a VPN
    SR_REMOVED = 121
    NOT_LOSSLESS = 112  # the buffer has not enough cells to make these lossless; what was granted before stays


SR_ITEMS = ("policy", "tunnel", "vpn")
"""The first part of an item's identity in `testbed.srv6.session.items`."""
_SPANS = {
    PfcEvent.PAUSE_EXPIRED: "late_ns",
    PfcEvent.PAUSE_RESTORED: "left_ns",
    PfcEvent.STORM_DETECTED: "paused_ns",
    PfcEvent.STORM_ENDED: "lasted_ns",
}
"""What the value is, where it is a time."""
_SAID = frozenset(
    {AgentEvent.DROP, AgentEvent.SEND_FAILED, AgentEvent.SR_INSTALLED, AgentEvent.SR_REMOVED, PfcEvent.IGNORED}
)
"""Kinds whose value is put into other words than its number."""
Record = tuple[int, int, int, int, int]
"""time_ns, kind, slot, priorities, value."""


@dataclass(frozen=True)
class LoggedEvent:
    """One event, in words."""

    t_ns: int
    kind: str
    port: str
    priorities: tuple[int, ...]
    detail: dict[str, Any]


def new() -> int:
    """Memory for one agent's log, as a file descriptor."""
    return os.memfd_create("xoff-events", os.MFD_CLOEXEC)


def content(log: int) -> bytes:
    """All of a log, as it is."""
    return os.pread(log, os.fstat(log).st_size, 0)


def read(log: int) -> Iterator[Record]:
    """All records of a log."""
    size = os.fstat(log).st_size
    data = os.pread(log, size - size % RECORD.size, 0)
    yield from RECORD.iter_unpack(data)


def in_words(record: Record, ports: dict[int, str]) -> LoggedEvent:
    time_ns, kind, slot, mask, value = record
    priorities = tuple(priority for priority in range(8) if mask >> priority & 1)
    detail: dict[str, Any] = {}
    name = (AgentEvent(kind) if kind >= AgentEvent.DROP else PfcEvent(kind)).name.lower()
    if kind == AgentEvent.DROP:
        detail = {"reason": DROP_REASONS[value >> 32 & 3], "octets": value & 0xFFFF_FFFF}
    elif kind in (AgentEvent.QUEUE_STOPPED, AgentEvent.FRAME_SENT, AgentEvent.TUNNEL_RECEIVED):
        detail = {"reaction_ns": value}
    elif kind == AgentEvent.THRESHOLD:
        detail = {"shared_cells": value}
    elif kind == AgentEvent.AGENT_DIED:
        detail = {"status": value}
    elif kind == AgentEvent.HEADROOM_MEASURED:
        detail = {"round_trip_ns": value}
    elif kind == AgentEvent.TUNNEL_XOFF:
        detail = {"after_us": value}
    elif kind in (AgentEvent.SR_INSTALLED, AgentEvent.SR_REMOVED):
        detail = {"what": SR_ITEMS[value] if value < len(SR_ITEMS) else value}
    elif kind == AgentEvent.APPLICATIONS_SET:
        detail = {"entries": value}
    elif kind == AgentEvent.SEND_FAILED:
        detail = {"error": os.strerror(value & 0xFFFF)}
    elif kind == PfcEvent.IGNORED:
        detail = {"reason": list(Ignored)[value].name.lower() if value < len(Ignored) else value}
    elif kind in (PfcEvent.XOFF_RECEIVED, PfcEvent.XOFF_SENT, PfcEvent.XOFF_REFRESHED):
        detail = {"quanta": value}
    elif kind in _SPANS:
        detail = {_SPANS[PfcEvent(kind)]: value}
    return LoggedEvent(time_ns, name, ports.get(slot, ""), priorities, detail)


def lines(records: Iterable[Record], ports: dict[int, str], since_ns: int) -> Iterator[str]:
    """The same as lines of a run's event log, with times counted from `since_ns`.

    Thousands of events differ in their time and value only, so the rest of a line is made once: a log takes a twentieth
    of the lab's time that it takes to put each event into words.
    """
    patterns: dict[tuple[int, int, int, int], str] = {}
    for record in records:
        time_ns, kind, slot, mask, value = record
        key = (kind, slot, mask, value if kind in _SAID else 0)
        pattern = patterns.get(key)
        if pattern is None:
            pattern = patterns[key] = _pattern(in_words(record, ports), value)
        yield pattern % (time_ns - since_ns, value)


def _pattern(event: LoggedEvent, value: int) -> str:
    """A line with places for time and value, in this order."""
    told = [f"{_quoted('event')}: {_quoted(event.kind)}", f"{_quoted('port')}: {_quoted(event.port)}"]
    told.append(f"{_quoted('priorities')}: {_quoted(event.priorities)}")
    place = "%.0s"  # takes the value, and shows nothing of it
    for name, content in event.detail.items():
        if content == value:
            told.append(f"{_quoted(name)}: %d")
            place = ""
        else:
            told.append(f"{_quoted(name)}: {_quoted(content)}")
    return '{"t": %d, ' + ", ".join(told) + "}" + place


def _quoted(value: object) -> str:
    """As JSON, in a pattern."""
    return json.dumps(value).replace("%", "%%")
