"""The server of the web application, which runs until Ctrl-C, SIGTERM or the terminal's end.

Connections without a whole request so far: each has some seconds for one, and there are few of them.

A connection costs nothing to open and needs no token, so those that stay silent, or send an octet now and then, could
take all places. They have a time limit from the first octet of a header to the last of a body; and where there are too
many, the newest takes the place of the oldest from the address that has most.
"""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import signal
import socket
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from testbed.errors import UsageError, XoffError
from testbed.serve.app import App
from testbed.serve.commands import LONGEST
from testbed.serve.live_lab import MOST, LiveLab

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


_LARGEST_FRAME = LONGEST * 4
_MOST_CONNECTIONS = 2 * (MOST_WAITING + MOST)
"""The most connections: viewers, connections without a request, and those that a viewer's browser opens besides."""


class ServeError(XoffError):
    """Raised if the server cannot listen."""

    exit_code = 3


def listen(address: str, port: int) -> socket.socket:
    """Return a socket that listens; port 0 is any that is free."""
    try:
        family = socket.AF_INET6 if ipaddress.ip_address(address).version == 6 else socket.AF_INET
    except ValueError:
        raise UsageError(f"{address} is not an IP address; 127.0.0.1 is this machine alone") from None
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((address, port))
        listening.listen(64)
    except OSError as error:
        listening.close()
        if error.errno == errno.EADDRINUSE:
            raise ServeError(
                f"port {port} of {address} is in use; --port names another, and --port 0 any free"
            ) from None
        raise ServeError(f"cannot listen on {address}, port {port}: {error.strerror}") from None
    return listening


def run(app: App, listening: socket.socket, live: LiveLab | None, ready: Callable[[], None]) -> int | None:
    """Serve until a signal, whose number is returned, or until the lab has ended: None. `ready` is called when
    requests are answered.
    """
    return asyncio.run(serving(app, listening, live, ready))


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to `run`."""
        yield


async def serving(app: App, listening: socket.socket, live: LiveLab | None, ready: Callable[[], None]) -> int | None:
    """Serve within an event loop that runs."""
    config = uvicorn.Config(
        app, http=Waiting().protocol(), ws="websockets-sansio", lifespan="off", log_config=None, access_log=False,
        server_header=False, ws_max_size=_LARGEST_FRAME, ws_per_message_deflate=False,
        timeout_graceful_shutdown=1, limit_concurrency=_MOST_CONNECTIONS, h11_max_incomplete_event_size=16384,
    )  # fmt: skip
    server, loop = _Server(config), asyncio.get_running_loop()
    caught: list[int] = []

    def end(number: int) -> None:
        caught.append(number)
        server.should_exit = True

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            loop.add_signal_handler(number, end, number)
    serving = asyncio.ensure_future(server.serve([listening]))
    lab = asyncio.ensure_future(live.run()) if live is not None else None
    while not server.started and not serving.done():
        await asyncio.sleep(0.005)
    ready()
    if lab is not None:
        await asyncio.wait([serving, lab], return_when=asyncio.FIRST_COMPLETED)
        if not serving.done() and not caught:
            await asyncio.sleep(0.5)  # until viewers have the last message
            server.should_exit = True
    await serving
    if lab is not None:
        if not lab.done():
            lab.cancel()
        with suppress(asyncio.CancelledError):
            await lab
    return caught[0] if caught else None
