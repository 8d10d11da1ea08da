"""Tracks of events: intervals, counters and samples by port and priority, in columns, from the event log.

A pause interval lasts from XOFF received to XON received, the end of the pause, its cancellation or a storm that the
watchdog ends. An XOFF interval lasts from the ingress buffer above its XOFF threshold to the buffer below its XON
threshold. What is still open when its network ends, ends there.
"""

from __future__ import annotations

import enum
from array import array
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from testbed.lab.results.folder import EVENTS, LATEST_NS, Event, Folder, ReportError


class Shape(enum.StrEnum):
    """The meaning of the two columns of a track."""

    INTERVALS = "intervals"  # start, end
    SAMPLES = "samples"  # time, value; nothing is known between two of them
    STEPS = "steps"  # time, value from then on, up to the end of the network at most
    MARKS = "marks"  # time, number of the event's name


@dataclass
class Track:
    """A row of a panel. Its columns are in the order of time."""

    panel: str
    port: str
    label: str
    """A priority or a reason, which distinguishes the row from others of its port in the panel."""
    shape: Shape
    t_ns: array[int] = field(default_factory=lambda: array("q"))
    values: array[int] = field(default_factory=lambda: array("q"))
    unit: str = ""
    parts: int = 1
    """The number of parts of the unit that values are in."""

    @property
    def name(self) -> str:
        return f"{self.port} {self.label}".strip()

    def add(self, t_ns: int, value: int) -> None:
        self.t_ns.append(t_ns)
        self.values.append(value)


@dataclass(frozen=True)
class _Kind:
    """A kind of intervals: the event that opens them, those that close them, and their panel."""

    panel: str
    opens: str
    closes: frozenset[str]


PAUSED, ASSERTED, STORM, TUNNEL = "paused", "xoff", "storm", "tunnel"
OCCUPANCY, DROPS, MARKS = "occupancy", "drops", "events"
_INTERVALS = (
    _Kind(
        PAUSED,
        "xoff_received",
        frozenset({"xon_received", "pause_expired", "pause_cancelled", "storm_detected"}),
    ),
    _Kind(ASSERTED, "congested", frozenset({"relieved"})),
    _Kind(STORM, "storm_detected", frozenset({"storm_ended"})),
    _Kind(TUNNEL, "tunnel_xoff", frozenset({"tunnel_xon"})),
)
_OPENS = {kind.opens: kind for kind in _INTERVALS}
_CLOSES: dict[str, list[_Kind]] = {}
for _kind in _INTERVALS:
    for _name in _kind.closes:
        _CLOSES.setdefault(_name, []).append(_kind)
_FACTS = frozenset(
    {"headroom_measured", "headroom_default", "tunnel_learned", "sr_installed", "sr_removed", "not_lossless"}
)
_OF_AGENTS = {"agent_started", "agent_died", "send_failed", "ignored", "queue_emptied", "pause_cancelled"}
_OF_PFC = {"pause_restored", "storm_detected", "storm_ended", "pfc_set", "defense_set", "ets_set", "applications_set"}
_OF_LINES = {"llr_replay", "llr_flush"}
_MARKED = _FACTS | _OF_AGENTS | _OF_PFC | _OF_LINES
"""The events that are shown as marks; those of intervals and counters have a picture already."""


@dataclass
class Tracks:
    """All tracks of a result, and the counts of its events."""

    tracks: list[Track]
    events: Counter[str]
    dropped: Counter[str]
    """The number of dropped frames, by reason."""
    marks: list[str]
    """The names of marked events, by their number in a track."""
    pauses: Counter[tuple[str, int]]
    """The number of XOFF frames that began a pause, by port and priority."""
    facts: list[Event]
    """The events that tables show, such as measured headroom; at most `MOST_FACTS`."""

    def in_panel(self, panel: str) -> list[Track]:
        return [track for track in self.tracks if track.panel == panel]


MOST_FACTS = 500
MOST_TRACKS = 100_000
"""The most tracks of one result: some ten for each port of the largest networks."""
LARGEST = 2**53
"""The limit below which integers are exact in a browser."""
_SHOWN = _MARKED | _OPENS.keys() | _CLOSES.keys() | {"threshold", "drop"}


