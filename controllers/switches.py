"""The door for OpenFlow switches: the library's server, with limits that the library lacks.

Both libraries accept every connection and give it threads, or green threads, of its own. Here connections have a limit,
those that have not sent their datapath id a lower one, and one over a limit is closed at once.

The libraries' parsers log a traceback for each message that they cannot parse, and go on. Here it is counted, one line
a second names a peer and the reason, and a stranger's connection ends; a switch may send what a library lacks, so its
message is left out. Whatever else a connection's octets make the library raise ends the connection.

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
_SHOWN = 200
_LOG_NS = 1_000_000_000
"""The time between two lines about messages of peers; lines between them are counted."""

Serve = Callable[[Any, Any], None]
Parse = Callable[..., Any]


class SwitchDoor:
    """Admits connections of switches within limits, and counts how they ended."""

    def __init__(self, most: int = MOST_SWITCHES, most_strangers: int = MOST_STRANGERS) -> None:
        self.counters: Counter[str] = Counter()
        self._most, self._most_strangers = most, most_strangers
        self._lock = threading.Lock()
        self._strangers: set[int] = set()  # by the identity of their socket
        self._switches: set[int] = set()
        self._refusals, self._defects = _Limit(), _Limit()

    def guarded(self, serve: Serve) -> Serve:
        """Call `serve` for one connection if there is room for it. An exception of it ends here."""

        def handle(connection: Any, address: Any) -> None:
            line = Connection(connection)
            if not self._enter(line):
                line.close()
                return
            try:
                serve(line, address or "a leaf")
            except Exception as error:
                self.counters["failed"] += 1
                self.log(address or "a leaf", f"cannot be read, its connection ends: {_reason(error)}")
            finally:
                self._leave(line)
                line.close()

        return handle

    def identified(self, connection: Any) -> None:
        """Count a connection as a switch's: it has sent its datapath id."""
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

    def reading(self, parse: Parse) -> Parse:
        """Return `parse` with one difference: it returns None for a message that it cannot parse."""

        def read(datapath: Any, version: int, kind: int, *rest: Any) -> Any:
            try:
                return parse(datapath, version, kind, *rest)
            except Exception as error:
                self.refuse(datapath, f"a message of type {kind} is malformed: {_reason(error)}")
                return None

        return read

    def refuse(self, datapath: Any, why: str) -> None:
        """Count a message that cannot be parsed, and end the connection if it is a stranger's."""
        self.counters["malformed"] += 1
        with self._lock:
            is_switch = id(datapath.socket) in self._switches
        self.log(datapath.address, f"{why}; {'it is left out' if is_switch else 'the connection ends'}")
        if not is_switch:
            datapath.close()

    def defect(self, datapath: Any, octets: bytes) -> None:
        """Log the exception that a switch's message has raised in the controller, and end the connection."""
        self.counters["defects"] += 1
        if (others := self._defects.others()) is not None:
            what = f"a defect of the controller ends the connection of switch {datapath.id}"
            LOG.exception("%s: %s; %d others before", what, octets[:_SHOWN].hex(), others)
        datapath.close()

    def log(self, address: object, why: str) -> None:
        """Log a line about a peer, at most one a second."""
        if (others := self._refusals.others()) is not None:
            LOG.warning("OpenFlow from %s: %s; %d others before", _peer(address), why, others)


class _Limit:
    """A limit of a log to one line in a while; the lines between are counted."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._logged_ns = -_LOG_NS
        self._left_out = 0

    def others(self) -> int | None:
        """Return the number of lines left out before one that may be logged now, or None if this one is left
        out too.
        """
        with self._lock:
            now_ns = time.monotonic_ns()
            if now_ns < self._logged_ns + _LOG_NS:
                self._left_out += 1
                return None
            self._logged_ns, others, self._left_out = now_ns, self._left_out, 0
            return others


def _peer(address: object) -> str:
    """Return an address as text, as in 127.0.0.1:4711; a Unix socket has none."""
    if not isinstance(address, tuple):
        return str(address)
    host, port = address[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error)[:_SHOWN]!a}"


class Connection:
    """A socket that ignores options of TCP if it is a Unix socket; both libraries set one on those too, and
    would fail.
    """

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def setsockopt(self, level: int, option: int, value: Any) -> None:
        if level != socket.IPPROTO_TCP or self._connection.family != socket.AF_UNIX:
            self._connection.setsockopt(level, option, value)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


def install(door: SwitchDoor, controller: Any, parser: Any) -> None:
    """Make the library's modules `controller` and `ofproto_parser` use this door. Call it once, before they listen."""

    class Server(controller.StreamServer):  # type: ignore[misc]
        """A server that goes on accepting after there was no descriptor, or no thread, for a connection."""

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
    for version, parse in parser._MSG_PARSERS.items():
        parser._MSG_PARSERS[version] = door.reading(parse)
