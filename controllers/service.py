"""The sockets of the controller: sessions of routers' agents, and REST. All decisions are in `testbed.srv6`.

One loop, in one thread, owns the manager; nobody else touches it, so there is no lock. Others, such as the OpenFlow
side, hand in what they have by `post`. It waits with `select`, called by that name, since Ryu replaces it with one
that lets its other green threads run; under os-ken it is the system's. Neither needs to know of the other.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import secrets
import select
import socket
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from http import HTTPStatus

from controllers.settings import Address, Settings
from testbed.errors import UsageError
from testbed.srv6.http import BadRequest, HttpConnection
from testbed.srv6.manager import Manager, ManagerSettings
from testbed.srv6.northbound import Northbound, problem
from testbed.srv6.session import NONCE_OCTETS
from testbed.srv6.southbound import Southbound

LOG = logging.getLogger("xoff")

MOST_CLIENTS = 64
MOST_UNSENT = 16 << 20
"""Who does not take what it is sent is given up at this many octets."""
STREAM_KEEPALIVE_NS = 15_000_000_000
_AT_ONCE = 1 << 16


@dataclass(eq=False)
class _Agent:
    """A connection with an agent."""

    socket: socket.socket
    number: int
    unsent: bytearray = field(default_factory=bytearray)
    is_over: bool = False  # to be closed when all is sent


@dataclass(eq=False)
class _Client:
    """A connection of a user of REST."""

    socket: socket.socket
    http: HttpConnection
    told: int | None = None  # the last event, if it follows them
    spoken_ns: int = 0


class Service:
    """The controller's I/O."""

    def __init__(self, settings: Settings, manager_settings: ManagerSettings = ManagerSettings()) -> None:
        self.manager = Manager(manager_settings)
        self.south = Southbound(self.manager, settings.name, settings.key, lambda: secrets.token_bytes(NONCE_OCTETS))
        self.north = Northbound(self.manager, settings.token)
        self._agents: dict[socket.socket, _Agent] = {}
        self._clients: dict[socket.socket, _Client] = {}
        self._posted: deque[Callable[[int], None]] = deque()
        self._stopping = False
        self.defect: Exception | None = None  # what ended the loop, if it was not `stop`
        self._wake_in, self._wake_out = socket.socketpair()
        self._wake_in.setblocking(False)
        self._wake_out.setblocking(False)
        self._agent_door = _listen(settings.agents, "agents", "--agents")
        try:
            self._rest_door = _listen(settings.rest, "REST", "--rest")
        except UsageError:
            self._agent_door.close()
            raise
        self.agents_at = _bound(settings.agents, self._agent_door)
        self.rest_at = _bound(settings.rest, self._rest_door)

    # For others, from any thread

    def post(self, action: Callable[[int], None]) -> None:
        """Have something done in the loop; it gets the time."""
        self._posted.append(action)
        self.wake()

    def stop(self) -> None:
        """Let the loop end: sessions in order, then all sockets. May be called by a signal handler."""
        self._stopping = True
        self.wake()

    def wake(self) -> None:
        with contextlib.suppress(BlockingIOError, OSError):  # full: it is awake already; closed: it is over
            self._wake_out.send(b"x")

    # The loop

    def serve(self) -> None:
        """Until `stop`."""
        try:
            while not self._stopping:
                self._round()
            self.south.close("the controller ends; what is installed stays", time.monotonic_ns())
            self._hand_out()
            deadline_ns = time.monotonic_ns() + 1_000_000_000  # for who is slow to take its last words
            while any(agent.unsent for agent in self._agents.values()) and time.monotonic_ns() < deadline_ns:
                self._wait(deadline_ns, reading=False)
        except Exception as error:
            # What is installed stays, and the next controller learns it from the network: better an end that is seen.
            self.defect = error
            LOG.exception("a defect of the controller ends it")
        finally:
            for other in [*self._agents, *self._clients]:
                other.close()
            for door in (self._agent_door, self._rest_door):
                if door.family == socket.AF_UNIX:
                    with contextlib.suppress(OSError):
                        os.unlink(door.getsockname())  # noqa: PTH108
                door.close()
            self._wake_in.close()
            self._wake_out.close()

    def _round(self) -> None:
        deadlines = [self.south.deadline_ns, *(client.http.deadline_ns for client in self._clients.values())]
        deadlines += [
            client.spoken_ns + STREAM_KEEPALIVE_NS for client in self._clients.values() if client.told is not None
        ]
        self._wait(min((deadline for deadline in deadlines if deadline is not None), default=None))
        now_ns = time.monotonic_ns()
        while self._posted:
            self._posted.popleft()(now_ns)
        self.south.advance(now_ns)
        self._hand_out()
        self._stream(now_ns)
        for client in list(self._clients.values()):
            if client.http.deadline_ns is not None and now_ns >= client.http.deadline_ns:
                self._drop_client(client)

    def _wait(self, deadline_ns: int | None, reading: bool = True) -> None:
        """Sleep until something can be read or written, and do that."""
        timeout_s = None if deadline_ns is None else max(deadline_ns - time.monotonic_ns(), 0) / 1e9
        readers = [self._agent_door, self._rest_door, self._wake_in, *self._agents, *self._clients] if reading else []
        writers = [agent.socket for agent in self._agents.values() if agent.unsent]
        writers += [client.socket for client in self._clients.values() if client.http.unsent]
        readable, writable, _ = select.select(readers, writers, [], timeout_s)
        now_ns = time.monotonic_ns()
        for ready in readable:
            if ready is self._wake_in:
                with contextlib.suppress(BlockingIOError):
                    ready.recv(4096)
            elif ready is self._agent_door or ready is self._rest_door:
                self._accept(ready, now_ns)
            elif ready in self._agents:
                self._read_agent(self._agents[ready], now_ns)
            elif ready in self._clients:
                self._read_client(self._clients[ready], now_ns)
        for ready in writable:
            if ready in self._agents:
                self._write_agent(self._agents[ready], now_ns)
            elif ready in self._clients:
                self._write_client(self._clients[ready])

    def _accept(self, door: socket.socket, now_ns: int) -> None:
        try:
            other, _ = door.accept()
        except BlockingIOError:
            return
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.ECONNABORTED):
                raise
            LOG.warning("a connection was not taken: %s", error.strerror)
            time.sleep(0.01)  # it is still waiting; do not ask for it all the time
            return
        other.setblocking(False)
        if door is self._rest_door:
            if len(self._clients) >= MOST_CLIENTS:
                self.north.counters["connections_refused"] += 1
                other.close()
                return
            self._clients[other] = _Client(other, HttpConnection(now_ns), spoken_ns=now_ns)
            return
        number = self.south.connect(now_ns)
        if number is None:
            other.close()
            return
        if other.family != socket.AF_UNIX:
            other.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._agents[other] = _Agent(other, number)

    # Agents

    def _read_agent(self, agent: _Agent, now_ns: int) -> None:
        data = _receive(agent.socket)
        if data is None:
            return
        if not data:
            self._drop_agent(agent, now_ns)
            return
        self.south.receive(agent.number, data, now_ns)

    def _write_agent(self, agent: _Agent, now_ns: int) -> None:
        sent = _send(agent.socket, agent.unsent)
        if sent is None or len(agent.unsent) > MOST_UNSENT:
            self._drop_agent(agent, now_ns)
            return
        del agent.unsent[:sent]
        if agent.is_over and not agent.unsent:
            self._drop_agent(agent, now_ns)

    def _hand_out(self) -> None:
        """What sessions want to send, to their sockets."""
        by_number = {agent.number: agent for agent in self._agents.values()}
        for number, octets, is_over in self.south.output():
            if (agent := by_number.get(number)) is not None:
                agent.unsent += octets
                agent.is_over = is_over
                self._write_agent(agent, time.monotonic_ns())

    def _drop_agent(self, agent: _Agent, now_ns: int) -> None:
        if self._agents.pop(agent.socket, None) is not None:
            agent.socket.close()
            self.south.disconnected(agent.number, now_ns)

    # REST

    def _read_client(self, client: _Client, now_ns: int) -> None:
        data = _receive(client.socket)
        if data is None:
            return
        if not data:
            self._drop_client(client)
            return
        if client.told is not None:
            return  # it follows events, and has nothing to say
        try:
            request = client.http.receive(data)
            while request is not None:
                try:
                    response = self.north.handle(request, now_ns)
                except Exception:
                    LOG.exception("a defect of the controller: %s %r", request.method, request.path)
                    text = "the request has met a defect of the controller, which its log describes"
                    response = problem(HTTPStatus.INTERNAL_SERVER_ERROR, text)
                self.south.advance(now_ns)
                client.http.respond(response, now_ns)
                if response.events_after is not None:
                    client.told = response.events_after
                    break
                request = client.http.receive(b"")
        except BadRequest as error:
            client.http.refuse(problem(error.status, error.text), now_ns)
        self._write_client(client)

    def _write_client(self, client: _Client) -> None:
        while data := client.http.data_to_send(_AT_ONCE):
            sent = _send(client.socket, data)
            if sent is None or client.http.unsent > MOST_UNSENT:
                self._drop_client(client)
                return
            if sent < len(data):
                client.http.put_back(data[sent:])
                return
        if client.http.is_over:
            self._drop_client(client)

    def _stream(self, now_ns: int) -> None:
        """New events, to those who follow them."""
        for client in list(self._clients.values()):
            if client.told is None:
                continue
            octets, client.told = self.north.events(client.told)
            if not octets and now_ns >= client.spoken_ns + STREAM_KEEPALIVE_NS:
                octets = b": nothing new\n\n"
            if octets:
                client.spoken_ns = now_ns
                client.http.stream(octets)
                self._write_client(client)

    def _drop_client(self, client: _Client) -> None:
        if self._clients.pop(client.socket, None) is not None:
            client.socket.close()


