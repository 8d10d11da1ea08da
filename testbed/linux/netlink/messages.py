"""Netlink messages, built as bytes and sent in batches. They set up whole networks, and stop a queue.

pyroute2 is the general library, and where time does not matter it is the one to use. Here it does: a network of eight
hosts takes over a thousand messages, and through pyroute2 each costs 0.7 to 6 ms of the lab's time. This module encodes
the header and attributes of messages and reads the answers; `links`, `qdiscs` and their like make the bodies.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from testbed.errors import XoffError

_HEADER = struct.Struct("=IHHII")
_ERROR_FLAGS_CAPPED = 0x100
_NLMSG_ERROR, _NLMSG_DONE = 2, 3
_REQUEST, _ACK, _REPLACE, _EXCL, _CREATE, _DUMP = 0x1, 0x4, 0x100, 0x200, 0x400, 0x300
_SOL_NETLINK, _EXT_ACK, _CAP_ACK = 270, 11, 10
_ATTRIBUTE_TEXT = 1  # NLMSGERR_ATTR_MSG
_GONE = (errno.ENOENT, errno.ENODEV, errno.ESRCH, errno.EINVAL, errno.EADDRNOTAVAIL)
_BATCH = 64
"""The number of messages in a batch: all their answers have to fit into the socket's buffer."""


class NetlinkError(XoffError):
    """The kernel refused a request."""

    exit_code = 3

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True)
class Message:
    """One request: its type, its body with attributes, and its purpose, which the error names if it is refused."""

    kind: int
    body: bytes
    what: str
    create: bool = False
    replace: bool = False
    may_be_gone: bool = False  # removing what does not exist is not an error

    def encode(self, sequence: int) -> bytes:
        """Return the octets of the message, with this sequence number."""
        flags = _REQUEST | _ACK
        if self.create:
            flags |= _CREATE | (_REPLACE if self.replace else _EXCL)
        elif self.replace:
            flags |= _REPLACE
        return _HEADER.pack(_HEADER.size + len(self.body), self.kind, flags, sequence, 0) + self.body


def attribute(kind: int, value: bytes) -> bytes:
    """Return one attribute, padded to 4 octets."""
    length = 4 + len(value)
    return struct.pack("=HH", length, kind) + value + bytes(-length % 4)


def u8(kind: int, value: int) -> bytes:
    return attribute(kind, struct.pack("=B", value))


def u32(kind: int, value: int) -> bytes:
    return attribute(kind, struct.pack("=I", value))


def u64(kind: int, value: int) -> bytes:
    return attribute(kind, struct.pack("=Q", value))


def text(kind: int, value: str) -> bytes:
    return attribute(kind, value.encode() + b"\0")


class Socket:
    """A netlink socket, of routes by default, of the network namespace in which it is constructed."""

    def __init__(self, protocol: int = 0) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, protocol)
        self._socket.bind((0, 0))
        self._socket.setsockopt(_SOL_NETLINK, _EXT_ACK, 1)
        self._socket.setsockopt(_SOL_NETLINK, _CAP_ACK, 1)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        self._sequence = 0

    def fileno(self) -> int:
        return self._socket.fileno()

    def send(self, messages: Iterable[Message]) -> None:
        """Send messages, in order. All are tried; then the first refusal is raised, naming its request."""
        pending = list(messages)
        refused: NetlinkError | None = None
        for start in range(0, len(pending), _BATCH):
            later = self._send_batch(pending[start : start + _BATCH])
            refused = refused or later
        if refused:
            raise refused

    def _send_batch(self, messages: Sequence[Message]) -> NetlinkError | None:
        first = self._sequence + 1
        self._sequence += len(messages)
        self._socket.send(b"".join(message.encode(first + number) for number, message in enumerate(messages)))
        answered, refused = 0, None
        while answered < len(messages):
            data = self._socket.recv(1 << 16)
            position = 0
            while position < len(data):
                length, kind, flags, sequence, _ = _HEADER.unpack_from(data, position)
                if kind == _NLMSG_ERROR and first <= sequence < first + len(messages):
                    answered += 1
                    (code,) = struct.unpack_from("=i", data, position + 16)
                    message = messages[sequence - first]
                    gone = message.may_be_gone and -code in _GONE
                    if code and not gone and refused is None:
                        explained = _explanation(data[position : position + length], flags)
                        refused = NetlinkError(f"{message.what}: {os.strerror(-code)}{explained}", -code)
                position += -(-length // 4) * 4
        return refused

    def dump(self, kind: int, body: bytes) -> list[tuple[int, bytes]]:
        """Return all objects that a request lists: (message type, body)."""
        self._sequence += 1
        header = _HEADER.pack(_HEADER.size + len(body), kind, _REQUEST | _DUMP, self._sequence, 0)
        self._socket.send(header + body)
        found: list[tuple[int, bytes]] = []
        while True:
            data = self._socket.recv(1 << 17)
            position = 0
            while position < len(data):
                length, answer, _, _, _ = _HEADER.unpack_from(data, position)
                if answer == _NLMSG_DONE:
                    return found
                if answer == _NLMSG_ERROR:
                    (code,) = struct.unpack_from("=i", data, position + 16)
                    raise NetlinkError(f"listing: {os.strerror(-code)}", -code)
                found.append((answer, data[position + 16 : position + length]))
                position += -(-length // 4) * 4

    def ask(self, kind: int, body: bytes, what: str) -> bytes:
        """Send a request that is answered by one message, and return its body; NetlinkError if it is refused."""
        self._sequence += 1
        self._socket.send(_HEADER.pack(_HEADER.size + len(body), kind, _REQUEST, self._sequence, 0) + body)
        while True:
            data = self._socket.recv(1 << 17)
            length, answer, flags, sequence, _ = _HEADER.unpack_from(data)
            if sequence != self._sequence:
                continue
            if answer == _NLMSG_ERROR:
                (code,) = struct.unpack_from("=i", data, _HEADER.size)
                raise NetlinkError(f"{what}: {os.strerror(-code)}{_explanation(data[:length], flags)}", -code)
            return data[_HEADER.size : length]

    def close(self) -> None:
        self._socket.close()


def attributes(data: bytes, start: int = 0) -> dict[int, bytes]:
    """Return the attributes from position `start` on, by kind; the last one if several are of a kind."""
    found = {}
    while start + 4 <= len(data):
        length, kind = struct.unpack_from("=HH", data, start)
        if length < 4:
            break
        found[kind & 0x3FFF] = data[start + 4 : start + length]
        start += -(-length // 4) * 4
    return found


def _explanation(error: bytes, flags: int) -> str:
    """Return the kernel's extended error message in parentheses, or an empty string if there is none."""
    if not flags & _ERROR_FLAGS_CAPPED:
        return ""
    explained = attributes(error, 36).get(_ATTRIBUTE_TEXT, b"").rstrip(b"\0").decode(errors="replace")
    return f" ({explained})" if explained else ""
