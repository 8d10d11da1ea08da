"""The door for OpenFlow switches: the library's server, with limits that it has not.

Both libraries accept every connection and give it threads, or green threads, of its own. Here connections have a limit,
those that have not sent their datapath id a lower one, and one over a limit is closed at once. Whatever a
connection's octets make the library's parser raise ends that connection, with one line in the log, and is counted.

The libraries' threads of a connection that has ended may live for two more seconds; they count until then.
"""

from __future__ import annotations

import errno
import logging
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

LOG = logging.getLogger("xoff")

MOST_SWITCHES = 256
MOST_STRANGERS = 96
_AGAIN_S = 0.1
_LOG_NS = 1_000_000_000
"""Between two lines about connections that failed; those between are counted."""

Serve = Callable[[Any, Any], None]


class SwitchDoor:
    """Counts connections of switches, and what became of them."""

    def __init__(self, most: int = MOST_SWITCHES, most_strangers: int = MOST_STRANGERS) -> None:
        self.counters: Counter[str] = Counter()
        self._most, self._most_strangers = most, most_strangers
        self._lock = threading.Lock()
        self._strangers: set[int] = set()  # by the identity of their socket
        self._switches: set[int] = set()
        self._logged_ns = -_LOG_NS
        self._unlogged = 0

    def guarded(self, serve: Serve) -> Serve:
        """`serve` for one connection, if there is room for it; whatever it raises ends there."""

        def handle(connection: Any, address: Any) -> None:
            line = Connection(connection)
            if not self._enter(line):
                line.close()
                return
            try:
                serve(line, address or "a leaf")
            except Exception as error:
                self._fail(address, error)
            finally:
                self._leave(line)
                line.close()

        return handle

    def identified(self, connection: Any) -> None:
        """It has sent its datapath id."""
        with self._lock:
            if id(connection) in self._strangers:
                self._strangers.discard(id(connection))
                self._switches.add(id(connection))

    def _enter(self, connection: object) -> bool:
        with self._lock:
            full = len(self._strangers) + len(self._switches) >= self._most + self._most_strangers
            if full or len(self._strangers) >= self._most_strangers:
                self.counters["refused"] += 1
                return False
            self._strangers.add(id(connection))
            self.counters["connections"] += 1
            return True

    def _leave(self, connection: object) -> None:
        with self._lock:
            self._strangers.discard(id(connection))
            self._switches.discard(id(connection))

    def _fail(self, address: object, error: Exception) -> None:
        with self._lock:
            self.counters["failed"] += 1
            now_ns = time.monotonic_ns()
            if now_ns < self._logged_ns + _LOG_NS:
                self._unlogged += 1
                return
            self._logged_ns, others, self._unlogged = now_ns, self._unlogged, 0
        why = f"{type(error).__name__}: {str(error)[:200]!a}"
        LOG.warning("OpenFlow from %s cannot be read, its connection ends: %s; %d others before", address, why, others)


class Connection:
    """A socket, without TCP's options where it has none: both libraries set one on Unix sockets too, and fail."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def setsockopt(self, level: int, option: int, value: Any) -> None:
        if level != socket.IPPROTO_TCP or self._connection.family != socket.AF_UNIX:
            self._connection.setsockopt(level, option, value)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


def install(door: SwitchDoor, controller: Any) -> None:
    """Have the library's module `controller` let switches in by this door; once, before it listens."""

    class Server(controller.StreamServer):  # type: ignore[misc]
        """Goes on accepting when there was no descriptor, or no thread, for a connection."""

        def serve_forever(self) -> None:
            while True:
                try:
                    super().serve_forever()
                except (OSError, RuntimeError) as error:  # "can't start new thread" is the latter
                    if getattr(error, "errno", None) == errno.EBADF:
                        return
                    door.counters["not_accepted"] += 1
                    time.sleep(_AGAIN_S)
                else:
                    return

    controller.StreamServer = Server
    controller.datapath_connection_factory = door.guarded(controller.datapath_connection_factory)
