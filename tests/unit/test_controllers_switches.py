"""The door for OpenFlow switches: its limits, and what the libraries need to take switches from a Unix socket."""

from __future__ import annotations

import logging
import socket
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from controllers.switches import SwitchDoor, install


class _Server:
    """Stands for the library's server; its `accepted` are raised or end it."""

    accepted: list[Exception]

    def serve_forever(self) -> None:
        if self.accepted:
            raise self.accepted.pop(0)


def library(serve: Any) -> Any:
    return SimpleNamespace(datapath_connection_factory=serve, StreamServer=_Server)


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
        install(door, controller)
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


def test_the_server_goes_on_when_it_could_not_accept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("controllers.switches._AGAIN_S", 0)
    controller, door = library(lambda *_: None), SwitchDoor()
    install(door, controller)
    server = controller.StreamServer()
    server.accepted = [OSError(24, "Too many open files"), RuntimeError("can't start new thread")]
    server.serve_forever()
    assert door.counters["not_accepted"] == 2 and not server.accepted