class Reader:
    """A reader of events in the order of time, which makes tracks of them."""

    def __init__(self) -> None:
        self.found: dict[tuple[str, str, str], Track] = {}
        self.open: dict[tuple[str, str, int], int] = {}
        self.dropped: Counter[str] = Counter()
        self.pauses: Counter[tuple[str, int]] = Counter()
        self.drops_of: Counter[tuple[str, str]] = Counter()
        self.marks: dict[str, int] = {}
        self.facts: list[Event] = []
        self.since_ns: int | None = None
        """The start of the network whose events are read; a count of drops is 0 then."""

    def take(self, event: Event) -> None:
        name, t_ns = event.name, event.t_ns
        for kind in _CLOSES.get(name, ()):
            for priority in event.priorities or range(8):
                self._close(kind.panel, event.port, priority, t_ns)
        if opened := _OPENS.get(name):
            for priority in event.priorities:
                if (opened.panel, event.port, priority) not in self.open:
                    self.open[opened.panel, event.port, priority] = t_ns
                    if opened.panel == PAUSED:
                        self.pauses[event.port, priority] += 1
        if name == "threshold":
            cells = event.fields.get("shared_cells")
            for priority in event.priorities:
                track = self.track(OCCUPANCY, event.port, f"priority {priority}", Shape.SAMPLES, "cells")
                if type(cells) is int and abs(cells) < LARGEST:
                    track.add(t_ns, cells)
        elif name == "drop":
            reason = str(event.fields.get("reason"))
            self.dropped[reason] += 1
            self.drops_of[event.port, reason] += 1
            track = self.track(DROPS, event.port, reason, Shape.STEPS, "frames")
            if self.since_ns is not None and self.drops_of[event.port, reason] == 1 and self.since_ns < t_ns:
                track.add(self.since_ns, 0)
            track.add(t_ns, self.drops_of[event.port, reason])
        elif name in _MARKED:
            number = self.marks.setdefault(name, len(self.marks))
            self.track(MARKS, event.port, "", Shape.MARKS).add(t_ns, number)
            if name in _FACTS and len(self.facts) < MOST_FACTS:
                self.facts.append(event)

    def end(self, t_ns: int) -> None:
        """Close all intervals that are open, at the end of a network or of the run."""
        for panel, port, priority in list(self.open):
            self._close(panel, port, priority, t_ns)
        self.drops_of.clear()

    def _close(self, panel: str, port: str, priority: int, t_ns: int) -> None:
        start = self.open.pop((panel, port, priority), None)
        if start is not None and t_ns >= start:
            self.track(panel, port, f"priority {priority}", Shape.INTERVALS).add(start, t_ns)

    def track(self, panel: str, port: str, label: str, shape: Shape, unit: str = "") -> Track:
        key = panel, port, label
        if key not in self.found:
            self.found[key] = Track(panel, port, label, shape, unit=unit)
        return self.found[key]


class _DisorderError(Exception):
    """Raised if an event is earlier than the one before it in the log."""


def tracks(folder: Folder) -> Tracks:
    """Return the tracks of a result. The log of a network is in the order of time; another log takes more memory."""
    try:
        return _read(folder, folder.events())
    except _DisorderError:
        return _read(folder, sorted(folder.events(), key=lambda event: event.t_ns))


def _read(folder: Folder, events: Iterable[Event]) -> Tracks:
    reader, counted = Reader(), Counter[str]()
    ends = [network.end_ns for network in folder.networks] or [folder.end_ns]
    starts = [network.start_ns for network in folder.networks]
    latest_ns = -LATEST_NS
    for event in events:
        counted[event.name] += 1
        if event.name not in _SHOWN:  # those that an experiment adds stand where it wrote them
            continue
        if event.t_ns < latest_ns:
            raise _DisorderError
        latest_ns = event.t_ns
        while ends and latest_ns > ends[0]:
            reader.end(ends.pop(0))
        while starts and latest_ns >= starts[0]:
            reader.since_ns = starts.pop(0)
        reader.take(event)
        if len(reader.found) + len(reader.open) > MOST_TRACKS:
            raise ReportError(f"{folder.path / EVENTS} is of more than {MOST_TRACKS} ports and priorities")
    for end_ns in ends[:1]:
        reader.end(end_ns)
    found = sorted(reader.found.values(), key=lambda track: (track.panel, natural(track.port), natural(track.label)))
    return Tracks(found, counted, reader.dropped, list(reader.marks), reader.pauses, reader.facts)


def natural(text: str) -> tuple[tuple[int, int, str], ...]:
    """Return a sorting key by which s1-eth10 comes after s1-eth9."""
    parts: list[tuple[int, int, str]] = []
    digits = letters = ""
    for c in f"{text}\0":
        if c.isascii() and c.isdigit() and len(digits) < 18:
            if letters:
                parts.append((1, 0, letters))
                letters = ""
            digits += c
        else:
            if digits:
                parts.append((0, int(digits), ""))
                digits = ""
            letters += c
    return (*parts, (1, 0, letters))
