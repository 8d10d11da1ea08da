"""What a cable with Link Layer Retry carried, as frames of a capture. The form is the lab's own.

A frame of Ethernet has no preamble in a capture, and ordered sets are in none at all. So each is put behind a header:

    octets  0-11   the addresses of the port that it goes to, and of the one that it comes from
           12-13   EtherType 0x88B5, one of IEEE's for experiments
           14      version 1
           15      1 a frame, 2 an ordered set
           16      0 it came, 1 it was lost, 2 it came damaged, 3 it came poisoned
           17      bit 0: a replay; bit 1: a frame without a sequence number
           18-25   the preamble or the ordered set
           26-     the frame from its destination on, which may be cut
"""

from __future__ import annotations

import enum
import struct
from dataclasses import dataclass

from testbed.errors import XoffError
from testbed.frames import FieldError, Mac
from testbed.subjects.link.llr import ordered_set
from testbed.subjects.link.llr.ordered_set import OCTETS, OrderedSet, OrderedSetError

ETHERTYPE = 0x88B5
VERSION = 1
HEADER = 26
"""The octets before the frame."""
REPLAY, INELIGIBLE = 1, 2
_PLAIN_PREAMBLE = b"\x55" * 7 + b"\xd5"
_HEAD = struct.Struct(f"!6s6sHBBBB{OCTETS}s")
_FRAME, _SET = 1, 2
KEPT = 64
"""The octets of a frame to which the lab cuts it."""
KINDS = {_FRAME: "frame", _SET: "ordered set"}
LAYOUT = (("version", 14, 1), ("kind", 15, 1), ("fate", 16, 1), ("flags", 17, 1), ("line", 18, OCTETS))
"""The fields behind the EtherType: name, first octet, octets."""


class RecordError(XoffError):
    """Octets that are no record of a cable."""


class Fate(enum.IntEnum):
    """The fate of what a cable carried."""

    CAME = 0
    LOST = 1
    DAMAGED = 2
    POISONED = 3


@dataclass(frozen=True)
class Record:
    """A frame or an ordered set on a cable."""

    destination: Mac
    source: Mac
    content: OrderedSet | int | None
    """The ordered set, or the sequence number of a frame; None: a frame without one."""
    fate: Fate = Fate.CAME
    is_replay: bool = False
    frame: bytes = b""

    def __post_init__(self) -> None:
        if self.frame and isinstance(self.content, OrderedSet):
            raise FieldError("an ordered set is no frame, and carries none")

    def encode(self) -> bytes:
        flags = (REPLAY if self.is_replay else 0) | (INELIGIBLE if self.content is None else 0)
        kind = _SET if isinstance(self.content, OrderedSet) else _FRAME
        if isinstance(self.content, OrderedSet):
            line = self.content.encode()
        else:
            line = _PLAIN_PREAMBLE if self.content is None else ordered_set.preamble(self.content)
        head = self.destination.octets, self.source.octets, ETHERTYPE, VERSION, kind, self.fate, flags, line
        return _HEAD.pack(*head) + self.frame


def parse(octets: bytes) -> Record:
    """Read a record."""
    if len(octets) < _HEAD.size:
        raise RecordError(f"{len(octets)} octets; a record has {_HEAD.size} at the least")
    destination, source, ethertype, version, kind, fate, flags, line = _HEAD.unpack_from(octets)
    if ethertype != ETHERTYPE or version != VERSION:
        raise RecordError(f"EtherType {ethertype:#06x}, version {version}: no record of a cable with LLR")
    if kind not in (_FRAME, _SET) or fate not in set(Fate) or flags > (REPLAY | INELIGIBLE):
        raise RecordError(f"kind {kind}, fate {fate}, flags {flags:#x}: not all of them exist")
    content: OrderedSet | int | None = None
    if kind == _SET:
        if flags or len(octets) > _HEAD.size:
            raise RecordError("an ordered set with flags or with a frame behind it")
        content = ordered_set.parse(line)
    elif not flags & INELIGIBLE:
        content = ordered_set.sequence_of(line)
    elif line != _PLAIN_PREAMBLE:
        raise OrderedSetError("a frame without a sequence number has another preamble")
    frame = octets[_HEAD.size :]
    return Record(Mac(destination), Mac(source), content, Fate(fate), bool(flags & REPLAY), frame)
