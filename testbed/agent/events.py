"""The events that agents log: one entry for each, with its code in the log, its text and its fields.

A record in the log has one number beside time, port and priorities. A field gives that number, or a part of it, a name.
An event's name in a run's event log is the member's name in lower case. `docs/events.md` lists all of them.
"""

from __future__ import annotations

import enum
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from testbed.bytecode.code import FAULTS
from testbed.linux.port_program import DROP_REASONS
from testbed.switch.pfc.record import Ignored, PfcEvent


@dataclass(frozen=True)
class Field:
    """One value of an event; `read` gets it from the record's number, which without it is the value."""

    name: str
    meaning: str
    read: Callable[[int], Any] | None = None


@dataclass(frozen=True)
class EventType:
    """A kind of events. `text` has the names of fields in braces."""

    name: str
    text: str
    fields: tuple[Field, ...] = ()

    @property
    def is_plain(self) -> bool:
        """True if the record's number itself is the value of every field."""
        return all(field.read is None for field in self.fields)

    def detail(self, value: int) -> dict[str, Any]:
        return {field.name: field.read(value) if field.read else value for field in self.fields}


SR_ITEMS = ("policy", "tunnel", "vpn")
"""The first part of an item's identity in the control session of SR policies."""


def _item(value: int) -> Any:
    return SR_ITEMS[value] if value < len(SR_ITEMS) else value


def _ignored(value: int) -> Any:
    return Ignored(value).name.lower() if value in list(Ignored) else value


def _fault(value: int) -> Any:
    number = value >> 32
    return FAULTS[number] if number < len(FAULTS) else number


_REASONS = (*DROP_REASONS, "rule of a port")
_REACTION = Field("reaction_ns", "nanoseconds from the cause to this event")
_DEADLOCK = Field("deadlock", "its number in this network, from 1 on", lambda value: value >> 48)
_ITEM = Field("what", "policy, tunnel or vpn", _item)


class NamedEvent(enum.IntEnum):
    """Kinds of events: code, text and fields of each."""

    text: str
    fields: tuple[Field, ...]

    def __new__(cls, code: int, text: str, *fields: Field) -> NamedEvent:
        member = int.__new__(cls, code)
        member._value_, member.text, member.fields = code, text, fields
        return member


class AgentEvent(NamedEvent):
    """The events of agents and speakers beside those of `testbed.switch.pfc.record`."""

    DROP = (
        100,
        "frame of {octets} octets dropped: {reason}",
        Field("reason", "the limit that the frame exceeded", lambda value: _REASONS[value >> 32 & 7]),
        Field("octets", "the frame's length", lambda value: value & 0xFFFF_FFFF),
    )
    THRESHOLD = (
        101,
        "XOFF or XON threshold crossed, {shared_cells} shared cells in use",
        Field("shared_cells", "cells of the shared pool in use"),
    )
    QUEUE_STOPPED = 102, "queue stopped {reaction_ns} ns after the PFC frame arrived", _REACTION
    FRAME_SENT = 103, "XOFF frame sent {reaction_ns} ns after the threshold was crossed", _REACTION
    QUEUE_EMPTIED = 104, "queue emptied by the PFC watchdog"
    AGENT_STARTED = 105, "agent started"
    AGENT_DIED = (
        106,
        "agent or speaker died, status {status}",
        Field("status", "exit status, as wait(2) gives it; -1 after the death of the supervisor that forked it"),
    )
    SEND_FAILED = (
        107,
        "frame or request not sent: {error}",
        Field("error", "the kernel's error, in words", lambda value: os.strerror(value & 0xFFFF)),
    )
    PFC_SET = 108, "DCBX enabled PFC for these priorities and no other"
    DEFENSE_SET = 109, "frames received on these priorities are discarded (DCBX defense)"
    ETS_SET = 110, "DCBX changed the shares of the line"
    APPLICATIONS_SET = (
        111,
        "DCBX set an application table of {entries} entries",
        Field("entries", "entries of the table"),
    )
    NOT_LOSSLESS = 112, "too few buffer cells to make these priorities lossless; the previous ones stay"
    HEADROOM_MEASURED = (
        113,
        "headroom follows a measured round trip of {round_trip_ns} ns",
        Field("round_trip_ns", "the longest round trip measured"),
    )
    HEADROOM_DEFAULT = 114, "no valid measurement: the configured headroom is in use"
    TUNNEL_XOFF = (
        115,
        "XOFF sent into a reverse tunnel {after_us} us after the threshold was crossed",
        Field("after_us", "microseconds since the threshold was crossed"),
    )
    TUNNEL_XON = 116, "XON sent into a reverse tunnel"
    TUNNEL_REFRESH = 117, "XOFF repeated into a reverse tunnel"
    TUNNEL_RECEIVED = 118, "PFC frame received from a tunnel and applied to this port in {reaction_ns} ns", _REACTION
    TUNNEL_LEARNED = 119, "reverse tunnel learned from data packets"
    SR_INSTALLED = 120, "{what} of the SR policy controller installed", _ITEM
    SR_REMOVED = 121, "{what} of the SR policy controller removed", _ITEM
    HOLD_SET = 126, "nothing is sent on these priorities until the far port has no defenses on (DCBX)"
    DEADLOCK_DETECTED = (
        122,
        "deadlock {deadlock}: number {place} in a circle of {queues} queues that wait for each other",
        _DEADLOCK,
        Field(
            "place",
            "which of them this is, in the order in which they wait, from 0 on",
            lambda value: value >> 16 & 0xFFFF,
        ),
        Field("queues", "queues of the circle; each has an event", lambda value: value & 0xFFFF),
    )
    DEADLOCK_BROKEN = (
        123,
        "deadlock {deadlock} broken after {lasted_ns} ns",
        _DEADLOCK,
        Field("lasted_ns", "nanoseconds since it was detected", lambda value: value & (1 << 48) - 1),
    )
    SUPERVISOR_DIED = (
        124,
        "agent supervisor died; its deputy keeps {kept} agents and speakers and starts {started} anew",
        Field("kept", "agents and speakers that run on", lambda value: value >> 32),
        Field("started", "those that had died and have no successor yet", lambda value: value & 0xFFFF_FFFF),
    )
    EQUAL_WAYS = (
        127,
        "port {change} its groups of equal ways",
        Field("change", "left, or is back in", lambda value: "is back in" if value else "left"),
    )
    DEPUTY_DIED = 125, "deputy of the agent supervisor died"


