"""The sockets of the controller: sessions of routers' agents, and REST. All decisions are in `testbed.srv6`.

One loop, in one thread, owns the manager; nobody else touches it, so there is no lock. Others, such as the OpenFlow
side, hand in what they have by `post`. It waits with the default selector: epoll under os-ken, and under Ryu the one
that lets its other green threads run. Neither has a largest descriptor.

Nothing that comes in ends the loop. An unexpected exception ends the connection whose octets met it, is logged with
them, and counted. Each turn of the loop accepts a few connections, and does one piece of work for each connection that
is ready, so that none keeps the others waiting: first routers, then clients with the token, then strangers. When there
are too many strangers, the one that has been silent for longest makes room for the next.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import secrets
import selectors
import socket
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from http import HTTPStatus

from controllers.lines import AT_ONCE, Line, TlsLine, bound, close_door, listen
from controllers.services import services
from controllers.settings import Settings
from testbed.errors import UsageError
from testbed.rest.http import BadRequest, HttpConnection, NotAdmitted, Request, Response
from testbed.rest.problems import problem
from testbed.rest.server import RestServer
from testbed.srv6.controller.manager import Manager, ManagerSettings
from testbed.srv6.controller.southbound import Southbound
from testbed.srv6.session.hello import NONCE_OCTETS

LOG = logging.getLogger("xoff")

MOST_STRANGERS = 64
"""Clients of REST that have not shown the token. Those that have it have places of their own."""
MOST_CLIENTS = 64
MOST_FOLLOWERS = 32
"""Of these, those that follow events."""
MOST_UNSENT = 16 << 20
"""Who does not take what it is sent is given up at this many octets."""
STREAM_KEEPALIVE_NS = 15_000_000_000
_ACCEPTED_AT_LEAST, _ACCEPTING_NS = 8, 10_000_000
"""Of one door in one turn of the loop: so many connections, and more if they take no longer than that."""
_UNSENT_BEFORE_NEXT = 1 << 16
"""A client's next request waits until it has taken most of its last response."""
_SHOWN = 300
"""Octets in the log, of what met a defect."""
_PAUSE_S = 0.05
_MOST_FAILED_ROUNDS = 1000


@dataclass(eq=False)
class _Peer:
    line: Line
    heard_ns: int  # when octets came, or at first when it connected
    last: bytes = b""  # what came last
    events: int = selectors.EVENT_READ  # what it waits for


@dataclass(eq=False)
class _Agent(_Peer):
    """A connection with an agent."""

    number: int = 0
    unsent: bytearray = field(default_factory=bytearray)
    is_over: bool = False  # to be closed when all is sent

    def __str__(self) -> str:
        return f"connection {self.number} of an agent"


@dataclass(eq=False)
class _Client(_Peer):
    """A connection of a user of REST."""

    http: HttpConnection = field(default_factory=lambda: HttpConnection(0))
    told: int | None = None  # the last event, if it follows them
    spoken_ns: int = 0
    has_token: bool = False

    def __str__(self) -> str:
        return "a client of REST"


