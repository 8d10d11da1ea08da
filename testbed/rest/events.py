"""The event history that all services share, and the operation that shows it.

Events have numbers and are kept up to a limit. A follower names the last event that it has. If later ones are no longer
kept, the first event that it gets is a `gap`, after which it has to read the whole state again.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from itertools import islice
from typing import Annotated, Any, Literal

from testbed.rest.http import Response
from testbed.rest.service import Answer, Call, Operation
from testbed.typed_json.codec import CODEC
from testbed.typed_json.meta import Meta

Count = Annotated[int, Meta(ge=0)]


@dataclass(frozen=True)
class Event:
    """One event."""

    sequence: Count  # from 1
    time_ns: Count
    kind: str
    subject: Annotated[str, Meta(description="A router, a link, the id of a policy, ...")]
    text: Annotated[str, Meta(description="For people")]
    data: Mapping[str, Any]


@dataclass(frozen=True)
class Events:
    """Some events in a row, and the number of the last."""

    events: tuple[Event, ...]
    last: Count


class History:
    """The newest events."""

    def __init__(self, size: int = 4096) -> None:
        self._kept: deque[Event] = deque(maxlen=size)
        self.last = 0

    def add(self, now_ns: int, kind: str, subject: str, text: str, **data: Any) -> None:
        self.last += 1
        self._kept.append(Event(self.last, now_ns, kind, subject, text, data))

    def after(self, sequence: int) -> list[Event]:
        """Return the events after this one; the first is a `gap` if some are not kept, or this one is not of this
        history.
        """
        first = self._kept[0].sequence if self._kept else self.last + 1
        if sequence > self.last:
            text = f"event {sequence} is not of this controller, whose last event is {self.last}; read the state again"
            return [Event(0, 0, "gap", "controller", text, {}), *self._kept]
        if sequence + 1 < first and sequence != 0:
            text = f"events {sequence + 1} to {first - 1} are no longer kept; read the state again"
            return [Event(first - 1, self._kept[0].time_ns, "gap", "controller", text, {}), *self._kept]
        return list(islice(self._kept, max(sequence + 1 - first, 0), None))


def as_stream(events: list[Event]) -> bytes:
    """Return these events in the form of server-sent events."""
    text = []
    for event in events:
        number = f"id: {event.sequence}\n" if event.sequence else ""
        text.append(f"{number}event: {event.kind}\ndata: {json.dumps(CODEC.encode(event))}\n\n")
    return "".join(text).encode()


@dataclass(frozen=True)
class EventsQuery:
    """The query of the event stream."""

    after: Annotated[str, Meta(pattern="^[0-9]{1,15}$", description="Events after this one; default: all kept")] = "0"
    follow: Annotated[Literal["true", "false"], Meta(description="false: the events there are, as JSON")] = "true"


@dataclass
class EventService:
    """The event stream as a service."""

    history: History
    name: str = "events"
    event_kinds: Mapping[str, str] = field(
        default_factory=lambda: {"gap": "Events before this one are no longer kept; read the state again"}
    )
    codec = CODEC

    @property
    def operations(self) -> tuple[Operation, ...]:
        summary = "Events as they occur (server-sent events), or those there are"
        answers = {200: Events, 503: None}
        return (Operation("GET", "/events", summary, self._get, answers, query=EventsQuery),)

    def _get(self, call: Call) -> Answer | Response:
        after = int(call.query.after)
        resumed = call.headers.get("last-event-id", "")
        if resumed.isascii() and resumed.isdigit() and len(resumed) <= 15:
            after = int(resumed)
        if call.query.follow == "true":
            return Response(HTTPStatus.OK, content_type="text/event-stream", events_after=after)
        return Answer(Events(tuple(self.history.after(after)), self.history.last))
