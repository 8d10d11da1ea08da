"""A ladder diagram from the log of a link: what was sent and received, its content, and the state of each end.

The log has the lines of `show`, each with its "port". A frame that one port sent and the other received is one arrow;
one that was sent only is an arrow that ends on the way, and one that was received only is noted at the port. An arrow
is labelled with what is new since the last frame of the same sender that arrived. A frame that repeats the one before
it, came through or was lost as that one, and had no effect, is folded away and counted.

`text` and `svg` draw it.
"""

from __future__ import annotations

import enum
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from testbed.errors import UsageError
from testbed.subjects.dcbx import features, log_text, show

Record = Mapping[str, Any]

_LATEST_NS = 2**63 - 1


class LadderError(UsageError):
    """A log from which no ladder can be drawn."""


class Side(enum.IntEnum):
    LEFT = 0
    RIGHT = 1

    @property
    def other(self) -> Side:
        return Side(1 - self)


@dataclass(frozen=True, slots=True)
class Arrow:
    """A frame."""

    t_ns: int
    source: Side
    texts: tuple[str, ...]
    arrived_ns: int | None  # None: lost


@dataclass(frozen=True, slots=True)
class Note:
    """The events at one end at one moment."""

    t_ns: int
    side: Side
    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Folded:
    """A line in place of frames that are not drawn, the first of which was at `t_ns`."""

    t_ns: int
    texts: str


Step = Arrow | Note | Folded


@dataclass(frozen=True, slots=True)
class Ladder:
    """A ladder diagram: its steps in the order of their times."""

    left: str
    right: str
    start_ns: int
    steps: tuple[Step, ...]
    remarks: tuple[str, ...] = ()

    def clock(self, t_ns: int) -> str:
        """Return a time in seconds since the start, rounded down to the microsecond."""
        microseconds = (t_ns - self.start_ns) // 1000
        return f"{microseconds // 10**6}.{microseconds % 10**6:06d}"

    def label(self, arrow: Arrow) -> list[str]:
        """Return the parts of an arrow's label; the time of arrival is one of them if the next time below does not show
        it.
        """
        if arrow.arrived_ns is None or arrow.arrived_ns - arrow.t_ns < _MILLISECOND:
            return list(arrow.texts)
        return [*arrow.texts, f"arrives at {self.clock(arrow.arrived_ns)}"]

    @property
    def title(self) -> str:
        return f"seconds since {self.start_ns // 10**9}.{self.start_ns % 10**9:09d} s of the log"


_MILLISECOND = 10**6


def read(lines: Iterable[str]) -> Iterator[Record]:
    """Yield the records in the lines of a log file; LadderError at the first line that is not one of a log."""
    for number, line in enumerate(lines, 1):
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            raise LadderError(f"line {number} is not JSON: {line.strip()[:40]!r}") from None
        if isinstance(record, dict) and "lab_ns" in record:  # its name in the log of a run
            record["t_ns"] = record.pop("lab_ns")
        try:
            _check(record)
        except LadderError as error:
            raise LadderError(f"line {number}: {error}") from None
        yield record


def ladder(records: Iterable[Record], left: str, right: str) -> Ladder:
    """Return the diagram of the link between two ports. Lines of other ports may be there too."""
    by_port: dict[str, list[Record]] = {}
    for record in records:
        _check(record)
        by_port.setdefault(record["port"], []).append(record)
    if left == right:
        raise LadderError(f"a ladder has two ports, and both are {_clean(left)}; give the two ends of a link")
    for name in (left, right):
        if name not in by_port:
            there = f"there are {', '.join(map(_clean, sorted(by_port)))}" if by_port else "the log is empty"
            raise LadderError(f"no port {_clean(name)} in the log; {there}")
    return _Drawing(left, right, by_port[left], by_port[right]).drawn()


def _check(record: Any) -> None:
    if not isinstance(record, Mapping):
        raise LadderError(f"{str(record)[:40]!r} is not a line of a DCBX log, which is an object")
    t_ns = record.get("t_ns")
    if not isinstance(t_ns, int) or isinstance(t_ns, bool) or not 0 <= t_ns <= _LATEST_NS:
        raise LadderError(f"t_ns is {_clean(str(t_ns)[:40])}, and has to be a time in whole nanoseconds")
    for name in ("what", "port"):
        if not isinstance(record.get(name), str):
            raise LadderError(f"{name} is {_clean(str(record.get(name))[:40])}, and has to be text")


