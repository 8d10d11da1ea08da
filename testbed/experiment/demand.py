"""The work that a lab has before it, as it tells the user's machine, which makes a forecast of it.

A job must not tell it while a network runs: each system call takes the lab's time, and all events after it would come
later. So it writes to memory that it shares with the supervisor, which sends it along with what it sends anyway.
"""

from __future__ import annotations

import json
import mmap
import struct
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field

_HEAD = struct.Struct("=qq")
"""The number of changes, which is odd during one, and the octets of the content."""
_SIZE = mmap.PAGESIZE
_MOST = 2**62


@dataclass(frozen=True)
class Demand:
    """The work that flows ask for, from their begin to their expected end."""

    begin_ns: int
    """The time of the run at which they begin."""
    lab_ns: int
    """The time that they are expected to take in the lab."""
    frames: Mapping[str, int] = field(default_factory=dict)
    """The frames of data that they are expected to send, by transport."""
    hops: Mapping[str, int] = field(default_factory=dict)
    """The switches and routers that all these frames pass, by transport."""
    flows: Mapping[str, int] = field(default_factory=dict)
    """The flows of each transport."""

    @property
    def end_ns(self) -> int:
        return self.begin_ns + self.lab_ns


class Board:
    """A page of memory on which the job writes its demands, and in which the supervisor sees them."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, _SIZE)
        self._changes = self._seen = 0

    def write(self, demands: Iterable[Demand]) -> None:
        """Replace what is on the board. What has no room is left out: then there is no forecast of it."""
        content = json.dumps([asdict(one) for one in demands]).encode()
        if len(content) > _SIZE - _HEAD.size:
            content = b"[]"
        self._changes += 2
        _HEAD.pack_into(self._memory, 0, self._changes - 1, 0)
        self._memory[_HEAD.size : _HEAD.size + len(content)] = content
        _HEAD.pack_into(self._memory, 0, self._changes, len(content))

    def news(self) -> bytes | None:
        """Return what is on the board if it was changed since the last time, else None."""
        changes, length = _HEAD.unpack_from(self._memory)
        if changes == self._seen or changes & 1:
            return None
        self._seen = changes
        return self._memory[_HEAD.size : min(_SIZE, _HEAD.size + max(0, length))]


def demands(content: object) -> tuple[Demand, ...] | None:
    """Return the demands that a lab has told, or None if no lab of ours tells that."""
    if not isinstance(content, list):
        return None
    found = []
    for one in content:
        match one:
            case {
                "begin_ns": int(begin_ns),
                "lab_ns": int(lab_ns),
                "frames": dict(frames),
                "hops": dict(hops),
                "flows": dict(flows),
            }:
                numbers = [begin_ns, lab_ns, *frames.values(), *hops.values(), *flows.values()]
                if not all(type(number) is int and 0 <= number <= _MOST for number in numbers):
                    return None
                found.append(Demand(begin_ns, lab_ns, frames, hops, flows))
            case _:
                return None
    return tuple(found)
