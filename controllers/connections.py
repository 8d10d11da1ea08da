"""Connections with peers of the controller, and the selector that waits for them."""

from __future__ import annotations

import selectors
import socket
from dataclasses import dataclass

from controllers.lines import PlainLine

MOST_UNSENT = 16 << 20
"""The number of unsent octets at which a peer that does not read is disconnected."""
SHOWN = 300
"""The number of octets in the log, of a message that triggered a defect."""


@dataclass(eq=False)
class Peer:
    """A connection."""

    line: PlainLine
    heard_ns: int  # when octets were received, or at first when it connected
    last: bytes = b""  # the octets received last
    events: int = selectors.EVENT_READ  # that it waits for


class Poller:
    """Waits for peers and listening sockets. It has no largest descriptor: epoll, or what Ryu's green threads need."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()

    def add(self, peer: Peer) -> None:
        self._selector.register(peer.line.socket, selectors.EVENT_READ, peer)

    def add_socket(self, plain: socket.socket) -> None:
        self._selector.register(plain, selectors.EVENT_READ, plain)

    def watch(self, peer: Peer, has_unsent: bool) -> None:
        """Wait for the events that the peer needs now."""
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if has_unsent else 0)
        if events != peer.events:
            peer.events = events
            self._selector.modify(peer.line.socket, events, peer)

    def select(self, timeout_s: float | None) -> list[tuple[Peer | socket.socket, int]]:
        return [(key.data, events) for key, events in self._selector.select(timeout_s)]

    def close_peer(self, peer: Peer) -> None:
        self._selector.unregister(peer.line.socket)
        peer.line.close()

    def close(self) -> None:
        self._selector.close()


def receive(peer: Peer, now_ns: int) -> bytes | None:
    """Return the octets of a peer: empty at the end of the connection, None if there are none now."""
    data = peer.line.receive()
    if data:
        peer.heard_ns, peer.last = now_ns, data[:SHOWN]
    return data
