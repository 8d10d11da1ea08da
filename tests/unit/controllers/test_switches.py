"""The door for OpenFlow switches: its limits, and the libraries' needs for switches at a Unix socket."""

from __future__ import annotations

import logging
import socket
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from controllers.switches import SwitchDoor, install


class _Server:
    """A stand-in for the library's server. Its `accepted` are raised, or end it."""

    accepted: list[Exception]

    def serve_forever(self) -> None:
        if self.accepted:
            raise self.accepted.pop(0)


def library(serve: Any) -> Any:
    return SimpleNamespace(datapath_connection_factory=serve, StreamServer=_Server)


PARSER = SimpleNamespace(_MSG_PARSERS={})


def test_a_unix_socket_is_given_none_of_tcps_options_and_else_is_what_it_is() -> None:
    one, other = socket.socketpair(socket.AF_UNIX)
    with one, other:
        with pytest.raises(OSError, match="not supported"):
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

        def serve(connection: Any, address: object) -> None:
            assert address == "a leaf"
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 9999)
            assert one.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) == 2 * 9999
            connection.sendall(b"hello")

        controller, door = library(serve), SwitchDoor()
        install(door, controller, PARSER)
        controller.datapath_connection_factory(one, "")
        assert other.recv(5) == b"hello" and not door.counters["failed"]
        assert one.fileno() == -1


def test_connections_over_the_limit_are_closed_and_those_of_known_switches_count_apart() -> None:
    door, go, here = SwitchDoor(most=1, most_strangers=2), threading.Event(), threading.Semaphore(0)
    lines: list[Any] = []

    def serve(connection: Any, address: object) -> None:
        lines.append(connection)
        here.release()
        go.wait(10)

    handle = door.guarded(serve)
    pairs = [socket.socketpair() for _ in range(5)]
    threads = [threading.Thread(target=handle, args=(pair[0], "")) for pair in pairs[:2]]
    for thread in threads:
        thread.start()
        assert here.acquire(timeout=10)
    handle(pairs[2][0], "")  # the third stranger
    assert pairs[2][0].fileno() == -1 and door.counters["refused"] == 1
    door.identified(lines[0])
    threads.append(threading.Thread(target=handle, args=(pairs[3][0], "")))
    threads[-1].start()
    assert here.acquire(timeout=10)
    handle(pairs[4][0], "")
    assert door.counters["refused"] == 2
    go.set()
    for thread in threads:
        thread.join(10)
    for pair in pairs:
        assert pair[0].fileno() == -1
        pair[1].close()
    handle(socket.socketpair()[0], "")
    assert door.counters == {"connections": 4, "refused": 2}


def test_what_a_connection_raises_ends_there_with_one_line_a_second(caplog: pytest.LogCaptureFixture) -> None:
    door = SwitchDoor()

    def serve(connection: Any, address: object) -> None:
        raise ValueError("\x1b[31mnot OpenFlow")

    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            one, other = socket.socketpair()
            door.guarded(serve)(one, "")
            assert other.recv(1) == b""
            other.close()
    assert door.counters["failed"] == 3
    assert len(caplog.messages) == 1 and "ValueError: '\\x1b[31mnot OpenFlow'" in caplog.messages[0]


class _Datapath:
    """A connection as the library has it."""

    def __init__(self, line: object = None, address: object = ("127.0.0.1", 4711)) -> None:
        self.socket, self.address, self.id, self.closed = line or object(), address, 7, False

    def close(self) -> None:
        self.closed = True


def test_a_message_that_cannot_be_parsed_is_one_line_a_second_and_ends_a_strangers_connection(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def parse(datapath: Any, version: int, kind: int, *rest: Any) -> str:
        if kind != 10:
            raise TypeError("\x1b[31mno such type")
        return "a message"

    door, parser = SwitchDoor(), SimpleNamespace(_MSG_PARSERS={4: parse})
    install(door, library(lambda *_: None), parser)
    read, strangers = parser._MSG_PARSERS[4], [_Datapath() for _ in range(540)]
    assert read(strangers[0], 4, 10, 8, 1, b"") == "a message" and not door.counters
    with caplog.at_level(logging.WARNING):
        assert [read(stranger, 4, 31, 8, 1, b"") for stranger in strangers] == [None] * 540
    assert door.counters == {"malformed": 540} and all(stranger.closed for stranger in strangers)
    reason = "a message of type 31 is malformed: TypeError: '\\x1b[31mno such type'; the connection ends"
    assert caplog.messages[0] == f"OpenFlow from 127.0.0.1:4711: {reason}; 0 others before"
    assert len(caplog.messages) <= 3 and not any(record.exc_info for record in caplog.records)


def test_a_switchs_malformed_message_is_left_out_and_its_connection_stays(caplog: pytest.LogCaptureFixture) -> None:
    door, known = SwitchDoor(), list[_Datapath]()

    def serve(line: Any, address: object) -> None:
        door.identified(line)
        known.append(_Datapath(line, ("::1", 4712, 0, 0)))
        door.refuse(known[0], "a frame without the port that it came in by")

    with caplog.at_level(logging.WARNING):
        door.guarded(serve)(socket.socketpair()[0], "")
    assert not known[0].closed
    assert caplog.messages == [
        "OpenFlow from [::1]:4712: a frame without the port that it came in by; it is left out; 0 others before"
    ]


def test_a_defect_is_logged_with_its_place_once_a_second_and_beside_what_peers_send(
    caplog: pytest.LogCaptureFixture,
) -> None:
    door, switch = SwitchDoor(), _Datapath()
    with caplog.at_level(logging.WARNING):
        door.log("a leaf", "anything")
        for _ in range(20):
            try:
                raise KeyError("of ours")
            except KeyError:
                door.defect(switch, b"\x04\x0a")
    assert door.counters["defects"] == 20 and switch.closed
    assert caplog.messages[1] == "a defect of the controller ends the connection of switch 7: 040a; 0 others before"
    assert caplog.records[1].exc_info and len(caplog.records) <= 4


def test_the_server_goes_on_when_it_could_not_accept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("controllers.switches._AGAIN_S", 0)
    controller, door = library(lambda *_: None), SwitchDoor()
    install(door, controller, PARSER)
    server = controller.StreamServer()
    server.accepted = [OSError(24, "Too many open files"), RuntimeError("can't start new thread")]
    server.serve_forever()
    assert door.counters["not_accepted"] == 2 and not server.accepted