def _listen(address: Address, what: str, option: str) -> socket.socket:
    family = socket.AF_UNIX if address.path else socket.AF_INET6 if ":" in address.host else socket.AF_INET
    door = socket.socket(family, socket.SOCK_STREAM)
    try:
        if address.path:
            address.clear()
            old = os.umask(0o177)  # a socket for our user only
            try:
                door.bind(address.path)
            finally:
                os.umask(old)
        else:
            door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            door.bind((address.host, address.port))
        door.listen(128)
    except OSError as error:
        door.close()
        why = error.strerror or str(error)
        raise UsageError(f"cannot listen at {address} for {what}: {why}; choose another with {option}") from None
    door.setblocking(False)
    return door


def _bound(address: Address, door: socket.socket) -> Address:
    """The address with the port that was free."""
    return address if address.path else replace(address, port=door.getsockname()[1])


def _receive(other: socket.socket) -> bytes | None:
    """Octets; none if the connection is over; None if there is nothing now."""
    try:
        return other.recv(_AT_ONCE)
    except (BlockingIOError, InterruptedError):
        return None
    except OSError:
        return b""


def _send(other: socket.socket, data: bytes | bytearray) -> int | None:
    """How many octets were taken; None if the connection is over."""
    if not data:
        return 0
    try:
        return other.send(bytes(data[:_AT_ONCE]))
    except (BlockingIOError, InterruptedError):
        return 0
    except OSError:
        return None
