"""HTTP/1.1 for a small REST service (RFC 9112), parsed by h11: octets in, requests out.

Sans-I/O: one object per connection. A request has a head and, if Content-Length is there, a body. Head, header fields
and body are bounded, and so is the time until a request is complete. Parts of HTTP that h11 accepts and this service
does not need are refused with a status, and the connection ends: bodies without a length, folded header fields, and
long runs of blanks, for which h11 takes time that grows with their square.

`admit` gets the head of a request before its body is read, and returns a refusal, after which the connection ends, or
the longest body that the request may have. So a client without the token makes the controller hold one head at most.

A response may be an endless stream, for events; then no other response follows in this connection.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from urllib.parse import parse_qsl, unquote

import h11

LONGEST_HEAD = 8192
LONGEST_BODY = 1 << 18
"""The default limit. A policy has a few hundred octets, a VPN with 256 sites and ten prefixes at each some 80 000."""
MOST_FIELDS = 64
REQUEST_NS = 10_000_000_000
"""The time that a client has for one request, and for the next one on the same connection."""

_END_OF_HEAD = re.compile(rb"\n\r?\n")
_SLOW = re.compile(rb"[ \t]{33}|\n[ \t]")
_LENGTH = re.compile(rb"[0-9]{1,12}")


@dataclass(frozen=True)
class Request:
    method: str
    path: str  # decoded, without query
    query: tuple[tuple[str, str], ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)  # names in lower case
    body: bytes = b""


@dataclass(frozen=True)
class Response:
    status: int
    body: bytes = b""
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)
    events_after: int | None = None  # a stream of the events after this one follows


class BadRequest(Exception):
    """The refusal of octets that are no valid request."""

    def __init__(self, status: HTTPStatus, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.text = text


class NotAdmitted(Exception):
    """The refusal of a request because of its head."""

    def __init__(self, response: Response) -> None:
        super().__init__(response.status)
        self.response = response


class HttpConnection:
    """One connection of a client."""

    def __init__(self, now_ns: int, admit: Callable[[Request], Response | int] = lambda request: LONGEST_BODY) -> None:
        self.deadline_ns: int | None = now_ns + REQUEST_NS
        self.is_over = False  # nothing more is read; to be closed when all is sent
        self._admit = admit
        self._inbox = bytearray()
        self._outbox = bytearray()
        self._searched = 0  # up to where there is no end of a head
        self._h11 = _new()  # of one request and its response
        self._request: Request | None = None  # its head, while the body is awaited
        self._length = 0
        self._is_asked = False  # a request waits for its response
        self._wants_body = True
        """False after HEAD, whose response is a head alone (RFC 9110, section 9.3.2)."""

    def receive(self, data: bytes) -> Request | None:
        """Process received octets, or without octets look for the next request in those received before.

        BadRequest or NotAdmitted if the request is refused; `refuse` has to follow.
        """
        if self.is_over:
            return None
        self._inbox += data
        if self._is_asked:
            return None
        if self._request is None and not self._take_head():
            return None
        assert self._request is not None
        if len(self._inbox) < self._length:
            if self._h11.they_are_waiting_for_100_continue:
                self._send(h11.InformationalResponse(status_code=100, headers=[], reason=b"Continue"))
            return None
        if self._length:
            self._h11.receive_data(bytes(self._inbox[: self._length]))
            del self._inbox[: self._length]
        body = bytearray()
        while isinstance(event := self._h11.next_event(), h11.Data):
            body += event.data
        assert isinstance(event, h11.EndOfMessage)
        self._is_asked = True
        request, self._request = self._request, None
        return replace(request, body=bytes(body))

    def respond(self, response: Response, now_ns: int) -> None:
        """Answer the request that was read last."""
        self._is_asked = False
        status = HTTPStatus(response.status)
        fields = list(response.headers.items())
        if response.body or response.events_after is not None:
            fields.insert(0, ("Content-Type", response.content_type))
        fields.append(("Cache-Control", "no-store"))
        if response.events_after is not None:
            fields.append(("Connection", "close"))
        elif status is not HTTPStatus.NO_CONTENT:
            fields.append(("Content-Length", str(len(response.body))))
        head = [(name.encode(), value.encode()) for name, value in fields]
        self._send(h11.Response(status_code=status.value, reason=status.phrase.encode(), headers=head))
        if response.events_after is not None:
            self.deadline_ns = None
            return
        if response.body and self._wants_body:
            self._send(h11.Data(data=response.body))
        self._send(h11.EndOfMessage())
        self.is_over = self._h11.our_state is not h11.DONE or self._h11.their_state is not h11.DONE
        self._h11 = _new()
        self.deadline_ns = now_ns + REQUEST_NS

    def refuse(self, response: Response, now_ns: int) -> None:
        """Answer an invalid or refused request, and end."""
        headers = {**response.headers, "Connection": "close"}
        self.respond(replace(response, headers=headers, events_after=None), now_ns)
        self.is_over = True
        self._inbox.clear()

    def stream(self, octets: bytes) -> None:
        """Add octets to an endless response."""
        self._send(h11.Data(data=octets))

    @property
    def may_go_on(self) -> bool:
        """True if there are octets, of the next request, that `receive` has not processed."""
        return len(self._inbox) > self._searched and not self.is_over and self._request is None and not self._is_asked

    @property
    def unsent(self) -> int:
        return len(self._outbox)

    def data_to_send(self, most: int = 1 << 16) -> bytes:
        """Return the next octets for the client, which count as sent."""
        data = bytes(self._outbox[:most])
        del self._outbox[:most]
        return data

    def put_back(self, data: bytes) -> None:
        """Take back octets of the last `data_to_send` that the socket did not take."""
        self._outbox[:0] = data

    def _take_head(self) -> bool:
        end = _END_OF_HEAD.search(self._inbox, max(self._searched - 2, 0))
        if (end.end() if end else len(self._inbox)) > LONGEST_HEAD:
            raise BadRequest(
                HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, f"the head is too long; at most {LONGEST_HEAD} octets"
            )
        self._searched = 0 if end else len(self._inbox)
        if end is None:
            return False
        head = bytes(self._inbox[: end.end()])
        del self._inbox[: end.end()]
        if _SLOW.search(head):
            raise BadRequest(HTTPStatus.BAD_REQUEST, "a header field is folded, or has more than 32 blanks in a row")
        if head.count(b"\n") > MOST_FIELDS + 2:
            text = f"too many header fields; at most {MOST_FIELDS}"
            raise BadRequest(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, text)
        try:
            self._h11.receive_data(head)
            event = self._h11.next_event()
        except h11.RemoteProtocolError as error:
            text = f"not a request of HTTP/1.1: {str(error)[:120]}; write 'GET /topology HTTP/1.1'"
            raise BadRequest(HTTPStatus(error.error_status_hint), text) from None
        assert isinstance(event, h11.Request)
        self._wants_body = event.method != b"HEAD"
        if event.http_version not in (b"1.1", b"1.0"):
            raise BadRequest(HTTPStatus.HTTP_VERSION_NOT_SUPPORTED, "the version must be HTTP/1.1 or HTTP/1.0")
        headers: dict[str, str] = {}
        for name, value in event.headers:
            if name in (b"authorization", b"host") and name.decode() in headers:
                raise BadRequest(HTTPStatus.BAD_REQUEST, f"header {name.decode()} is repeated")
            headers[name.decode()] = value.decode("latin-1")
        length = self._body_length(headers)
        path, _, query = event.target.decode().partition("?")
        try:
            pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query), errors="strict")
            request = Request(event.method.decode(), unquote(path, errors="strict"), tuple(pairs), headers)
        except ValueError:
            target = event.target.decode()
            raise BadRequest(HTTPStatus.BAD_REQUEST, f"{target[:60]!a} is not a path with a query") from None
        admitted = self._admit(request)
        if isinstance(admitted, Response):
            raise NotAdmitted(admitted)
        if length > admitted:
            raise BadRequest(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"the body is too long; at most {admitted} octets")
        self._request, self._length = request, length
        return True

    def _body_length(self, headers: Mapping[str, str]) -> int:
        if "transfer-encoding" in headers:
            raise BadRequest(
                HTTPStatus.LENGTH_REQUIRED, "a body needs Content-Length; Transfer-Encoding is not supported"
            )
        text = headers.get("content-length", "0").encode("latin-1")
        if not _LENGTH.fullmatch(text):  # h11 takes more digits
            raise BadRequest(HTTPStatus.BAD_REQUEST, f"Content-Length {text[:30]!a} is not a number")
        return int(text)

    def _send(self, event: h11.Event) -> None:
        self._outbox += self._h11.send(event) or b""


def _new() -> h11.Connection:
    return h11.Connection(h11.SERVER, max_incomplete_event_size=LONGEST_HEAD)
