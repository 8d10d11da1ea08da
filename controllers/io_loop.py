"""The I/O loop of the controller: routers' sessions and REST. All decisions are in `testbed.subjects.srv6` and
`testbed.rest`.

One loop, in one thread, owns the manager; no other thread accesses it, so there is no lock. The OpenFlow side hands in
its events by `post`.

Nothing that is received ends the loop. An unexpected exception ends the connection whose octets triggered it, is logged
with them, and counted. Each turn of the loop accepts a few connections, and does one piece of work for each connection
that is ready, so that none delays the others: first routers, then clients with the token, then strangers.
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

from controllers.agent_connections import Agent, AgentConnections
from controllers.connections import SHOWN, Peer, Poller
from controllers.lines import bound, close_door, listen
from controllers.rest_clients import Client, RestClients
from controllers.services import services
from controllers.settings import Settings
from testbed.errors import UsageError
from testbed.rest.server import RestServer
from testbed.subjects.srv6.controller.manager import Manager, ManagerSettings
from testbed.subjects.srv6.controller.southbound import Southbound
from testbed.subjects.srv6.session.messages import NONCE_OCTETS

LOG = logging.getLogger("xoff")

_ACCEPTED_AT_LEAST, _ACCEPTING_NS = 8, 10_000_000
"""The number of connections that a listening socket accepts in one turn, and the time for which it accepts more."""
_PAUSE_S = 0.05
_MOST_FAILED_ROUNDS = 1000


class IoLoop:
    """The controller's sockets."""

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
        self._posted: deque[Callable[[int], None]] = deque([self._take_igp])
        self._later: list[tuple[int, Callable[[int], None]]] = []
        self._stopping = False
        self._failed_rounds = 0
        self._poller = Poller()
        self.agents = AgentConnections(self.south, self._poller)
        self.clients = RestClients(self.north, self._poller, self.counters, settings.tls, self.south.step)
        self._wake_in, self._wake_out = socket.socketpair()
        self._wake_in.setblocking(False)
        self._wake_out.setblocking(False)
        self._agent_door = listen(settings.agents, "agents", "--agents")
        try:
            self._rest_door = listen(settings.rest, "REST", "--rest")
        except UsageError:
            self._agent_door.close()
            raise
        for plain in (self._agent_door, self._rest_door, self._wake_in):
            self._poller.add_socket(plain)
        self.agents_at = bound(settings.agents, self._agent_door)
        self.rest_at = bound(settings.rest, self._rest_door)

    # For other threads

    def post(self, action: Callable[[int], None]) -> None:
        """Have a function called in the loop, with the time."""
        self._posted.append(action)
        self.wake()

    def post_at(self, time_ns: int, action: Callable[[int], None]) -> None:
        """Have a function called in the loop, not before this time. To be called in the loop only."""
        self._later.append((time_ns, action))

    def stop(self) -> None:
        """End the loop: sessions in order, then all sockets. A signal handler may call it."""
        self._stopping = True
        self.wake()

    def reload(self) -> None:
        """Read the list of routers again, and what the IGP says of them. A signal handler may call it."""
        self.post(self._reload)
        self.post(self._take_igp)

    def wake(self) -> None:
        with contextlib.suppress(BlockingIOError, OSError):  # full: it is awake already; closed: it has ended
            self._wake_out.send(b"x")

    # The loop

    def serve(self) -> None:
        """Run the loop until `stop` is called."""
        try:
            while not self._stopping:
                self._safe_round()
            self._end_sessions()
        except Exception as error:
            # What is installed stays, and the next controller learns it from the network: so an end is better.
            self.defect = error
            LOG.exception("a defect of the controller ends it")
        finally:
            for peer in [*self.agents.by_number.values(), *self.clients.all]:
                peer.line.close()
            for door in (self._agent_door, self._rest_door):
                close_door(door)
            self._poller.close()
            self._wake_in.close()
            self._wake_out.close()

    def _end_sessions(self) -> None:
        self.south.close("the controller ends; what is installed stays", time.monotonic_ns())
        self.agents.send_output()
        deadline_ns = time.monotonic_ns() + 1_000_000_000  # for peers that are slow to take the last message
        while any(agent.unsent for agent in self.agents.by_number.values()) and time.monotonic_ns() < deadline_ns:
            for peer, _ in self._poller.select(0.05):
                if isinstance(peer, Agent):
                    self.agents.write(peer, time.monotonic_ns())

    def _safe_round(self) -> None:
        try:
            self._round()
            self._failed_rounds = 0
        except Exception:
            # The connection that triggered it is not known; `_serve` would have caught it. The next turn may succeed.
            self.counters["defects"] += 1
            self._failed_rounds += 1
            if self._failed_rounds > _MOST_FAILED_ROUNDS:
                raise
            LOG.exception("a defect of the controller, in a turn of its loop")
            time.sleep(_PAUSE_S)

    def _round(self) -> None:
        """Wait until there is work, and do some of it for each peer."""
        ready, doors = self._wait()
        for _, peer, events in sorted(ready, key=lambda entry: entry[0]):
            self._serve(peer, events)
        now_ns = time.monotonic_ns()
        for door in doors:
            # What a new peer sends has mostly arrived by now: it is read at once, so that most need no place at all.
            until_ns, accepted = now_ns + _ACCEPTING_NS, 0
            while accepted < _ACCEPTED_AT_LEAST or time.monotonic_ns() < until_ns:
                new = self._accept(door, time.monotonic_ns())
                if new is None:
                    break
                self._serve(new, selectors.EVENT_READ)
                accepted += 1
        now_ns = time.monotonic_ns()
        self._posted.extend(action for time_ns, action in self._later if time_ns <= now_ns)
        self._later = [entry for entry in self._later if entry[0] > now_ns]
        for _ in range(len(self._posted)):
            self._posted.popleft()(now_ns)
        self.south.advance(now_ns)
        self.agents.send_output()
        self.clients.stream(now_ns)
        self.clients.drop_late(now_ns)

    def _wait(self) -> tuple[list[tuple[int, Peer, int]], list[socket.socket]]:
        """Return the peers that have work, by rank, and the listening sockets that have new connections."""
        more: list[Peer] = [*self.agents.with_more(), *self.clients.with_more()]
        timeout_s: float | None = 0.0
        if not more and not self._posted:
            deadline_ns = self._deadline_ns()
            timeout_s = None if deadline_ns is None else max(deadline_ns - time.monotonic_ns(), 0) / 1e9
        found, doors = dict.fromkeys(more, 0), list[socket.socket]()
        for source, events in self._poller.select(timeout_s):
            if isinstance(source, Peer):
                found[source] = events
            elif source is self._wake_in:
                with contextlib.suppress(BlockingIOError):
                    self._wake_in.recv(4096)
            else:
                doors.append(source)
        return [(self._rank(peer), peer, events) for peer, events in found.items()], doors

    def _rank(self, peer: Peer) -> int:
        if isinstance(peer, Agent):
            return self.agents.rank(peer)
        return self.clients.rank(peer) if isinstance(peer, Client) else 2

    def _deadline_ns(self) -> int | None:
        deadlines = [*(time_ns for time_ns, _ in self._later), *self.clients.deadlines_ns]
        if self.south.deadline_ns is not None:
            deadlines.append(self.south.deadline_ns)
        return min(deadlines, default=None)

    def _serve(self, peer: Peer, events: int) -> None:
        """Read from a peer and write to it, as far as it is ready. An error ends this peer's connection only."""
        now_ns = time.monotonic_ns()
        try:
            if isinstance(peer, Agent):
                self.agents.serve(peer, events, now_ns)
            elif isinstance(peer, Client):
                self.clients.serve(peer, events, now_ns)
        except Exception:
            self.counters["defects"] += 1
            LOG.exception("a defect of the controller ends %s, which sent %a", peer, peer.last[:SHOWN])
            if isinstance(peer, Agent):
                self.agents.fail(peer, now_ns)
            elif isinstance(peer, Client):
                self.clients.drop(peer)

    def _accept(self, door: socket.socket, now_ns: int) -> Peer | None:
        """Accept a connection, if there is one and a place for it."""
        try:
            connection, _ = door.accept()
        except (BlockingIOError, InterruptedError):
            return None
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.ECONNABORTED):
                raise
            LOG.warning("a connection was not accepted: %s", error.strerror)
            self.counters["connections_not_taken"] += 1
            self.clients.make_room()
            time.sleep(0.01)  # it is still waiting; do not spin
            return None
        accepted = self.clients if door is self._rest_door else self.agents
        return accepted.accept(connection, now_ns)

    # The list of routers

    def _key_of(self, name: str) -> bytes | None:
        return self.settings.key_of(name) if self._routers is None or name in self._routers.locators else None

    def _take_igp(self, now_ns: int) -> None:
        """Give the manager what the IGP says of routers now."""
        try:
            routers = self.settings.read_igp()
        except UsageError as error:
            LOG.error("what the IGP says stays as it was: %s", error)
            return
        if routers is not None:
            self.manager.take_igp(routers, now_ns)
            LOG.info("the IGP describes %d routers", len(routers))

    def _reload(self, now_ns: int) -> None:
        """Apply the list of routers as it is now, and remove routers that are no longer on it or have a new key."""
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
