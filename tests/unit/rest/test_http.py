"""HTTP as the controller speaks it: requests in any pieces, and octets that are no request."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.rest.http import LONGEST_HEAD, REQUEST_NS, BadRequest, HttpConnection, NotAdmitted, Request, Response

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
            assert connection.receive(b"") is None  # one at a time
            connection.respond(Response(204), 0)
            request = connection.receive(b"")
    expected = Request("POST", "/policies", (("a", "1"), ("b", " x")), HEADERS, b"body")
    assert found == [expected, expected]


@pytest.mark.parametrize(
    ("octets", "status", "text"),
    [
        (b"hello\r\n\r\n", 400, "illegal request line: bytearray(b'hello'); write 'GET /topology HTTP/1.1'"),
        (b"GET / HTTP/2.0\r\nHost: x\r\n\r\n", 505, "the version must be HTTP/1.1 or HTTP/1.0"),
        (b"GET  / HTTP/1.1\r\nHost: x\r\n\r\n", 400, "illegal request line"),
        (b"GET / HTTP/1.1\r\n\r\n", 400, "Missing mandatory Host"),
        (b"GET / HTTP/1.1\r\nno header\r\n\r\n", 400, "illegal header line: bytearray(b'no header')"),
        (b"GET / HTTP/1.1\r\n folded: x\r\n\r\n", 400, "a header field is folded"),
        (b"GET / HTTP/1.1\r\nA b: x\r\n\r\n", 400, "illegal header line"),
        (b"GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", 400, "multiple Host"),
        (
            b"GET / HTTP/1.1\r\nHost: x\r\nAuthorization: y\r\nAuthorization: y\r\n\r\n",
            400,
            "authorization is repeated",
        ),
        (b"GET / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400, "conflicting Content-Length"),
        (b"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400, "bad Content-Length"),
        (
            b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1234567890123\r\n\r\n",
            400,
            "'1234567890123' is not a number",
        ),
        (b"POST / HTTP/1.1\r\nContent-Length: 1 \x002\r\n\r\n", 400, "illegal header line"),
        (
            b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 262145\r\n\r\n",
            413,
            "the body is too long; at most 262144 octets",
        ),
        (b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n", 411, "a body needs Content-Length"),
        (b"GET /%ff HTTP/1.1\r\nHost: x\r\n\r\n", 400, "is not a path with a query"),
        (b"GET /x?y HTTP/1.1\r\nHost: x\r\n\r\n", 400, "is not a path with a query"),
        (b"G" * (LONGEST_HEAD + 1), 431, "the head is too long; at most 8192"),
        (
            b"GET / HTTP/1.1\r\nX: " + b"y" * LONGEST_HEAD + b"\r\n\r\n",
            431,
            "the head is too long; at most 8192 octets",
        ),
        (b"GET / HTTP/1.1\r\n" + b"a:\r\n" * 66 + b"\r\n", 431, "too many header fields; at most 64"),
    ],
)
def test_what_is_no_request_gets_the_reason(octets: bytes, status: int, text: str) -> None:
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


def test_a_response_has_its_length_and_whether_the_connection_goes_on() -> None:
    connection = HttpConnection(0)
    assert connection.deadline_ns == REQUEST_NS
    assert connection.receive(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    connection.respond(Response(200, b"{}", headers={"Allow": "GET"}), 5)
    assert connection.data_to_send() == (
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nAllow: GET\r\n"
        b"Cache-Control: no-store\r\nContent-Length: 2\r\n\r\n{}"
    )
    assert not connection.is_over and connection.deadline_ns == 5 + REQUEST_NS
    for head in (b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", b"GET / HTTP/1.0\r\n\r\n"):
        connection = HttpConnection(0)
        assert connection.receive(head)
        connection.respond(Response(204), 0)
        assert b"Connection: close\r\n" in connection.data_to_send() and connection.is_over
        assert connection.receive(head) is None


def test_head_is_answered_by_a_head_alone_and_the_connection_goes_on() -> None:
    connection = HttpConnection(0)
    assert connection.receive(b"HEAD /x HTTP/1.1\r\nHost: x\r\n\r\n") is not None
    connection.respond(Response(405, b"no such method"), 0)
    head = connection.data_to_send()
    assert head.startswith(b"HTTP/1.1 405 ") and b"Content-Length: 14\r\n" in head and head.endswith(b"\r\n\r\n")
    assert connection.receive(b"GET /x HTTP/1.1\r\nHost: x\r\n\r\n") is not None
    connection.respond(Response(200, b"body"), 0)
    assert connection.data_to_send().endswith(b"\r\n\r\nbody")


def test_a_client_that_expects_100_continue_gets_it_once() -> None:
    connection = HttpConnection(0)
    assert connection.receive(b"PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n") is None
    assert connection.receive(b"a") is None
    assert connection.data_to_send() == b"HTTP/1.1 100 Continue\r\n\r\n"
    request = connection.receive(b"b")
    assert request is not None and request.body == b"ab"


def test_a_stream_has_no_length_and_no_deadline() -> None:
    connection = HttpConnection(0)
    assert connection.receive(b"GET /events HTTP/1.1\r\nHost: x\r\n\r\n")
    connection.respond(Response(200, content_type="text/event-stream", events_after=0), 0)
    connection.stream(b"data: x\n\n")
    assert connection.unsent > 0 and connection.deadline_ns is None and not connection.is_over
    assert connection.data_to_send() == (
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-store\r\n"
        b"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n9\r\ndata: x\n\n\r\n"
    )


@pytest.mark.parametrize(
    "head",
    [
        b"X:" + b" " * 1500 + b"\x01\x00",
        b"X:" + b"\t" * 8100 + b"\x00",
        b"X:" + b"\r\n " * 2600 + b"\x00",
    ],
)
def test_a_head_that_is_slow_to_parse_is_refused_before_it_is_parsed(head: bytes) -> None:
    """Check heads that regular expressions need 50 ms to 150 s for, while all other clients wait."""
    with pytest.raises(BadRequest) as caught:
        HttpConnection(0).receive(b"GET / HTTP/1.1\r\nHost: x\r\n" + head + b"\r\n\r\n")
    assert caught.value.text == "a header field is folded, or has more than 32 blanks in a row"


def test_the_head_alone_decides_who_may_send_a_body() -> None:
    asked = list[Request]()

    def admit(request: Request) -> Response | None:
        asked.append(request)
        return Response(401, b"no")

    connection = HttpConnection(0, admit)  # type: ignore[arg-type]
    with pytest.raises(NotAdmitted) as caught:
        connection.receive(b"POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 262144\r\n\r\n")
    connection.refuse(caught.value.response, 0)
    said = connection.data_to_send()
    assert said.startswith(b"HTTP/1.1 401 Unauthorized\r\n") and b"Connection: close\r\n" in said
    assert connection.is_over and [request.path for request in asked] == ["/x"]
    assert connection.receive(b"y" * 1000) is None


def test_what_was_sent_ahead_is_the_next_request() -> None:
    connection, get = HttpConnection(0), b"GET /%d HTTP/1.1\r\nHost: x\r\n\r\n"
    first = connection.receive(b"".join(get % number for number in range(3)))
    assert first is not None and first.path == "/0" and not connection.may_go_on
    connection.respond(Response(204), 0)
    assert connection.may_go_on
    second = connection.receive(b"")
    assert second is not None and second.path == "/1"
    connection.respond(Response(204), 0)
    assert connection.receive(b"GET") is not None
    connection.respond(Response(204), 0)
    assert connection.may_go_on and connection.receive(b"") is None
    assert not connection.may_go_on  # there is nothing new to look at
