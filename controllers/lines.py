"""Sockets that listen, and lines: connections that send and receive without waiting, in the clear or by TLS."""

from __future__ import annotations

import os
import socket
import ssl
from contextlib import suppress
from dataclasses import replace

from controllers.settings import Address
from testbed.errors import UsageError

AT_ONCE = 1 << 16
_BACKLOG = 1024
"""The number of connections that the kernel keeps until they are accepted. One more is tried again after a second."""


class PlainLine:
    """A connection in the clear."""

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        if connection.family != socket.AF_UNIX:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket = connection

    @property
    def unsent(self) -> int:
        """The number of octets that `send` took over and that the socket has not taken yet."""
        return 0

    def receive(self) -> bytes | None:
        """Return octets: empty if the connection is over, None if there are none now."""
        try:
            return self.socket.recv(AT_ONCE)
        except (BlockingIOError, InterruptedError):
            return None
        except OSError:
            return b""

    def send(self, data: bytes) -> int | None:
        """Return the number of octets taken, or None if the connection is over."""
        if not data:
            return 0
        try:
            return self.socket.send(data)
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError:
            return None

    def close(self) -> None:
        self.socket.close()


class TlsLine(PlainLine):
    """A connection by TLS, whose handshake happens while it is read and written."""

    def __init__(self, connection: socket.socket, context: ssl.SSLContext) -> None:
        super().__init__(connection)
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._in, self._out, server_side=True)
        self._is_open = False
        self._unsent = bytearray()

    @property
    def unsent(self) -> int:
        return len(self._unsent)

    def receive(self) -> bytes | None:
        octets = super().receive()
        if not octets:
            return octets
        self._in.write(octets)
        found = bytearray()
        try:
            if not self._is_open:
                self._tls.do_handshake()
                self._is_open = True
            while piece := self._tls.read(AT_ONCE):
                found += piece
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError:  # no TLS, or its end
            self._flush()
            return bytes(found)
        return None if self._flush() and not found else bytes(found)

    def send(self, data: bytes) -> int | None:
        if data:
            try:
                self._tls.write(data)
            except ssl.SSLError:
                return None
        return len(data) if self._flush() else None

    def _flush(self) -> bool:
        """Hand unsent octets to the socket; return False if the connection is over."""
        self._unsent += self._out.read()
        while self._unsent:
            sent = super().send(bytes(self._unsent[:AT_ONCE]))
            if sent is None:
                return False
            if not sent:
                break
            del self._unsent[:sent]
        return True


def listen(address: Address, what: str, option: str) -> socket.socket:
    """Return a socket that listens there, or the reason why not."""
    family = socket.AF_UNIX if address.path else socket.AF_INET6 if ":" in address.host else socket.AF_INET
    door = socket.socket(family, socket.SOCK_STREAM)
    try:
        if address.path:
            address.clear()
            old = os.umask(0o177)  # a socket for our user only
            try:
                door.bind(address.path)
            finally:
                os.umask(old)
        else:
            door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            door.bind((address.host, address.port))
        door.listen(_BACKLOG)
    except OSError as error:
        door.close()
        why = error.strerror or str(error)
        raise UsageError(f"cannot listen at {address} for {what}: {why}; choose another with {option}") from None
    door.setblocking(False)
    return door


def bound(address: Address, door: socket.socket) -> Address:
    """Return the address with the port that was free."""
    return address if address.path else replace(address, port=door.getsockname()[1])


def close_door(door: socket.socket) -> None:
    if door.family == socket.AF_UNIX:
        with suppress(OSError):
            os.unlink(door.getsockname())  # noqa: PTH108
    door.close()
