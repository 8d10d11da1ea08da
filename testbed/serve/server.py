"""The server of the web application, which runs until Ctrl-C, SIGTERM or the terminal's end."""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import uvicorn

from testbed.errors import UsageError, XoffError
from testbed.serve.app import App
from testbed.serve.commands import LONGEST
from testbed.serve.connections import MOST_WAITING, Waiting
from testbed.serve.live_lab import LiveLab
from testbed.serve.viewers import MOST

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
    found = socket.socket(family, socket.SOCK_STREAM)
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind((address, port))
        found.listen(64)
    except OSError as error:
        found.close()
        if error.errno == errno.EADDRINUSE:
            raise ServeError(
                f"port {port} of {address} is in use; --port names another, and --port 0 any free"
            ) from None
        raise ServeError(f"cannot listen on {address}, port {port}: {error.strerror}") from None
    return found


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
