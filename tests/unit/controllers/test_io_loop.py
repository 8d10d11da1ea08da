"""The controller's sockets under attack: limits, order of service, defects. Real sockets, one process."""

from __future__ import annotations

import json
import logging
import selectors
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from controllers import rest_clients
from controllers.io_loop import IoLoop
from controllers.settings import Address, Routers, Settings
from testbed.subjects.srv6.session.messages import router_key
from testbed.subjects.srv6.session.router_side import Router
from tests.unit.subjects.srv6.srv6_control import FIGURE_3, report

KEY, TOKEN = b"a key for tests, and for nothing else", "a-token-for-tests-only"


class Rounds:
    """An I/O loop whose turns the test makes, and its clients."""

    def __init__(self, routers: Routers | None = None, file: str = "") -> None:
        here = Address("127.0.0.1", 0)
        self.loop = IoLoop(Settings(KEY, TOKEN, here, here, routers=routers, routers_file=file))

    def turn(self, times: int = 1) -> None:
        for _ in range(times):
            self.loop.wake()  # so that it never waits
            self.loop._safe_round()

    def until(self, so: Callable[[], Any]) -> bool:
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            self.turn()
            if so():
                return True
        return False

    def connect(self, agents: bool = False) -> socket.socket:
        place = self.loop.agents_at if agents else self.loop.rest_at
        made = socket.create_connection((place.host, place.port))
        made.setblocking(False)
        return made

    def ask(self, made: socket.socket, path: str = "/topology", token: str = TOKEN, method: str = "GET") -> bytes:
        head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n"
        made.sendall(head.encode())
        return self.answer(made)

    def answer(self, made: socket.socket) -> bytes:
        found = bytearray()

        def whole() -> bool:
            try:
                piece = made.recv(1 << 16)
            except BlockingIOError:
                return False
            except ConnectionError:
                return True
            found.extend(piece)
            head, blank, body = bytes(found).partition(b"\r\n\r\n")
            length = [int(line[15:]) for line in head.split(b"\r\n") if line.startswith(b"Content-Length:")]
            return not piece or (bool(blank) and (b"event-stream" in head or len(body) >= (length or [0])[0]))

        assert self.until(whole)
        return bytes(found)

    def is_over(self, made: socket.socket) -> bool:
        def over() -> bool:
            try:
                return not made.recv(1 << 16)
            except BlockingIOError:
                return False
            except ConnectionError:
                return True

        return self.until(over)

    def router(self, name: str, key: bytes | None = None) -> tuple[Router, socket.socket]:
        """Return a connected router; `carry` moves its octets."""
        router = Router(name, key or router_key(KEY, name))
        router.know(report(name, FIGURE_3, ("R1", "R3")), 0)
        made = self.connect(agents=True)
        router.connect(bytes(31) + bytes([int(name[1:])]), time.monotonic_ns())
        return router, made

    def carry(self, router: Router, made: socket.socket) -> bool:
        """Move a router's octets. Return True if its session is open."""
        made.sendall(router.data_to_send())
        self.turn()
        try:
            data = made.recv(1 << 16)
        except BlockingIOError:
            data = b""
        if data:
            for command in router.receive(data, time.monotonic_ns()):
                router.done(command, time.monotonic_ns())
        return bool(router.session and router.session.is_open)

    def is_open(self, router: Router, made: socket.socket) -> bool:
        def both() -> bool:
            return self.carry(router, made) and router.name in self.loop.south.routers

        return self.until(lambda: both() or router.ended) and router.ended is None

    def is_ended(self, router: Router, made: socket.socket) -> bool:
        def over() -> bool:
            self.carry(router, made)
            return router.ended is not None

        return self.until(over)


@pytest.fixture
def rounds() -> Iterator[Rounds]:
    made = Rounds()
    yield made
    made.loop.stop()
    made.loop.serve()


def test_a_hello_with_an_unknown_key_is_read_and_ends_nothing(rounds: Rounds) -> None:
    made = rounds.connect(agents=True)
    hello = {"protocol": "xoff-srv6", "versions": [1], "role": "agent", "name": "R1", "nonce": "ab" * 32, "more": [1]}
    octets = json.dumps(hello).encode()
    made.sendall(len(octets).to_bytes(4) + octets)
    assert rounds.until(lambda: rounds.loop.south.counters["connections"])
    rounds.turn(5)
    assert not rounds.loop.counters["defects"] and not rounds.loop.south.counters["end bad_hello"]
    made.close()


