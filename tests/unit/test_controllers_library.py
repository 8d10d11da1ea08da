"""What the libraries need to take switches from a Unix socket."""

from __future__ import annotations

import socket
from types import SimpleNamespace
from typing import Any

import pytest

from controllers.library import let_switches_come_by_unix_socket


def test_a_unix_socket_is_given_none_of_tcps_options_and_else_is_what_it_is() -> None:
    served: list[tuple[Any, object]] = []
    controller = SimpleNamespace(datapath_connection_factory=lambda *arguments: served.append(arguments))
    let_switches_come_by_unix_socket(controller)
    one, other = socket.socketpair(socket.AF_UNIX)
    with one, other:
        with pytest.raises(OSError, match="not supported"):
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        controller.datapath_connection_factory(one, "")
        ((connection, address),) = served
        assert address == "a leaf"
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 9999)
        assert one.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) == 2 * 9999
        connection.sendall(b"hello")
        assert other.recv(5) == b"hello"
        connection.close()
        assert one.fileno() == -1