class Service:
    """The controller's I/O."""

    def __init__(self, settings: Settings, manager_settings: ManagerSettings = ManagerSettings()) -> None:
        self.settings = settings
        self.manager = Manager(manager_settings)
        self.south = Southbound(self.manager, settings.name, self._key_of, lambda: secrets.token_bytes(NONCE_OCTETS))
        self.north = RestServer(
            services(self.manager, self.south), settings.token, self.manager.history, names=settings.rest_names
        )
        self.counters: Counter[str] = Counter()
        self.defect: Exception | None = None  # what ended the loop, if it was not `stop`
        self._routers = settings.routers
        self.manager.locators = self._routers.locators if self._routers else None
        self._agents: dict[int, _Agent] = {}  # by number
        self._clients: dict[_Client, None] = {}  # in the order in which they came
        self._posted: deque[Callable[[int], None]] = deque()
        self._later: list[tuple[int, Callable[[int], None]]] = []
        self._stopping = False
        self._failed_rounds = 0
        self._selector = selectors.DefaultSelector()
        self._wake_in, self._wake_out = socket.socketpair()
        self._wake_in.setblocking(False)
        self._wake_out.setblocking(False)
        self._agent_door = listen(settings.agents, "agents", "--agents")
        try:
            self._rest_door = listen(settings.rest, "REST", "--rest")
        except UsageError:
            self._agent_door.close()
            raise
        for door in (self._agent_door, self._rest_door, self._wake_in):
            self._selector.register(door, selectors.EVENT_READ, door)
        self.agents_at = bound(settings.agents, self._agent_door)
        self.rest_at = bound(settings.rest, self._rest_door)

    # For others, from any thread

    def post(self, action: Callable[[int], None]) -> None:
        """Have something done in the loop; it gets the time."""
        self._posted.append(action)
        self.wake()

    def post_at(self, time_ns: int, action: Callable[[int], None]) -> None:
        """Have something done in the loop, not before this time; to be called in the loop."""
        self._later.append((time_ns, action))

    def stop(self) -> None:
        """Let the loop end: sessions in order, then all sockets. May be called by a signal handler."""
        self._stopping = True
        self.wake()

    def reload(self) -> None:
        """Read the list of routers again. May be called by a signal handler."""
        self.post(self._reload)

    def wake(self) -> None:
        with contextlib.suppress(BlockingIOError, OSError):  # full: it is awake already; closed: it is over
            self._wake_out.send(b"x")

    # The loop

    def serve(self) -> None:
        """Until `stop`."""
        try:
            while not self._stopping:
                self._safe_round()
            self.south.close("the controller ends; what is installed stays", time.monotonic_ns())
            self._hand_out()
            deadline_ns = time.monotonic_ns() + 1_000_000_000  # for who is slow to take its last words
            while any(agent.unsent for agent in self._agents.values()) and time.monotonic_ns() < deadline_ns:
                for key, _ in self._selector.select(0.05):
                    if isinstance(key.data, _Agent):
                        self._write_agent(key.data, time.monotonic_ns())
        except Exception as error:
            # What is installed stays, and the next controller learns it from the network: better an end that is seen.
            self.defect = error
            LOG.exception("a defect of the controller ends it")
        finally:
            for peer in [*self._agents.values(), *self._clients]:
                peer.line.close()
            for door in (self._agent_door, self._rest_door):
                close_door(door)
            self._selector.close()
            self._wake_in.close()
            self._wake_out.close()

    def _safe_round(self) -> None:
        try:
            self._round()
            self._failed_rounds = 0
        except Exception:
            # What met it is not known, or it would have been met by `_guarded`. The next round may well succeed.
            self.counters["defects"] += 1
            self._failed_rounds += 1
            if self._failed_rounds > _MOST_FAILED_ROUNDS:
                raise
            LOG.exception("a defect of the controller, in a turn of its loop")
            time.sleep(_PAUSE_S)

    def _round(self) -> None:
        """Wait until there is something to do, and do some of it for each that has some."""
        ready, doors = self._wait()
        for _, peer, events in sorted(ready, key=lambda entry: entry[0]):
            self._guarded(peer, events)
        now_ns = time.monotonic_ns()
        for door in doors:
            # What a newcomer sends is mostly here by now: it is read at once, so that most need no place at all.
            until_ns, accepted = now_ns + _ACCEPTING_NS, 0
            while accepted < _ACCEPTED_AT_LEAST or time.monotonic_ns() < until_ns:
                newcomer = self._accept(door, time.monotonic_ns())
                if newcomer is None:
                    break
                self._guarded(newcomer, selectors.EVENT_READ)
                accepted += 1
        now_ns = time.monotonic_ns()
        self._posted.extend(action for time_ns, action in self._later if time_ns <= now_ns)
        self._later = [entry for entry in self._later if entry[0] > now_ns]
        for _ in range(len(self._posted)):
            self._posted.popleft()(now_ns)
        self.south.advance(now_ns)
        self._hand_out()
        self._stream(now_ns)
        for client in list(self._clients):
            if client.http.deadline_ns is not None and now_ns >= client.http.deadline_ns:
                self._drop_client(client)

    def _wait(self) -> tuple[list[tuple[int, _Peer, int]], list[socket.socket]]:
        """Peers with something to do, by rank, and doors that somebody knocks at."""
        more: list[_Peer] = [agent for agent in self._agents.values() if self.south.has_more(agent.number)]
        more += [client for client in self._clients if self._may_go_on(client)]
        timeout_s: float | None = 0.0
        if not more and not self._posted:
            deadline_ns = self._deadline_ns()
            timeout_s = None if deadline_ns is None else max(deadline_ns - time.monotonic_ns(), 0) / 1e9
        found, doors = dict.fromkeys(more, 0), list[socket.socket]()
        for key, events in self._selector.select(timeout_s):
            if isinstance(key.data, _Peer):
                found[key.data] = events
            elif key.data is self._wake_in:
                with contextlib.suppress(BlockingIOError):
                    self._wake_in.recv(4096)
            else:
                doors.append(key.data)
        return [(self._rank(peer), peer, events) for peer, events in found.items()], doors

    def _rank(self, peer: _Peer) -> int:
        if isinstance(peer, _Agent):
            return 0 if self.south.is_router(peer.number) else 2
        return 1 if isinstance(peer, _Client) and peer.has_token else 2

    def _deadline_ns(self) -> int | None:
        deadlines = [self.south.deadline_ns, *(time_ns for time_ns, _ in self._later)]
        for client in self._clients:
            deadlines.append(client.http.deadline_ns)
            if client.told is not None:
                deadlines.append(client.spoken_ns + STREAM_KEEPALIVE_NS)
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    def _guarded(self, peer: _Peer, events: int) -> None:
        """Do what a peer is ready for. Whatever goes wrong concerns it alone."""
        now_ns = time.monotonic_ns()
        try:
            if isinstance(peer, _Agent) and peer.number in self._agents:
                if events & selectors.EVENT_WRITE:
                    self._write_agent(peer, now_ns)
                if not events or events & selectors.EVENT_READ:
                    self._read_agent(peer, now_ns, bool(events))
            elif isinstance(peer, _Client) and peer in self._clients:
                if events & selectors.EVENT_WRITE:
                    self._write_client(peer)
                if not events or events & selectors.EVENT_READ:
                    self._read_client(peer, now_ns, bool(events))
        except Exception:
            self.counters["defects"] += 1
            LOG.exception("a defect of the controller ends %s, which sent %a", peer, peer.last[:_SHOWN])
            if isinstance(peer, _Agent):
                self.south.fail(peer.number, now_ns)
                self._hand_out()
            elif isinstance(peer, _Client):
                self._drop_client(peer)

    def _accept(self, door: socket.socket, now_ns: int) -> _Peer | None:
        """Take a connection, if there is one and a place for it."""
        try:
            connection, _ = door.accept()
        except (BlockingIOError, InterruptedError):
            return None
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.ECONNABORTED):
                raise
            LOG.warning("a connection was not taken: %s", error.strerror)
            self.counters["connections_not_taken"] += 1
            self._make_room()
            time.sleep(0.01)  # it is still waiting; do not ask for it all the time
            return None
        return self._new_client(connection, now_ns) if door is self._rest_door else self._new_agent(connection, now_ns)

    def _watch(self, peer: _Peer, has_unsent: bool) -> None:
        """Wait for what the peer needs now."""
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if has_unsent else 0)
        if events != peer.events:
            peer.events = events
            self._selector.modify(peer.line.socket, events, peer)

    def _receive(self, peer: _Peer, now_ns: int) -> bytes | None:
        data = peer.line.receive()
        if data:
            peer.heard_ns, peer.last = now_ns, data[:_SHOWN]
        return data

    def _close(self, peer: _Peer) -> None:
        self._selector.unregister(peer.line.socket)
        peer.line.close()

    # Agents

    def _key_of(self, name: str) -> bytes | None:
        return self.settings.key_of(name) if self._routers is None or name in self._routers.locators else None

    def _reload(self, now_ns: int) -> None:
        """Take over the list of routers as it is now; those that are no longer on it, or have a new key, go."""
        try:
            routers = self.settings.reread()
        except UsageError as error:
            LOG.error("the list of routers stays as it was: %s", error)
            return
        before, self._routers = self._routers, routers
        self.settings = self.settings.with_routers(routers)
        self.manager.locators = routers.locators if routers else None
        self.manager.look_again()
        for name in before.changed(routers) if before and routers else ():
            self.south.remove(name, f"{name} is no longer in the list of routers, or has another key there", now_ns)
        LOG.info("the list of routers has %d", len(routers.locators) if routers else 0)

    def _new_agent(self, connection: socket.socket, now_ns: int) -> _Peer | None:
        number = self.south.connect(now_ns)
        if number is None:
            connection.close()
            return None
        agent = self._agents[number] = _Agent(Line(connection), now_ns, number=number)
        self._selector.register(connection, selectors.EVENT_READ, agent)
        return agent

    def _read_agent(self, agent: _Agent, now_ns: int, has_octets: bool) -> None:
        data = self._receive(agent, now_ns) if has_octets else b""
        if data is None or agent.is_over:
            return
        if not data and has_octets:
            self._drop_agent(agent, now_ns)
            return
        self.south.receive(agent.number, data, now_ns)
        self.south.step(now_ns)  # here, so that what follows from it is this agent's too

    def _write_agent(self, agent: _Agent, now_ns: int) -> None:
        sent = agent.line.send(bytes(agent.unsent[:AT_ONCE]))
        if sent is None or len(agent.unsent) > MOST_UNSENT:
            self._drop_agent(agent, now_ns)
            return
        del agent.unsent[:sent]
        if agent.is_over and not agent.unsent:
            self._drop_agent(agent, now_ns)
        else:
            self._watch(agent, bool(agent.unsent))

    def _hand_out(self) -> None:
        """What sessions want to send, to their sockets."""
        for number, octets, is_over in self.south.output():
            if (agent := self._agents.get(number)) is not None:
                agent.unsent += octets
                agent.is_over = is_over
                self._write_agent(agent, time.monotonic_ns())

    def _drop_agent(self, agent: _Agent, now_ns: int) -> None:
        if self._agents.pop(agent.number, None) is not None:
            self._close(agent)
            self.south.disconnected(agent.number, now_ns)

    # REST

    def _new_client(self, connection: socket.socket, now_ns: int) -> _Peer:
        strangers = [client for client in self._clients if not client.has_token]
        if len(strangers) >= MOST_STRANGERS:
            self.north.counters["strangers_dropped"] += 1
            self._drop_client(min(strangers, key=lambda client: client.heard_ns))
        tls = self.settings.tls
        line = Line(connection) if tls is None else TlsLine(connection, tls)
        client = _Client(line, now_ns, spoken_ns=now_ns)
        client.http = HttpConnection(now_ns, lambda request: self._admit(client, request))
        self._clients[client] = None
        self._selector.register(connection, selectors.EVENT_READ, client)
        return client

    def _make_room(self) -> None:
        strangers = [client for client in self._clients if not client.has_token]
        if strangers:
            self._drop_client(min(strangers, key=lambda client: client.heard_ns))

    def _admit(self, client: _Client, request: Request) -> Response | int:
        """The refusal of a request whose head has been received, or the longest body that it may have."""
        admitted = self.north.admit(request)
        if isinstance(admitted, Response):
            return admitted
        if not client.has_token and self.north.has_token(request):
            known = [other for other in self._clients if other.has_token and other.told is None]
            followers = sum(other.told is not None for other in self._clients)
            if len(known) + followers >= MOST_CLIENTS:
                self._drop_client(min(known, key=lambda other: other.heard_ns))
            client.has_token = True
        return admitted

    def _may_go_on(self, client: _Client) -> bool:
        """Whether the client may have another request in what has come, and has taken its last response."""
        return client.told is None and client.http.may_go_on and client.http.unsent < _UNSENT_BEFORE_NEXT

    def _read_client(self, client: _Client, now_ns: int, has_octets: bool) -> None:
        data = self._receive(client, now_ns) if has_octets else b""
        if data is None:
            self._write_client(client)  # a handshake of TLS may have something to send
            return
        if not data and has_octets:
            self._drop_client(client)
            return
        if client.told is not None:
            return  # it follows events, and has nothing to say
        try:
            request = client.http.receive(data)
            if request is not None:
                client.http.respond(self._answer(client, request, now_ns), now_ns)
        except NotAdmitted as error:
            client.http.refuse(error.response, now_ns)
        except BadRequest as error:
            client.http.refuse(problem(error.status, error.text), now_ns)
        self._write_client(client)

    def _answer(self, client: _Client, request: Request, now_ns: int) -> Response:
        try:
            response = self.north.handle(request, now_ns)
            self.south.step(now_ns)
        except Exception:
            self.counters["defects"] += 1
            LOG.exception("a defect of the controller: %s %r %a", request.method, request.path, request.body[:_SHOWN])
            text = "the request has met a defect of the controller, which its log describes"
            return problem(HTTPStatus.INTERNAL_SERVER_ERROR, text)
        if response.events_after is not None:
            if sum(other.told is not None for other in self._clients) >= MOST_FOLLOWERS:
                text = f"{MOST_FOLLOWERS} clients follow events, as many as may; try again, or use ?follow=false"
                return problem(HTTPStatus.SERVICE_UNAVAILABLE, text, headers={"Retry-After": "10"})
            client.told = response.events_after
        return response

    def _write_client(self, client: _Client) -> None:
        while data := client.http.data_to_send(AT_ONCE):
            sent = client.line.send(data)
            if sent is None or client.http.unsent + client.line.unsent > MOST_UNSENT:
                self._drop_client(client)
                return
            if sent < len(data):
                client.http.put_back(data[sent:])
                break
        else:
            if client.line.unsent and client.line.send(b"") is None:
                self._drop_client(client)
                return
        unsent = bool(client.http.unsent or client.line.unsent)
        if client.http.is_over and not unsent:
            self._drop_client(client)
        elif client in self._clients:
            self._watch(client, unsent)

    def _stream(self, now_ns: int) -> None:
        """New events, to those who follow them."""
        texts: dict[int, tuple[bytes, int]] = {}  # most have been told the same
        for client in list(self._clients):
            if client.told is None:
                continue
            octets = b""
            if client.told != self.manager.history.last:
                if client.told not in texts:
                    texts[client.told] = self.north.events(client.told)
                octets, client.told = texts[client.told]
            if not octets and now_ns >= client.spoken_ns + STREAM_KEEPALIVE_NS:
                octets = b": nothing new\n\n"
            if octets:
                client.spoken_ns = now_ns
                client.http.stream(octets)
                self._write_client(client)

    def _drop_client(self, client: _Client) -> None:
        if client in self._clients:
            del self._clients[client]
            self._close(client)
