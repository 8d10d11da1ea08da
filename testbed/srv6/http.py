"""HTTP/1.1 as a server speaks it, as far as a small REST service needs it (RFC 9112): octets in, requests out.

Sans-I/O: one object per connection. A request has a head and, if Content-Length says so, a body; both are bounded, and
have to come in time. Whatever else HTTP knows is answered with the status that says so, and the connection ends, since
what follows cannot be told apart: chunked bodies, several lengths, other versions, lines that are no header.

A response may be a stream without an end, for events; then the connection is for it alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from urllib.parse import parse_qsl, unquote

LONGEST_HEAD = 8192
LONGEST_BODY = 1 << 20
REQUEST_NS = 10_000_000_000
"""How long a client has for one request, and for the next one on the same connection."""

_REQUEST_LINE = re.compile(rb"([A-Z]{1,20}) (\S{1,4000}) HTTP/1\.([01])")
_HEADER = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([\x20-\x7e\x80-\xff\t]*?)[ \t]*")
_LENGTH = re.compile("[0-9]{1,12}")
_NO_HEADERS: Mapping[str, str] = {}


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
    """What came is no request; `status` says what is wrong."""

    def __init__(self, status: HTTPStatus, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.text = text


class HttpConnection:
    """One connection of a client."""

    def __init__(self, now_ns: int) -> None:
        self.deadline_ns: int | None = now_ns + REQUEST_NS
        self.is_over = False  # nothing more is read, and it is to be closed when all is sent
        self._inbox = bytearray()
        self._outbox = bytearray()
        self._keep = True  # after the request that was read last
        self._invited = False  # the client has been told to go on with its body

    def receive(self, data: bytes) -> Request | None:
        """Octets have come, or none, to look for a next request in what is there. BadRequest if there is none."""
        if self.is_over:
            return None
        self._inbox += data
        end = self._inbox.find(b"\r\n\r\n")
        if end > LONGEST_HEAD or (end < 0 and len(self._inbox) > LONGEST_HEAD):
            raise BadRequest(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, f"a head may have {LONGEST_HEAD} octets")
        if end < 0:
            return None
        method, target, headers = self._head(bytes(self._inbox[:end]))
        length = self._body_length(headers)
        if len(self._inbox) < end + 4 + length:
            if headers.get("expect", "").lower() == "100-continue" and not self._invited:
                self._invited = True
                self._outbox += b"HTTP/1.1 100 Continue\r\n\r\n"
            return None
        body = bytes(self._inbox[end + 4 : end + 4 + length])
        del self._inbox[: end + 4 + length]
        self._invited = False
        path, _, query = target.partition("?")
        try:
            pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query), errors="strict")
            return Request(method, unquote(path, errors="strict"), tuple(pairs), headers, body)
        except ValueError:
            raise BadRequest(HTTPStatus.BAD_REQUEST, f"{target[:60]!a} is no path with a query") from None

    def respond(self, response: Response, now_ns: int) -> None:
        """Answer the request that was read last."""
        if response.events_after is not None:
            self._keep, self.deadline_ns = False, None
            self._write_head(response, "Connection: close\r\n")
            return
        keep = "" if self._keep else "Connection: close\r\n"
        self._write_head(response, f"Content-Length: {len(response.body)}\r\n{keep}")
        self._outbox += response.body
        self.is_over = not self._keep
        self.deadline_ns = now_ns + REQUEST_NS

    def refuse(self, response: Response, now_ns: int) -> None:
        """Answer what is no request, and end."""
        self._keep = False
        self.respond(response, now_ns)

    def stream(self, octets: bytes) -> None:
        """More of a response without an end."""
        self._outbox += octets

    @property
    def unsent(self) -> int:
        return len(self._outbox)

    def data_to_send(self, most: int = 1 << 16) -> bytes:
        """The next octets for the client, which count as sent."""
        data = bytes(self._outbox[:most])
        del self._outbox[:most]
        return data

    def put_back(self, data: bytes) -> None:
        """Octets of the last `data_to_send` that the line did not take."""
        self._outbox[:0] = data

    def _head(self, head: bytes) -> tuple[str, str, dict[str, str]]:
        first, *lines = head.split(b"\r\n")
        match = _REQUEST_LINE.fullmatch(first)
        if match is None:
            if re.fullmatch(rb"\S+ \S+ HTTP/[0-9.]+", first) and b" HTTP/1." not in first:
                raise BadRequest(HTTPStatus.HTTP_VERSION_NOT_SUPPORTED, "HTTP/1.1 is spoken here")
            raise BadRequest(HTTPStatus.BAD_REQUEST, f"{first[:60]!a} is no request; write 'GET /topology HTTP/1.1'")
        headers: dict[str, str] = {}
        for line in lines:
            named = _HEADER.fullmatch(line)
            if named is None:
                raise BadRequest(HTTPStatus.BAD_REQUEST, f"{line[:60]!a} is no header")
            name, value = named[1].decode().lower(), named[2].decode("latin-1")
            if name in headers and name in ("content-length", "authorization", "host"):
                raise BadRequest(HTTPStatus.BAD_REQUEST, f"header {name} comes twice")
            headers[name] = value
        options = {word.strip().lower() for word in headers.get("connection", "").split(",")}
        self._keep = "close" not in options and (match[3] == b"1" or "keep-alive" in options)
        return match[1].decode(), match[2].decode("latin-1"), headers

    def _body_length(self, headers: Mapping[str, str]) -> int:
        if "transfer-encoding" in headers:
            raise BadRequest(HTTPStatus.LENGTH_REQUIRED, "a body needs Content-Length; Transfer-Encoding is not read")
        text = headers.get("content-length", "0")
        if not _LENGTH.fullmatch(text):
            raise BadRequest(HTTPStatus.BAD_REQUEST, f"Content-Length {text[:30]!a} is no number")
        if int(text) > LONGEST_BODY:
            raise BadRequest(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a body may have {LONGEST_BODY} octets")
        return int(text)

    def _write_head(self, response: Response, more: str) -> None:
        status = HTTPStatus(response.status)
        lines = [f"HTTP/1.1 {status.value} {status.phrase}\r\n"]
        if response.body or response.events_after is not None:
            lines.append(f"Content-Type: {response.content_type}\r\n")
        lines += [f"{name}: {value}\r\n" for name, value in response.headers.items()]
        self._outbox += ("".join(lines) + "Cache-Control: no-store\r\n" + more + "\r\n").encode()
