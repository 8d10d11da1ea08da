"""The controller's end of all sessions with routers: connections and octets on one side, the manager on the other.

Sans-I/O. The caller passes the received octets of each connection, and gets those to send. A router is identified
by its session, and reports about itself only. If it connects again, the new session replaces the old one. Routers that
are PFC-capable get the SIDs of all routers, and then the changes: they learn reverse tunnels from data packets too
(decision 0145).

Connections that have not authenticated are limited in number: beyond it the oldest ends, so a router can always
connect. In one call a limited number of frames of a connection is processed, so that the others have their turn.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from ipaddress import IPv6Address
from typing import Any

from testbed.subjects.srv6.controller.manager import Manager
from testbed.subjects.srv6.controller.topology import Topology
from testbed.subjects.srv6.protocol.sid import CodePoints, Sid
from testbed.subjects.srv6.session.messages import Directory, Report, Role, as_json, from_agent
from testbed.subjects.srv6.session.session import (
    End,
    Ended,
    Event,
    Opened,
    Received,
    Session,
    SessionError,
    SessionSettings,
)
from testbed.typed_json.text import InvalidError

MOST_STRANGERS = 64
MOST_ROUTERS = 800
MOST_FRAMES = 32
"""The most frames of one connection in one call of `receive`."""
_STRANGER_NS = 1_000_000_000
"""The time between two events about strangers; events between them are counted."""


class Southbound:
    """The sessions with all routers."""

    def __init__(
        self,
        manager: Manager,
        name: str,
        key: Callable[[str], bytes | None],
        nonces: Callable[[], bytes],
        *,
        settings: SessionSettings = SessionSettings(),
        code_points: CodePoints = CodePoints(),
    ) -> None:
        """`key` returns the key of a router, or None if the router is not configured."""
        self.manager = manager
        self.code_points = code_points
        self.counters: Counter[str] = Counter()
        self._name, self._key, self._nonces, self._settings = name, key, nonces, settings
        self._sessions: dict[int, Session] = {}  # by connection
        self._connection: dict[str, int] = {}  # of a router
        self._directory_sent: dict[
            str, tuple[Topology, dict[IPv6Address, Sid]]
        ] = {}  # of the directory, in this session
        self._last = 0
        self._stranger_ns, self._unrecorded = -_STRANGER_NS, 0
        self._parting: dict[int, bytes] = {}  # connections whose session is over, and their last octets

    def connect(self, now_ns: int) -> int | None:
        """Take in a new connection. Return its number, or None if there are too many routers already."""
        strangers = [number for number, session in self._sessions.items() if not session.is_open]
        if len(self._sessions) - len(strangers) >= MOST_ROUTERS:
            self.counters["connections_refused"] += 1
            return None
        if len(strangers) >= MOST_STRANGERS:
            self._close(strangers[0], "others have connected, and this peer has not authenticated", now_ns, End.CROWDED)
        self._last += 1
        self.counters["connections"] += 1
        self._sessions[self._last] = Session(
            Role.CONTROLLER, self._name, self._key, self._nonces(), now_ns, settings=self._settings
        )
        return self._last

    def receive(self, connection: int, data: bytes, now_ns: int) -> None:
        if (session := self._sessions.get(connection)) is not None:
            self._handle(connection, session, session.receive(data, now_ns, MOST_FRAMES), now_ns)

    def has_more(self, connection: int) -> bool:
        """Return True if `receive` has work for this connection, though no octets have come."""
        return connection in self._sessions and self._sessions[connection].has_more

    def disconnected(self, connection: int, now_ns: int) -> None:
        if (session := self._sessions.get(connection)) is not None:
            self._handle(connection, session, session.disconnected(now_ns), now_ns)
        self._parting.pop(connection, None)

    def fail(self, connection: int, now_ns: int) -> None:
        """End a connection whose octets met a defect of the controller, and drop the reports of its router."""
        session = self._sessions.get(connection)
        name = session.peer if session is not None and session.is_open else None
        self._close(connection, "a defect of the controller, which its log describes", now_ns, End.DEFECT)
        if name is not None:
            self.manager.remove_router(name, now_ns)

    def is_router(self, connection: int) -> bool:
        return connection in self._sessions and self._sessions[connection].is_open

    def remove(self, name: str, why: str, now_ns: int) -> None:
        """End the session of a router, if it has one, and remove its reports."""
        if (connection := self._connection.get(name)) is not None:
            self._close(connection, why, now_ns, End.REMOVED)
        self.manager.remove_router(name, now_ns)

    def advance(self, now_ns: int) -> None:
        """Let time pass and the manager decide. The caller calls it after inputs, and at the deadline."""
        for connection, session in list(self._sessions.items()):
            self._handle(connection, session, session.poll(now_ns), now_ns)
        self.step(now_ns)

    def step(self, now_ns: int) -> None:
        """Let the manager decide, and send its commands."""
        for command in self.manager.step(now_ns):
            self._send(command.item.node, as_json(command), now_ns)
        if self.manager.is_settled:
            self._send_directory(now_ns)

    @property
    def deadline_ns(self) -> int | None:
        """The time at which `advance` has work next, if nothing is received until then."""
        deadlines = [session.deadline_ns for session in self._sessions.values()]
        deadlines.append(self.manager.deadline_ns)
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    def output(self) -> list[tuple[int, bytes, bool]]:
        """Return the output since the last call: connection, octets, and True if the connection is to be closed after
        them.
        """
        going = [(connection, session.data_to_send(), False) for connection, session in self._sessions.items()]
        going = [entry for entry in going if entry[1]]
        going += [(connection, octets, True) for connection, octets in self._parting.items()]
        self._parting.clear()
        return going

    def close(self, text: str, now_ns: int) -> None:
        """End all sessions in order."""
        for connection in list(self._sessions):
            self._close(connection, text, now_ns, End.CLOSED)

    def _close(self, connection: int, text: str, now_ns: int, reason: End) -> None:
        if (session := self._sessions.get(connection)) is not None:
            self._handle(connection, session, session.close(text, now_ns, reason), now_ns)

    @property
    def routers(self) -> list[str]:
        """The routers with an open session."""
        return sorted(self._connection)

    def _send_directory(self, now_ns: int) -> None:
        """Send each router that learns tunnels the SIDs that it does not know yet."""
        topology = self.manager.network.topology
        now: dict[IPv6Address, Sid] = {}
        texts: dict[Directory, dict[str, Any]] = {}  # most routers get the same
        for router in self.routers:
            sent = self._directory_sent.get(router)
            if sent is not None and sent[0] is topology:
                continue  # nothing can have changed
            if router not in self.manager.reports or not topology.is_pfc_capable(router):
                continue
            now = now or {sid.address: sid for sid in topology.sids()}
            before = sent[1] if sent else {}
            self._directory_sent[router] = (topology, now)
            # Most are the same object: reports make SIDs, and a report mostly stays.
            new = tuple(s for address, s in now.items() if (old := before.get(address)) is not s and old != s)
            gone = tuple(address for address in before if address not in now)
            if new or gone or sent is None:
                directory = Directory(new, gone, is_whole=sent is None)
                text = texts.get(directory) or texts.setdefault(directory, as_json(directory, self.code_points))
                self._send(router, text, now_ns)

    def _send(self, router: str, message: dict[str, Any], now_ns: int) -> None:
        connection = self._connection.get(router)
        if connection is None:
            return  # its session ended a moment ago, which the manager has handled
        session = self._sessions[connection]
        try:
            session.send(message, now_ns)
        except SessionError as error:
            self._handle(connection, session, session.close(str(error), now_ns), now_ns)

    def _handle(self, connection: int, session: Session, events: list[Event], now_ns: int) -> None:
        for event in events:
            match event:
                case Opened():
                    if (older := self._connection.get(event.peer)) is not None:
                        before = self._sessions[older]
                        text = f"{event.peer} has connected anew"
                        self._handle(older, before, before.close(text, now_ns, End.REPLACED), now_ns)
                    self._connection[event.peer] = connection
                    self._directory_sent.pop(event.peer, None)
                case Received():
                    self._receive(connection, session, event, now_ns)
                case Ended():
                    self._end(connection, session, event, now_ns)

    def _receive(self, connection: int, session: Session, event: Received, now_ns: int) -> None:
        assert session.peer is not None
        if session.end is not None:
            return  # an earlier message of the same octets was malformed
        try:
            message = from_agent(event.message, self.code_points)
            if isinstance(message, Report) and message.node != session.peer:
                raise InvalidError("node", message.node, f"this is the session of {session.peer}")
        except InvalidError as error:
            text = f"{session.peer} sent an invalid message: {error}"
            self._handle(connection, session, session.close(text, now_ns, End.MALFORMED), now_ns)
            return
        self.manager.receive(session.peer, message, now_ns)

    def _end(self, connection: int, session: Session, event: Ended, now_ns: int) -> None:
        self.counters[f"end {event.reason}"] += 1
        self._sessions.pop(connection, None)
        self._parting[connection] = session.data_to_send()
        if session.peer is not None and self._connection.get(session.peer) == connection:
            del self._connection[session.peer]
            self.manager.leave(session.peer, event.text, now_ns)
        elif event.reason not in (End.DISCONNECTED, End.REPLACED):
            self._record_stranger(session, event, now_ns)

    def _record_stranger(self, session: Session, event: Ended, now_ns: int) -> None:
        """Add an event about a stranger, at most one in a while, so that such events do not displace all others."""
        if now_ns < self._stranger_ns + _STRANGER_NS:
            self._unrecorded += 1
            return
        text = f"{event.text}; {self._unrecorded} others before it" if self._unrecorded else event.text
        self._stranger_ns, self._unrecorded = now_ns, 0
        self.manager.history.add(now_ns, "stranger", session.peer or "unknown", text, reason=event.reason)
