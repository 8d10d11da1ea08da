"""HTTP as the controller speaks it: requests in any pieces, and what is no request."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.srv6.http import LONGEST_BODY, LONGEST_HEAD, REQUEST_NS, BadRequest, HttpConnection, Request, Response

POST = b"POST /policies?a=1&b=%20x HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nX-Odd:  y \r\n\r\nbody"
HEADERS = {"host": "x", "content-length": "4", "x-odd": "y"}


@given(st.lists(st.integers(1, 40), max_size=12))
def test_a_request_comes_out_however_its_octets_are_cut(cuts: list[int]) -> None:
    connection, data = HttpConnection(0), POST + POST
    found: list[Request] = []
    for cut in [*cuts, len(data)]:
        piece, data = data[:cut], data[cut:]
        request = connection.receive(piece)
        while request is not None:
            found.append(request)
            request = connection.receive(b"")
    expected = Request("POST", "/policies", (("a", "1"), ("b", " x")), HEADERS, b"body")
    assert found == [expected, expected]


@pytest.mark.parametrize(
    ("octets", "status", "text"),
    [
        (b"hello\r\n\r\n", 400, "'hello'"),
        (b"GET / HTTP/2.0\r\n\r\n", 505, "HTTP/1.1 is spoken here"),
        (b"GET  / HTTP/1.1\r\n\r\n", 400, "is no request"),
        (b"get / HTTP/1.1\r\n\r\n", 400, "is no request"),
        (b"GET / HTTP/1.1\r\nno header\r\n\r\n", 400, "'no header' is no header"),
        (b"GET / HTTP/1.1\r\n folded: x\r\n\r\n", 400, "is no header"),
        (b"GET / HTTP/1.1\r\nA b: x\r\n\r\n", 400, "is no header"),
        (b"GET / HTTP/1.1\nHost: x\n\r\n\r\n", 400, "is no request"),
        (b"GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", 400, "header host comes twice"),
        (b"GET / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400, "header content-length comes twice"),
        (b"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400, "Content-Length '-1' is no number"),
        (b"POST / HTTP/1.1\r\nContent-Length: 1 \x002\r\n\r\n", 400, "is no header"),
        (b"POST / HTTP/1.1\r\nContent-Length: 1048577\r\n\r\n", 413, "a body may have 1048576 octets"),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", 411, "a body needs Content-Length"),
        (b"GET /%ff HTTP/1.1\r\n\r\n", 400, "is no path with a query"),
        (b"GET /x?y HTTP/1.1\r\n\r\n", 400, "is no path with a query"),
        (b"G" * (LONGEST_HEAD + 1), 431, "a head may have 8192 octets"),
        (b"GET / HTTP/1.1\r\nX: " + b"y" * LONGEST_HEAD + b"\r\n\r\n", 431, "a head may have 8192 octets"),
    ],
)
def test_what_is_no_request_says_why(octets: bytes, status: int, text: str) -> None:
    with pytest.raises(BadRequest) as caught:
        HttpConnection(0).receive(octets)
    assert caught.value.status == status and text in caught.value.text


@given(st.binary(max_size=200))
def test_any_octets_are_waited_for_read_or_refused(octets: bytes) -> None:
    connection = HttpConnection(0)
    try:
        connection.receive(octets + b"\r\n\r\n")
    except BadRequest as error:
        connection.refuse(Response(error.status), 0)
        assert connection.is_over and connection.data_to_send().startswith(b"HTTP/1.1 ")


def test_a_response_says_its_length_and_whether_the_connection_goes_on() -> None:
    connection = HttpConnection(0)
    assert connection.deadline_ns == REQUEST_NS
    assert connection.receive(b"GET / HTTP/1.1\r\n\r\n")
    connection.respond(Response(200, b"{}", headers={"Allow": "GET"}), 5)
    assert connection.data_to_send() == (
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nAllow: GET\r\n"
        b"Cache-Control: no-store\r\nContent-Length: 2\r\n\r\n{}"
    )
    assert not connection.is_over and connection.deadline_ns == 5 + REQUEST_NS
    for head in (b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n", b"GET / HTTP/1.0\r\n\r\n"):
        connection = HttpConnection(0)
        assert connection.receive(head)
        connection.respond(Response(204), 0)
        assert b"Connection: close\r\n" in connection.data_to_send() and connection.is_over
        assert connection.receive(head) is None


def test_a_client_that_asks_before_it_sends_its_body_is_told_to_go_on_once() -> None:
    connection = HttpConnection(0)
    assert connection.receive(b"PUT / HTTP/1.1\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n") is None
    assert connection.receive(b"a") is None
    assert connection.data_to_send() == b"HTTP/1.1 100 Continue\r\n\r\n"
    request = connection.receive(b"b")
    assert request is not None and request.body == b"ab"


def test_a_stream_has_no_length_and_no_deadline() -> None:
    connection = HttpConnection(0)
    assert connection.receive(b"GET /events HTTP/1.1\r\n\r\n")
    connection.respond(Response(200, content_type="text/event-stream", events_after=0), 0)
    connection.stream(b"data: x\n\n")
    assert connection.unsent > 0 and connection.deadline_ns is None and not connection.is_over
    assert connection.data_to_send() == (
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n"
        b"data: x\n\n"
    )
    assert LONGEST_BODY < 1 << 24