@dataclass(eq=False, slots=True)
class _Line:
    """A line of the log, with what the drawing has found out about it."""

    record: Record
    side: Side
    partner: _Line | None = None  # where this frame was received, or sent
    has_effect: bool = False  # of a frame that was received
    is_out: bool = False

    @property
    def t_ns(self) -> int:
        return int(self.record["t_ns"])

    def is_frame(self, direction: str) -> bool:
        return self.record["what"] == "frame" and self.record.get("direction") == direction

    @property
    def waits(self) -> bool:
        """True if the frame was received, and no line about its sending was read yet."""
        return self.is_frame("received") and self.partner is not None and not self.partner.is_out


@dataclass(slots=True)
class _Sender:
    """One sender, with what is known of its frames so far."""

    heard: Record | None = None  # the last that arrived; None: or the receiver has forgotten it
    last: tuple[Any, bool] | None = None  # ID of the last frame, and whether it was lost


class _Drawing:
    def __init__(self, left: str, right: str, *logs: list[Record]) -> None:
        self._names = left, right
        self._lines = [
            [_Line(record, side) for record in sorted(log, key=lambda record: record["t_ns"])]
            for side, log in zip(Side, logs, strict=True)
        ]
        for side in Side:
            _pair(self._lines[side], self._lines[side.other])
            _find_effects(self._lines[side])
        self._senders = [_Sender(), _Sender()]
        self._strangers: dict[tuple[Side, Any], _Sender] = {}
        self._last_events: dict[tuple[Side, str], Record] = {}
        self._legends: list[str | None] = []
        self._steps: list[Step] = []
        self._folds = _Folds()

    def drawn(self) -> Ladder:
        start = min(lines[0].t_ns for lines in self._lines)
        pendings: list[_Line] = []  # of one port at one moment: one note for all
        for line in self._in_order():
            is_pending = line.record["what"] == "pending_changed"
            if pendings and not (is_pending and (line.side, line.t_ns) == (pendings[0].side, pendings[0].t_ns)):
                self._tell_pending(pendings)
            try:
                self._look_for_legends(line.record)
                if is_pending:
                    log_text.event(line.record, None)  # so that it is found here if it is not as it should be
                    pendings.append(line)
                elif line.is_frame("sent"):
                    self._draw(line)
                elif line.is_frame("received"):
                    self._receive(line)
                else:
                    self._tell(line)
            except (KeyError, TypeError, ValueError, AttributeError, IndexError):
                what, name = line.record["what"], self._names[line.side]
                raise LadderError(
                    f"a line {_clean(what)!r} of {_clean(name)} at {line.t_ns} ns is not as Xoff writes it"
                ) from None
        self._tell_pending(pendings)
        self._unfold()
        left, right = map(_clean, self._names)
        return Ladder(left, right, start, tuple(self._steps), tuple(self._remarks()))

    def _in_order(self) -> Iterator[_Line]:
        """Yield the lines of both logs by time; what is received comes after what is sent, and else one port after the
        other.
        """
        places = [0, 0]
        while True:
            heads = [lines[place] for lines, place in zip(self._lines, places, strict=True) if place < len(lines)]
            if not heads:
                return
            head = min(heads, key=lambda line: (line.t_ns, line.waits))
            places[head.side] += 1
            head.is_out = True
            yield head

    # Frames

    def _draw(self, line: _Line) -> None:
        sender, arrival = self._senders[line.side], line.partner
        key = line.record.get("id"), arrival is None
        is_repeated = key == sender.last and key[0] is not None
        sender.last = key
        if is_repeated and not (arrival and arrival.has_effect):
            self._folds.add(line.t_ns, self._names[line.side], is_lost=arrival is None)
        else:
            texts = _cleaned(log_text.frame(line.record, sender.heard))
            self._add(Arrow(line.t_ns, line.side, texts, arrival.t_ns if arrival else None))
        if arrival:
            sender.heard = line.record

    def _receive(self, line: _Line) -> None:
        if "refused" in line.record:
            self._note(line, [f"refuses a frame: {line.record['why']}"])
        elif line.partner is None:  # a third station, a frame that came twice, or a log with holes
            source = line.record["source"]
            stranger = self._strangers.setdefault((line.side, source), _Sender())
            key = line.record.get("id"), False
            if stranger.last == key and not line.has_effect:
                self._folds.add(line.t_ns, source, is_lost=False)
            else:
                said = "; ".join(log_text.frame(line.record, stranger.heard))
                self._note(line, [f"receives from {source}, whose sending is not in these logs: {said}"])
            stranger.last, stranger.heard = key, line.record

    # Events

    def _tell(self, line: _Line) -> None:
        record = line.record
        what = record["what"]
        self._note(line, log_text.event(record, self._last_events.get((line.side, what))))
        self._last_events[line.side, what] = record
        if what == "neighbour_lost":
            sender = self._senders[line.side.other]
            if sender.heard and all(sender.heard.get(name) == record[name] for name in ("chassis_id", "port_id")):
                sender.heard = None

    def _look_for_legends(self, record: Record) -> None:
        """Note the legends that a frame or an event needs."""
        tlvs = record.get("tlvs", {})
        for feature in features.every():
            for data in (record.get(feature.name), tlvs.get(feature.name)):
                if data is not None:
                    self._legends.append(feature.legend(data))

    def _tell_pending(self, lines: list[_Line]) -> None:
        if lines:
            self._note(lines[0], log_text.pending([line.record for line in lines]))
            lines.clear()

    def _note(self, line: _Line, texts: list[str]) -> None:
        if not texts:
            return
        last = self._steps[-1] if self._steps else None
        together = isinstance(last, Note) and (last.t_ns, last.side) == (line.t_ns, line.side) and not self._folds.any
        if together and isinstance(last, Note):
            self._steps[-1] = Note(last.t_ns, last.side, last.texts + _cleaned(texts))
        else:
            self._add(Note(line.t_ns, line.side, _cleaned(texts)))

    # The diagram

    def _add(self, step: Step) -> None:
        self._unfold()
        self._steps.append(step)

    def _unfold(self) -> None:
        if self._folds.any:
            self._steps.append(Folded(self._folds.since_ns, _clean(self._folds.said())))
            self._folds = _Folds()

    def _remarks(self) -> Iterator[str]:
        yield from show.legends(self._legends)
        received = [line for own in self._lines for line in own if line.is_frame("received")]
        if received and not any(line.partner for line in received):
            yield "no frame of one port arrived at the other: are they the two ends of one link?"


