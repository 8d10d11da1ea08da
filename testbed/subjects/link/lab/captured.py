"""A line's frames, ordered sets and losses with Link Layer Retry, as frames of a capture."""

from __future__ import annotations

from testbed.frames import Mac
from testbed.linux.line_records import LineRecord
from testbed.subjects.link.llr.ordered_set import Kind, OrderedSet
from testbed.subjects.link.llr.record import Fate, Record
from testbed.switch.link.jam import LineUnit


def as_frame(found: LineRecord, source: Mac, target: Mac) -> bytes:
    """Return a record that a capture has: behind a shim with its preamble, or as an ordered set."""
    content: OrderedSet | int | None = None if found.is_plain else found.sequence
    if found.what != LineUnit.FRAME:
        content = OrderedSet(Kind(found.what), found.sequence, found.data)
    return Record(target, source, content, Fate(found.fate), found.is_replay, found.octets).encode()
