"""The connections of REST clients: HTTP, TLS, and the event stream.

Clients that have shown the token have places of their own. When there are too many strangers, the one that has been
silent for longest is disconnected for the next.
"""

from __future__ import annotations

import logging
import selectors
import socket
import ssl
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from http import HTTPStatus

from controllers.connections import MOST_UNSENT, SHOWN, Peer, Poller, receive
from controllers.lines import AT_ONCE, PlainLine, TlsLine
from testbed.rest.http import BadRequest, HttpConnection, NotAdmitted, Request, Response
from testbed.rest.problems import problem
from testbed.rest.server import RestServer

LOG = logging.getLogger("xoff")

MOST_STRANGERS = 64
"""The most clients that have not shown the token."""
MOST_CLIENTS = 64
"""The most clients that have shown the token."""
MOST_FOLLOWERS = 32
"""The most clients, of these, that follow events."""
STREAM_KEEPALIVE_NS = 15_000_000_000
_UNSENT_BEFORE_NEXT = 1 << 16
"""The number of unsent octets below which a client's next request is processed."""


@dataclass(eq=False)
class Client(Peer):
    """A connection of a REST client."""

    http: HttpConnection = field(default_factory=lambda: HttpConnection(0))
    sequence: int | None = None  # of the last event sent, if it follows events
    sent_ns: int = 0
    has_token: bool = False

    def __str__(self) -> str:
        return "a client of REST"


class RestClients:
    """All connections with REST clients, in the order in which they were made."""

    def __init__(
        self,
        server: RestServer,
        poller: Poller,
        counters: Counter[str],
        tls: ssl.SSLContext | None,
        after_request: Callable[[int], None],
    ) -> None:
        """`after_request` is called after each request, to carry out the consequences."""
        self.all: dict[Client, None] = {}
        self._server, self._poller, self._counters, self._tls = server, poller, counters, tls
        self._after_request = after_request

    def accept(self, connection: socket.socket, now_ns: int) -> Client:
        if len(self._strangers()) >= MOST_STRANGERS:
            self._server.counters["strangers_dropped"] += 1
            self.make_room()
        line = PlainLine(connection) if self._tls is None else TlsLine(connection, self._tls)
        client = Client(line, now_ns, sent_ns=now_ns)
        client.http = HttpConnection(now_ns, lambda request: self._admit(client, request))
        self.all[client] = None
        self._poller.add(client)
        return client

    def make_room(self) -> None:
        """Disconnect the stranger that has been silent for longest."""
        if strangers := self._strangers():
            self.drop(min(strangers, key=lambda client: client.heard_ns))

    def with_more(self) -> list[Client]:
        """The clients that have taken their last response and have sent another request already."""
        return [
            client
            for client in self.all
            if client.sequence is None and client.http.may_go_on and client.http.unsent < _UNSENT_BEFORE_NEXT
        ]

    def rank(self, client: Client) -> int:
        return 1 if client.has_token else 2

    def serve(self, client: Client, events: int, now_ns: int) -> None:
        """Read from a client and write to it, as far as it is ready; `events` is 0 to process octets received
        before.
        """
        if client not in self.all:
            return
        if events & selectors.EVENT_WRITE:
            self._write(client)
        if not events or events & selectors.EVENT_READ:
            self._read(client, now_ns, bool(events))

    def stream(self, now_ns: int) -> None:
        """Send new events to the clients that follow them."""
        texts: dict[int, tuple[bytes, int]] = {}  # most clients have the same last event
        for client in list(self.all):
            if client.sequence is None:
                continue
            octets = b""
            if client.sequence != self._server.history.last:
                if client.sequence not in texts:
                    texts[client.sequence] = self._server.events(client.sequence)
                octets, client.sequence = texts[client.sequence]
            if not octets and now_ns >= client.sent_ns + STREAM_KEEPALIVE_NS:
                octets = b": nothing new\n\n"
            if octets:
                client.sent_ns = now_ns
                client.http.stream(octets)
                self._write(client)

    def drop_late(self, now_ns: int) -> None:
        """Disconnect clients whose request has not come in time."""
        for client in list(self.all):
            if client.http.deadline_ns is not None and now_ns >= client.http.deadline_ns:
                self.drop(client)

    @property
    def deadlines_ns(self) -> list[int]:
        """The times at which `stream` or `drop_late` has work, if nothing is received until then."""
        deadlines = [client.http.deadline_ns for client in self.all if client.http.deadline_ns is not None]
        return deadlines + [client.sent_ns + STREAM_KEEPALIVE_NS for client in self.all if client.sequence is not None]

    def drop(self, client: Client) -> None:
        if client in self.all:
            del self.all[client]
            self._poller.close_peer(client)

    def _strangers(self) -> list[Client]:
        return [client for client in self.all if not client.has_token]

    def _admit(self, client: Client, request: Request) -> Response | int:
        """Return the refusal of a request whose head has been received, or the longest body that it may have."""
        admitted = self._server.admit(request)
        if isinstance(admitted, Response):
            return admitted
        if not client.has_token and self._server.has_token(request):
            known = [other for other in self.all if other.has_token and other.sequence is None]
            followers = sum(other.sequence is not None for other in self.all)
            if len(known) + followers >= MOST_CLIENTS:
                self.drop(min(known, key=lambda other: other.heard_ns))
            client.has_token = True
        return admitted

    def _read(self, client: Client, now_ns: int, has_octets: bool) -> None:
        data = receive(client, now_ns) if has_octets else b""
        if data is None:
            self._write(client)  # a handshake of TLS may have something to send
            return
        if not data and has_octets:
            self.drop(client)
            return
        if client.sequence is not None:
            return  # it follows events, and has no further request
        try:
            request = client.http.receive(data)
            if request is not None:
                client.http.respond(self._answer(client, request, now_ns), now_ns)
        except NotAdmitted as error:
            client.http.refuse(error.response, now_ns)
        except BadRequest as error:
            client.http.refuse(problem(error.status, error.text), now_ns)
        self._write(client)

    def _answer(self, client: Client, request: Request, now_ns: int) -> Response:
        try:
            response = self._server.handle(request, now_ns)
            self._after_request(now_ns)
        except Exception:
            self._counters["defects"] += 1
            LOG.exception("a defect of the controller: %s %r %a", request.method, request.path, request.body[:SHOWN])
            text = "the request triggered a defect of the controller, which its log describes"
            return problem(HTTPStatus.INTERNAL_SERVER_ERROR, text)
        if response.events_after is not None:
            if sum(other.sequence is not None for other in self.all) >= MOST_FOLLOWERS:
                text = f"{MOST_FOLLOWERS} clients follow events, the most possible; try again, or use ?follow=false"
                return problem(HTTPStatus.SERVICE_UNAVAILABLE, text, headers={"Retry-After": "10"})
            client.sequence = response.events_after
        return response

    def _write(self, client: Client) -> None:
        while data := client.http.data_to_send(AT_ONCE):
            sent = client.line.send(data)
            if sent is None or client.http.unsent + client.line.unsent > MOST_UNSENT:
                self.drop(client)
                return
            if sent < len(data):
                client.http.put_back(data[sent:])
                break
        else:
            if client.line.unsent and client.line.send(b"") is None:
                self.drop(client)
                return
        unsent = bool(client.http.unsent or client.line.unsent)
        if client.http.is_over and not unsent:
            self.drop(client)
        elif client in self.all:
            self._poller.watch(client, unsent)
