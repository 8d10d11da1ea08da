"""Disturbances of single frames and ordered sets on a line, as a tester makes them."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TypeVar

from testbed.errors import UsageError

_MOST = (1 << 32) - 1
K = TypeVar("K", bound=enum.IntEnum)


class JamError(UsageError):
    """A disturbance that does not exist."""


class LineUnit(enum.IntEnum):
    """What is on a line: an ordered set, by its number on the line, or a frame."""

    ACK = 1
    NACK = 2
    INIT = 3
    ECHO = 4
    FRAME = 5


class LineFate(enum.IntEnum):
    """The fate of what is put on a line."""

    CAME = 0
    LOST = 1
    DAMAGED = 2
    POISONED = 3
    FROZEN = 4


@dataclass(frozen=True, init=False)
class Jam:
    """Disturb what has these numbers of its kind, counted from 1 as it is put on the line: `Jam("frame", "lost", 50)`.

    Frames are those with LLR, and their replays. A poisoned one comes whole, with a mark of its sender that it was
    broken before; it is not asked for again. A frozen acknowledgement comes with the number of the last one that was
    not frozen.
    """

    what: LineUnit
    fate: LineFate
    first: int
    count: int

    def __init__(self, what: LineUnit | str, fate: LineFate | str, first: int, count: int = 1) -> None:
        object.__setattr__(self, "what", _known("what", LineUnit, what))
        object.__setattr__(self, "fate", _known("fate", LineFate, fate))
        if self.fate is LineFate.POISONED and self.what is not LineUnit.FRAME:
            raise JamError("a jam: only frames can be poisoned; write 'lost' or 'damaged'")
        if self.fate is LineFate.FROZEN and self.what is not LineUnit.ACK:
            raise JamError("a jam: only acknowledgements can be frozen; write Jam('ack', 'frozen', ...)")
        for name, value in (("first", first), ("count", count)):
            if type(value) is not int or not 1 <= value <= _MOST:
                raise JamError(f"a jam: {name} is {value!r}; it is a whole number, 1 or more")
            object.__setattr__(self, name, value)


def _known(name: str, kind: type[K], given: object) -> K:
    found = given if isinstance(given, kind) else kind.__members__.get(str(given).upper())
    if found is None or found is LineFate.CAME:
        words = ", ".join(repr(one.name.lower()) for one in kind if one is not LineFate.CAME)
        raise JamError(f"a jam: {name} is {given!r}; write {words}")
    return found