def test_clients_without_the_token_never_keep_one_with_it_out(rounds: Rounds) -> None:
    strangers = [rounds.connect() for _ in range(rest_clients.MOST_STRANGERS + 20)]
    rounds.turn(20)
    for stranger in strangers[-10:]:
        stranger.sendall(b"GET / HTTP/1.1\r\n")  # they are busy, and never done
    rounds.turn(5)
    operator = rounds.connect()
    assert rounds.ask(operator).startswith(b"HTTP/1.1 200 ")
    more = [rounds.connect() for _ in range(rest_clients.MOST_STRANGERS + 20)]
    rounds.turn(30)
    assert rounds.ask(operator).startswith(b"HTTP/1.1 200 ")  # it has a place of its own
    assert rounds.is_over(strangers[0])  # silent for longest
    assert len(rounds.loop.clients.all) == rest_clients.MOST_STRANGERS + 1
    for made in (*strangers, *more, operator):
        made.close()


def test_a_wrong_token_ends_the_connection_before_a_body_is_read(rounds: Rounds) -> None:
    made = rounds.connect()
    made.sendall(b"POST /policies HTTP/1.1\r\nHost: localhost\r\nContent-Length: 200000\r\n\r\n")
    answer = rounds.answer(made)
    assert answer.startswith(b"HTTP/1.1 401 ") and b"Connection: close" in answer
    assert rounds.is_over(made) and not rounds.loop.clients.all
    made.close()


def test_followers_of_events_are_so_many_and_leave_places_for_others(rounds: Rounds) -> None:
    followers = [rounds.connect() for _ in range(rest_clients.MOST_FOLLOWERS + 3)]
    answers = [rounds.ask(follower, "/events") for follower in followers]
    assert [answer[9:12] for answer in answers] == [b"200"] * rest_clients.MOST_FOLLOWERS + [b"503"] * 3
    others = [rounds.connect() for _ in range(rest_clients.MOST_CLIENTS)]
    for other in others:
        assert rounds.ask(other).startswith(b"HTTP/1.1 200 ")
    assert len(rounds.loop.clients.all) <= rest_clients.MOST_CLIENTS
    assert sum(client.sequence is not None for client in rounds.loop.clients.all) == rest_clients.MOST_FOLLOWERS
    for made in (*followers, *others):
        made.close()


