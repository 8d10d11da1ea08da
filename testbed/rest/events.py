"""What has happened, in order, for whoever follows: each event has a number, and none is told twice.

The newest ones are kept. A follower says which one it had last; if those after it are no longer all here, it is told so
by a `gap`, and has to look at the whole again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any


@dataclass(frozen=True)
class Happening:
    """One event."""

    sequence: int  # from 1
    time_ns: int
    kind: str
    subject: str  # what it is about: a router, a link, the id of a policy
    text: str  # for people
    data: Mapping[str, Any]

    def as_json(self) -> dict[str, Any]:
        return {
            "sequence": self.sequence,
            "time_ns": self.time_ns,
            "kind": self.kind,
            "subject": self.subject,
            "text": self.text,
            "data": dict(self.data),
        }


class History:
    """The last events."""

    def __init__(self, size: int = 4096) -> None:
        self._kept: deque[Happening] = deque(maxlen=size)
        self.last = 0

    def add(self, now_ns: int, kind: str, subject: str, text: str, **data: Any) -> None:
        self.last += 1
        self._kept.append(Happening(self.last, now_ns, kind, subject, text, data))

    def after(self, sequence: int) -> list[Happening]:
        """The events after this one, in order; the first of them is a `gap` if some are lost, or numbers began anew."""
        first = self._kept[0].sequence if self._kept else self.last + 1
        if sequence > self.last:
            text = f"event {sequence} is not of this controller, which has come to {self.last}; look at the whole again"
            return [Happening(0, 0, "gap", "controller", text, {}), *self._kept]
        if sequence + 1 < first and sequence != 0:
            text = f"events {sequence + 1} to {first - 1} are forgotten; look at the whole again"
            return [Happening(first - 1, self._kept[0].time_ns, "gap", "controller", text, {}), *self._kept]
        return list(islice(self._kept, max(sequence + 1 - first, 0), None))