@dataclass(slots=True)
class _Folds:
    """Frames that are counted and not drawn."""

    since_ns: int = 0
    counts: Counter[tuple[str, bool]] = field(default_factory=Counter)

    @property
    def any(self) -> bool:
        return bool(self.counts)

    def add(self, t_ns: int, source: str, *, is_lost: bool) -> None:
        if not self.counts:
            self.since_ns = t_ns
        self.counts[source, is_lost] += 1

    def said(self) -> str:
        parts = [
            f"{count} {'more of the same ' * (not number)}from {source}{', lost' * is_lost}"
            for number, ((source, is_lost), count) in enumerate(self.counts.items())
        ]
        return f"… {'; '.join(parts)}"


def _pair(senders: list[_Line], receivers: list[_Line]) -> None:
    """Pair each frame of one port with its arrival at the other.

    Equal frames cannot be distinguished. Each that arrived was sent last before that, so it is earlier ones that were
    lost; and they arrive in the order in which they were sent.
    """
    by_id: dict[Any, tuple[list[_Line], list[_Line]]] = {}
    for number, (lines, direction) in enumerate(((senders, "sent"), (receivers, "received"))):
        for line in lines:
            if line.is_frame(direction) and isinstance(line.record.get("id"), str):
                by_id.setdefault(line.record["id"], ([], []))[number].append(line)
    for sent, received in by_id.values():
        waiting: list[_Line] = []
        arrived: list[_Line] = []
        arrivals: list[_Line] = []
        place = 0
        for arrival in received:
            while place < len(sent) and sent[place].t_ns <= arrival.t_ns:
                waiting.append(sent[place])
                place += 1
            if waiting:
                arrived.append(waiting.pop())
                arrivals.append(arrival)
        in_order = sorted(arrived, key=lambda line: line.t_ns)
        for one, other in zip(in_order, arrivals, strict=True):
            one.partner, other.partner = other, one


def _find_effects(lines: list[_Line]) -> None:
    """Mark the received frames that had an effect: those that events of the same moment follow."""
    frame: _Line | None = None
    for line in lines:
        if line.is_frame("received"):
            frame = line
        elif frame is not None and line.record["what"] != "frame" and line.t_ns == frame.t_ns:
            frame.has_effect = True


def _cleaned(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(map(_clean, texts))


def _clean(text: str) -> str:
    """Replace what moves a terminal's cursor, or what XML cannot hold."""
    return "".join(character if character.isprintable() else "?" for character in str(text))