def test_requests_sent_ahead_are_answered_one_in_a_turn(rounds: Rounds) -> None:
    made = rounds.connect()
    made.sendall(f"GET /slices HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode() * 50)
    assert rounds.until(lambda: rounds.loop.north.counters["200"] == 1)
    rounds.turn(10)
    assert rounds.loop.north.counters["200"] == 11
    assert rounds.until(lambda: rounds.loop.north.counters["200"] == 50)
    made.close()


def test_strangers_never_keep_a_router_out(rounds: Rounds) -> None:
    strangers = [rounds.connect(agents=True) for _ in range(100)]
    rounds.turn(20)
    assert rounds.loop.south.counters["end crowded"] == 36
    router, made = rounds.router("R1")
    more = [rounds.connect(agents=True) for _ in range(30)]
    assert rounds.is_open(router, made)
    more += [rounds.connect(agents=True) for _ in range(100)]
    rounds.turn(30)
    assert rounds.loop.south.routers == ["R1"]
    assert len(rounds.loop.agents.by_number) == 65
    events = [event for event in rounds.loop.manager.history.after(0) if event.kind == "stranger"]
    assert len(events) <= 2  # they do not push what routers did out of the history
    for stranger in (*strangers, *more, made):
        stranger.close()


def test_each_router_has_a_key_of_its_own_and_one_that_is_not_listed_has_none(tmp_path: Path) -> None:
    file = tmp_path / "routers.toml"
    file.write_text('[R1]\nlocators = ["fd00:a:1::/48"]\n[R2]\nlocators = ["fd00:a:2::/48"]\n')
    rounds = Rounds(Routers.read(str(file)), str(file))
    good, made = rounds.router("R1")
    assert rounds.is_open(good, made)
    thief, its = rounds.router("R2", router_key(KEY, "R1"))
    assert not rounds.is_open(thief, its)
    stranger, third = rounds.router("R3")
    assert not rounds.is_open(stranger, third)
    assert rounds.loop.south.routers == ["R1"] and rounds.loop.south.counters["end unknown"] == 1

    file.write_text('[R1]\nlocators = ["fd00:a:1::/48"]\nissue = 2\n[R3]\nlocators = ["fd00:a:3::/48"]\n')
    rounds.loop.reload()
    assert rounds.until(lambda: rounds.loop.south.counters["end removed"])
    assert rounds.loop.manager.reports == {}
    again, fourth = rounds.router("R1")  # with the key of the first issue
    assert not rounds.is_open(again, fourth)
    again, fifth = rounds.router("R1", router_key(KEY, "R1", 2))
    assert rounds.is_open(again, fifth)
    file.write_text("no toml")
    rounds.loop.reload()
    rounds.turn(3)
    assert rounds.loop.south.routers == ["R1"]  # the list stays as it was
    for line in (made, its, third, fourth, fifth):
        line.close()
    rounds.loop.stop()
    rounds.loop.serve()


def test_what_meets_a_defect_ends_one_session_is_logged_with_its_cause_and_counted(
    rounds: Rounds, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    good, made = rounds.router("R1")
    assert rounds.is_open(good, made)
    hear = rounds.loop.manager.receive

    def broken(node: str, *rest: Any) -> None:
        if node == "R2":
            raise RuntimeError("a defect for the test")
        hear(node, *rest)

    monkeypatch.setattr(rounds.loop.manager, "receive", broken)
    bad, its = rounds.router("R2")
    with caplog.at_level(logging.ERROR):
        assert rounds.is_ended(bad, its)
    assert bad.ended is not None and "a defect of the controller" in bad.ended.text
    (record,) = caplog.records
    assert record.exc_info and "R2" in record.getMessage() and "report" in record.getMessage()
    assert rounds.loop.counters["defects"] == 1 and rounds.loop.south.counters["end defect"] == 1
    assert rounds.loop.south.routers == ["R1"] and rounds.is_open(good, made)
    operator = rounds.connect()
    assert rounds.ask(operator).startswith(b"HTTP/1.1 200 ")
    for line in (made, its, operator):
        line.close()


def test_a_defect_in_what_follows_from_a_report_ends_the_session_that_it_came_by(
    rounds: Rounds, monkeypatch: pytest.MonkeyPatch
) -> None:
    from testbed.subjects.srv6.controller import manager, network

    def broken(reports: Any, *rest: Any) -> Any:
        if "R2" in reports:
            raise ZeroDivisionError
        return network.build(reports, *rest)

    monkeypatch.setattr(manager, "build", broken)
    good, made = rounds.router("R1")
    assert rounds.is_open(good, made)
    bad, its = rounds.router("R2")
    assert rounds.is_ended(bad, its)
    rounds.turn(3)
    assert list(rounds.loop.manager.reports) == ["R1"] and rounds.loop.south.routers == ["R1"]
    assert rounds.loop.counters["defects"] == 1
    made.close()
    its.close()


def test_descriptors_beyond_1023_are_waited_for_like_others(rounds: Rounds) -> None:
    assert isinstance(rounds.loop._poller._selector, selectors.EpollSelector)
    try:
        held = [socket.socket() for _ in range(1000)]
    except OSError:
        pytest.skip("so many descriptors are not allowed here")
    try:
        with closing(rounds.connect()) as operator:
            if operator.fileno() < 1000:
                pytest.skip("so many descriptors are not allowed here")
            assert rounds.ask(operator).startswith(b"HTTP/1.1 200 ")
    except OSError:
        pytest.skip("so many descriptors are not allowed here")
    finally:
        for one in held:
            one.close()


def test_an_operator_removes_a_router_and_it_may_come_back(rounds: Rounds) -> None:
    router, made = rounds.router("R1")
    assert rounds.is_open(router, made)
    assert rounds.until(lambda: rounds.carry(router, made) and rounds.loop.manager.reports)
    operator = rounds.connect()
    assert rounds.ask(operator, "/routers/R1", method="DELETE").startswith(b"HTTP/1.1 204 ")
    assert rounds.is_ended(router, made)
    assert router.ended is not None and "an operator has removed it" in router.ended.text
    assert rounds.loop.manager.reports == {} and rounds.ask(operator).count(b'"name": "R1"') == 0
    again, its = rounds.router("R1")
    assert rounds.is_open(again, its)
    assert rounds.ask(operator, "/routers/R9", method="DELETE").startswith(b"HTTP/1.1 404 ")
    for line in (made, operator, its):
        line.close()