class SwitchEvent(NamedEvent):
    """The events of what a switch does to frames beside pausing and dropping them."""

    TRIMMED = (
        128,
        "frame of {octets} octets for queue {queue} trimmed",
        Field("octets", "the frame's length before it was cut", lambda value: value & 0xFFFF_FFFF),
        Field("queue", "the queue of its egress port that was full", lambda value: value >> 32),
    )
    RULE_FAULT = (
        129,
        "marking rule has a fault, {fault}, in line {line} of its file; the curves of these queues mark from now on",
        Field(
            "fault", "what went wrong", lambda value: FAULTS[value >> 32] if value >> 32 < len(FAULTS) else value >> 32
        ),
        Field("line", "the line of the class's file", lambda value: value & 0xFFFF_FFFF),
    )
    LLR_REPLAY = (
        130,
        "LLR replays {frames} frames from {sequence} on",
        Field("frames", "the frames that are not acknowledged", lambda value: value >> 32),
        Field("sequence", "the first one's sequence number", lambda value: value & 0xFFFF_FFFF),
    )
    LLR_FLUSH = (
        131,
        "LLR gives up {frames} frames; the next is {sequence}",
        Field("frames", "the frames that were not acknowledged, and are lost", lambda value: value >> 32),
        Field("sequence", "the sequence number with which the sender goes on", lambda value: value & 0xFFFF_FFFF),
    )


_QUANTA = Field("quanta", "pause time, in units of 512 bit times")
_OF_PFC = {
    PfcEvent.XOFF_RECEIVED: ("XOFF received, {quanta} quanta", _QUANTA),
    PfcEvent.XON_RECEIVED: ("XON received",),
    PfcEvent.PAUSE_EXPIRED: (
        "pause expired, seen {late_ns} ns late",
        Field("late_ns", "nanoseconds between the end of the pause and the agent's reaction"),
    ),
    PfcEvent.PAUSE_CANCELLED: ("pause cancelled: PFC disabled or link lost",),
    PfcEvent.PAUSE_RESTORED: (
        "pause taken over from the previous agent, {left_ns} ns left",
        Field("left_ns", "nanoseconds of the pause that are left"),
    ),
    PfcEvent.XOFF_SENT: ("XOFF sent, {quanta} quanta", _QUANTA),
    PfcEvent.XOFF_REFRESHED: ("XOFF repeated, {quanta} quanta", _QUANTA),
    PfcEvent.XON_SENT: ("XON sent",),
    PfcEvent.CONGESTED: ("ingress buffer above its XOFF threshold",),
    PfcEvent.RELIEVED: ("ingress buffer below its XON threshold",),
    PfcEvent.IGNORED: (
        "PFC frame ignored: {reason}",
        Field("reason", "why, by the names of `testbed.switch.pfc.record.Ignored`", _ignored),
    ),
    PfcEvent.STORM_DETECTED: (
        "PFC storm detected after {paused_ns} ns of pause",
        Field("paused_ns", "nanoseconds for which the priority was paused without a break"),
    ),
    PfcEvent.STORM_ENDED: (
        "PFC storm ended after {lasted_ns} ns",
        Field("lasted_ns", "nanoseconds for which PFC was off for the priority"),
    ),
}


def _event_type(code: PfcEvent | NamedEvent) -> EventType:
    text, *fields = _OF_PFC[code] if isinstance(code, PfcEvent) else (code.text, *code.fields)
    assert isinstance(text, str)
    return EventType(code.name.lower(), text, tuple(field for field in fields if isinstance(field, Field)))


EVENTS: Mapping[int, EventType] = {int(code): _event_type(code) for code in (*PfcEvent, *AgentEvent, *SwitchEvent)}
"""The events by their codes."""
BY_NAME: Mapping[str, EventType] = {event.name: event for event in EVENTS.values()}
