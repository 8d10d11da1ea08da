"""A result as a Perfetto trace, which ui.perfetto.dev opens: tracks by node and port, slices of pauses, counters.

The format is Perfetto's own, protocol buffers of TracePacket with TrackEvent and TrackDescriptor; only what is needed
of their fields is written here. Time is lab time in nanoseconds. An arrow leads from an XOFF that a port sent to the
queue that it stopped at the other end of the cable.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator
from typing import BinaryIO

from testbed.errors import plain
from testbed.lab.results.folder import Event, Folder
from testbed.report.pages.tables import INTERVALS
from testbed.report.timeline.series import PREFIX
from testbed.report.timeline.series import tracks as series_tracks
from testbed.report.timeline.tracks import Shape, Track, tracks

_SEQUENCE = 1
_BEGIN, _END, _INSTANT, _COUNTER = 1, 2, 3, 4
_MARKED = {"xoff_sent": "XOFF sent", "queue_stopped": "queue stopped"}
_LONGEST_NAME = 300


def write(folder: Folder, out: BinaryIO) -> None:
    """Write the trace of a result."""
    made = _Tracks()
    for packet in _packets(folder, made):
        out.write(_message(1, packet))


def _packets(folder: Folder, made: _Tracks) -> Iterator[bytes]:
    found = tracks(folder)
    nodes = {port: network.node_of(port) for network in folder.networks for port in network.ports}
    for track in (*found.tracks, *series_tracks(folder)):
        is_counter = track.shape in (Shape.SAMPLES, Shape.STEPS)
        yield from made.described(nodes, track.port, _title(track), track.unit or "1" if is_counter else "")
        identity = made.identity(track.port, _title(track))
        yield from _of_track(track, identity, found.marks)
    yield from _arrows(folder, made, nodes)


def _title(track: Track) -> str:
    if track.shape is Shape.MARKS:
        return "events"
    return f"{track.label} {INTERVALS.get(track.panel, track.panel.removeprefix(PREFIX))}"


def _of_track(track: Track, identity: int, marks: list[str]) -> Iterator[bytes]:
    for t_ns, value in zip(track.t_ns, track.values, strict=True):
        if track.shape is Shape.INTERVALS:
            yield _event(t_ns, identity, _BEGIN, name=_title(track))
            yield _event(value, identity, _END)
        elif track.shape is Shape.MARKS:
            yield _event(t_ns, identity, _INSTANT, name=marks[value])
        else:
            yield _event(t_ns, identity, _COUNTER, value=value, parts=track.parts)


def _arrows(folder: Folder, made: _Tracks, nodes: dict[str, str]) -> Iterator[bytes]:
    """Yield XOFF sent and queue stopped as instants, with an arrow to each stop from the neighbour's XOFF that caused
    it."""
    far_end: dict[str, str] = {}
    sent: dict[tuple[str, int], int] = {}
    starts = [(network.start_ns, network) for network in folder.networks]
    number = 0
    for event in folder.events():
        while starts and event.t_ns >= starts[0][0]:
            far_end = {}
            for cable in starts.pop(0)[1].cables:
                one, other = cable["ends"]
                far_end[one], far_end[other] = other, one
            sent = {}
        if event.name not in _MARKED:
            continue
        for priority in event.priorities:
            title = f"priority {priority} XOFF"
            yield from made.described(nodes, event.port, title, "")
            arrow, flow = _flow(event, priority, far_end, sent, number)
            number = max(number, arrow)
            identity = made.identity(event.port, title)
            yield _event(event.t_ns, identity, _INSTANT, name=_MARKED[event.name], flow=flow)


def _flow(
    event: Event, priority: int, far_end: dict[str, str], sent: dict[tuple[str, int], int], number: int
) -> tuple[int, bytes]:
    """Return the number of the arrow that begins or ends at an event, in the field that has it."""
    if event.name == "xoff_sent":
        sent[event.port, priority] = number + 1
        return number + 1, _fixed(47, number + 1)
    arrow = sent.pop((far_end.get(event.port, ""), priority), 0)
    return arrow, _fixed(48, arrow) if arrow else b""


class _Tracks:
    """The tracks that have been described: those of nodes, of ports below them, and those of ports."""

    def __init__(self) -> None:
        self._described: set[int] = set()

    def identity(self, *names: str) -> int:
        digest = hashlib.sha256("\0".join(names).encode(errors="replace")).digest()
        return int.from_bytes(digest[:8], "big") | 1

    def described(self, nodes: dict[str, str], port: str, title: str, unit: str) -> Iterator[bytes]:
        """Yield the missing descriptions of a track and of those above it."""
        node = nodes.get(port, port.rpartition("-")[0] or port or "run")
        ways = [
            (self.identity("node", node), 0, node, ""),
            (self.identity(port), self.identity("node", node), port or "run", ""),
            (self.identity(port, title), self.identity(port), title, unit),
        ]
        for identity, parent, name, counts in ways:
            if identity not in self._described:
                self._described.add(identity)
                yield _descriptor(identity, parent, name, counts)


def _descriptor(identity: int, parent: int, name: str, unit: str) -> bytes:
    fields = _number(1, identity) + _text(2, name)
    if parent:
        fields += _number(5, parent)
    if unit:
        fields += _message(8, _text(6, unit))
    return _packet() + _message(60, fields)


def _event(
    t_ns: int, track: int, kind: int, *, name: str = "", value: int | None = None, parts: int = 1, flow: bytes = b""
) -> bytes:
    fields = _number(9, kind) + _number(11, track)
    if name:
        fields += _text(23, name)
    if value is not None and parts == 1:
        fields += _number(30, value & 2**64 - 1)
    elif value is not None:
        fields += _double(44, value / parts)
    return _number(8, max(0, t_ns)) + _packet() + _message(11, fields + flow)


def _packet() -> bytes:
    return _number(10, _SEQUENCE)


# Protocol buffers: a field is its number and wire type, then its value.


_SHORT = [bytes([value]) for value in range(128)]


def _varint(value: int) -> bytes:
    if 0 <= value < 128:  # nearly all of them
        return _SHORT[value]
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _fixed(field: int, value: int) -> bytes:
    return _varint(field << 3 | 1) + struct.pack("<Q", value)


def _double(field: int, value: float) -> bytes:
    return _varint(field << 3 | 1) + struct.pack("<d", value)


def _message(field: int, content: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(content)) + content


def _text(field: int, text: str) -> bytes:
    return _message(field, plain(text[:_LONGEST_NAME]).encode(errors="replace"))
