"""Connections between the machines of one network: who may have one, and messages in it.

Both ends know a key that travelled with the job. Each proves it by an HMAC over numbers that both have drawn, so what
was heard on the way cannot be used again. Each message has a MAC with its number, so what comes is what was sent, in
its order. Nothing is encrypted.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import socket
import struct
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from testbed.errors import XoffError

_MAGIC = b"xoff parts 1\n"
_HELLO = struct.Struct(f"={len(_MAGIC)}sHH32s32s")
"""The magic, the numbers of the sender and of the one it wants, what both must have alike, and a random number."""
_PROOF = 32
_HEAD = struct.Struct("=I16s")
_MAC = 16
LARGEST = 64 << 20
"""The most octets of a message, more than all rings and boxes of sixteen parts hold between two machines."""
_SAYS_WITHIN_S = 5.0
_MOST_STRANGERS = 32
"""The connections at a time that may not have proved the key yet."""


class LinkError(XoffError):
    """A connection that cannot be used, or was lost; the message is the reason."""

    exit_code = 3


@dataclass(frozen=True)
class Membership:
    """The identity of a machine, which it proves to the others of its network."""

    key: bytes
    number: int
    alike: bytes
    """A digest of what all must have alike: Xoff, the lab, the number of parts; 32 octets."""


@dataclass
class Channel:
    """A connection to another machine that has proved the key."""

    number: int
    """The number of the other machine."""
    socket: socket.socket
    _send_key: bytes
    _receive_key: bytes
    _sent: int = 0
    _received: int = 0
    _backlog: bytearray = field(default_factory=bytearray)
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _flusher: threading.Thread | None = None

    def send(self, body: bytes) -> None:
        """Send a message without waiting for the other end: what it does not take at once follows."""
        mac = _mac(self._send_key, self._sent, body)
        self._sent += 1
        data = _HEAD.pack(len(body), mac) + body
        with self._changed:
            done = 0
            if not self._backlog:
                with suppress(BlockingIOError):
                    done = self.socket.send(data, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
            if done < len(data):
                self._backlog += data[done:]
                if self._flusher is None:
                    self._flusher = threading.Thread(target=self._flush, daemon=True)
                    self._flusher.start()
                self._changed.notify()

    def _flush(self) -> None:
        while True:
            with self._changed:
                while not self._backlog:
                    self._changed.wait()
                piece = bytes(self._backlog[: 1 << 20])
            try:
                done = self.socket.send(piece, socket.MSG_NOSIGNAL)
            except OSError:
                return  # whoever receives finds the same, and says so
            with self._changed:
                del self._backlog[:done]

    def receive(self) -> bytes:
        """Return the next message; LinkError if there is none any more, or it is none of the other end's."""
        length, mac = _HEAD.unpack(self._exactly(_HEAD.size))
        if length > LARGEST:
            raise LinkError(f"a message of {length} octets came, and {LARGEST} is the most")
        body = self._exactly(length)
        if not hmac.compare_digest(mac, _mac(self._receive_key, self._received, body)):
            raise LinkError("a message came that was changed on its way")
        self._received += 1
        return body

    def _exactly(self, length: int) -> bytes:
        return exactly(self.socket, length)

    def close(self) -> None:
        with suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()


def exactly(source: socket.socket, length: int) -> bytes:
    """Return so many octets, however they come; LinkError if the other end closes before."""
    data = bytearray(length)
    view, done = memoryview(data), 0
    while done < length:
        try:
            got = source.recv_into(view[done:])
        except TimeoutError:
            raise LinkError("the other end was silent") from None
        except OSError as error:
            raise LinkError(f"the connection was lost ({error.strerror})") from None
        if not got:
            raise LinkError("the other end has closed the connection")
        done += got
    return bytes(data)


def _mac(key: bytes, number: int, body: bytes) -> bytes:
    return hashlib.blake2b(number.to_bytes(8, "little") + body, digest_size=_MAC, key=key).digest()


def call(us: Membership, other: int, address: tuple[str, int], within_s: float = 10.0) -> Channel:
    """Connect to another machine of the network, and have both prove the key."""
    try:
        with _closed_if_it_fails(socket.create_connection(address, within_s)) as connection:
            connection.settimeout(within_s)
            ours = _hello(us, other)
            connection.sendall(ours)
            theirs = exactly(connection, _HELLO.size)
            _require_hello(theirs, other, us.number)
            talk = ours + theirs
            if not hmac.compare_digest(exactly(connection, _PROOF), _proof(us.key, b"answers", talk)):
                raise LinkError("the other end does not know the key of this run")
            connection.sendall(_proof(us.key, b"calls", talk))
            _require_alike(us, theirs)
            return _channel(us.key, other, connection, talk, calls=True)
    except OSError as error:
        raise LinkError(f"{address[0]} port {address[1]} cannot be reached: {error.strerror or error}") from None


