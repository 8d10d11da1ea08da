"""Connections without a whole request so far: each has some seconds for one, and there are few of them.

A connection costs nothing to open and needs no token, so those that stay silent, or send an octet now and then, could
take all places. They have a time limit from the first octet of a header to the last of a body; and where there are too
many, the newest takes the place of the oldest from the address that has most.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

MOST_WAITING = 128
WHOLE_REQUEST_S = 10.0


class Waiting:
    """The connections of a server that have not sent a whole request, the oldest first."""

    def __init__(self, most: int = MOST_WAITING, request_s: float = WHOLE_REQUEST_S) -> None:
        self._most, self._request_s = most, request_s
        self._deadlines: dict[_Connection, asyncio.TimerHandle] = {}

    def __len__(self) -> int:
        return len(self._deadlines)

    def protocol(self) -> type[asyncio.Protocol]:
        """Return the class of this server's connections."""
        return type("Connection", (_Connection,), {"waiting": self})

    def begin(self, connection: _Connection) -> None:
        """Start the time of a connection, unless it runs."""
        if connection in self._deadlines:
            return
        if len(self) >= self._most:
            self._make_room()
        loop = asyncio.get_running_loop()
        self._deadlines[connection] = loop.call_later(self._request_s, self._let_go, connection)

    def end(self, connection: _Connection) -> None:
        """Stop the time of a connection, which has sent a request or is gone."""
        if (deadline := self._deadlines.pop(connection, None)) is not None:
            deadline.cancel()

    def _make_room(self) -> None:
        [(address, _)] = Counter(one.address for one in self._deadlines).most_common(1)
        self._let_go(next(one for one in self._deadlines if one.address == address))

    def _let_go(self, connection: _Connection) -> None:
        self.end(connection)
        connection.transport.abort()


class _Connection(H11Protocol):
    """A connection that is in the list whenever it has not sent a whole request."""

    waiting: Waiting

    @property
    def address(self) -> str:
        return self.client[0] if self.client else ""

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._note()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._note()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._note()

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        self.waiting.end(self)
        super().handle_websocket_upgrade(event)

    def connection_lost(self, exc: Exception | None) -> None:
        self.waiting.end(self)
        super().connection_lost(exc)

    def _note(self) -> None:
        owes = self.conn.their_state in (h11.IDLE, h11.SEND_BODY) and self.transport.get_protocol() is self
        if owes and not self.transport.is_closing():
            self.waiting.begin(self)
        else:
            self.waiting.end(self)