class Listener:
    """A port for the machines of a network that call this one."""

    def __init__(self, host: str, us: Membership, report: Callable[[str], None]) -> None:
        self._us, self._report = us, report
        try:
            self._server = socket.create_server((host, 0), backlog=_MOST_STRANGERS)
        except OSError as error:
            raise LinkError(f"no port can be opened on {host}: {error.strerror or error}") from None
        self.address: tuple[str, int] = (host, self._server.getsockname()[1])

    def await_(self, expected: Collection[int], within_s: float) -> Mapping[int, Channel]:
        """Return the connections of all machines that are expected. Whoever else calls is refused, and named."""
        found: dict[int, Channel] = {}
        failure: list[LinkError] = []
        changed = threading.Condition()
        strangers = threading.BoundedSemaphore(_MOST_STRANGERS)

        def answer(connection: socket.socket, who: str) -> None:
            try:
                channel = self._answered(connection, {*expected} - {*found})
                with changed:
                    found[channel.number] = channel
                    changed.notify()
            except _OtherVersionError as error:
                with changed:
                    failure.append(error)
                    changed.notify()
            except LinkError as error:
                self._report(f"a connection from {who} was refused: {error}")
            finally:
                strangers.release()

        def accept() -> None:
            while True:
                try:
                    connection, address = self._server.accept()
                except OSError:
                    return
                if not strangers.acquire(blocking=False):
                    connection.close()
                    continue
                threading.Thread(target=answer, args=(connection, f"{address[0]}:{address[1]}"), daemon=True).start()

        end_s = time.monotonic() + within_s
        threading.Thread(target=accept, daemon=True).start()
        with changed:
            while len(found) < len(set(expected)) and not failure:
                if not changed.wait(max(0.0, end_s - time.monotonic())) and time.monotonic() >= end_s:
                    missing = ", ".join(str(one) for one in sorted({*expected} - {*found}))
                    raise LinkError(f"machine {missing} of the run has not called within {within_s:g} s")
        if failure:
            raise failure[0]
        return found

    def _answered(self, connection: socket.socket, expected: Collection[int]) -> Channel:
        us = self._us
        with _closed_if_it_fails(connection):
            connection.settimeout(_SAYS_WITHIN_S)
            theirs = exactly(connection, _HELLO.size)
            other = _require_hello(theirs, None, us.number)
            ours = _hello(us, other)
            talk = theirs + ours
            try:
                connection.sendall(ours + _proof(us.key, b"answers", talk))
            except OSError as error:
                raise LinkError(f"the connection was lost ({error.strerror})") from None
            if not hmac.compare_digest(exactly(connection, _PROOF), _proof(us.key, b"calls", talk)):
                raise LinkError("it does not know the key of this run")
            _require_alike(us, theirs)
            if other not in expected:
                raise LinkError(f"it is machine {other} of the run, which is not expected, or here already")
            return _channel(us.key, other, connection, talk, calls=False)

    def close(self) -> None:
        with suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()


class _OtherVersionError(LinkError):
    """Raised if a machine that knows the key has something else than this one."""


@contextmanager
def _closed_if_it_fails(connection: socket.socket) -> Iterator[socket.socket]:
    try:
        yield connection
    except BaseException:
        connection.close()
        raise


def _hello(us: Membership, other: int) -> bytes:
    return _HELLO.pack(_MAGIC, us.number, other, us.alike, secrets.token_bytes(32))


def _require_hello(data: bytes, sender: int | None, wanted: int) -> int:
    magic, number, for_whom, _, _ = _HELLO.unpack(data)
    if magic != _MAGIC:
        raise LinkError("what it says is not of a part of a network, or of another version of Xoff")
    if for_whom != wanted or sender not in (None, number):
        raise LinkError("it wants another machine of a run")
    return int(number)


def _require_alike(us: Membership, theirs: bytes) -> None:
    number, alike = _HELLO.unpack(theirs)[1], _HELLO.unpack(theirs)[3]
    if alike != us.alike:
        raise _OtherVersionError(
            f"machine {number} of the run has another Xoff or another lab than machine {us.number}; all must have the "
            "same"
        )


def _proof(key: bytes, role: bytes, talk: bytes) -> bytes:
    return hmac.digest(key, role + b"\0" + talk, "sha256")


def _channel(key: bytes, other: int, connection: socket.socket, talk: bytes, *, calls: bool) -> Channel:
    connection.settimeout(None)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    caller, answerer = (_proof(key, role + b" sends", talk) for role in (b"calls", b"answers"))
    return Channel(other, connection, *((caller, answerer) if calls else (answerer, caller)))
