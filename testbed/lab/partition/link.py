"""Connections between the machines of one network: who may have one, and messages in it.

Both ends know a key that travelled with the job. Each proves it by an HMAC over numbers that both have drawn, so what
was heard on the way cannot be used again. Each message has a MAC with its number, so what comes is what was sent, in
its order. Nothing is encrypted.

A port that waits for machines is open to everybody. The first octets of a caller have a MAC, too: who has said them
keeps its place until it has proved the key or its time is over, and all others share some places, of which the newest
have them. So strangers, however many and slow, take no place from a machine of the run.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import select
import socket
import struct
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from testbed.errors import XoffError

_MAGIC = b"xoff parts 2\n"
_HELLO = struct.Struct(f"={len(_MAGIC)}sHH32s32s32s")
"""The magic, the numbers of the sender and of the one it wants, what both must have alike, a random number, and the MAC
of all that."""
_PROOF = 32
_HEAD = struct.Struct("=I16s")
_MAC = 16
LARGEST = 64 << 20
"""The most octets of a message, more than all rings and boxes of sixteen parts hold between two machines."""
_PROVES_WITHIN_S = 5.0
"""The seconds that a caller has in all to prove the key."""
_MOST_STRANGERS = 32
"""The connections at a time that have not said a hello with the key's MAC yet."""
_BACKLOG = 1024
_MOST_LINES = 20
"""The refused connections that are named; those after them are counted."""
_TRIES_AGAIN_S = 0.05


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


def exactly(source: socket.socket, length: int, end_s: float | None = None) -> bytes:
    """Return so many octets, however they come; LinkError if the other end closes before, or at a moment of
    `time.monotonic` they are not there.
    """
    data = bytearray(length)
    view, done = memoryview(data), 0
    while done < length:
        try:
            if end_s is not None:
                source.settimeout(max(0.001, end_s - time.monotonic()))
            got = source.recv_into(view[done:])
        except TimeoutError:
            raise LinkError("the other end was silent") from None
        except OSError as error:
            raise _lost(error) from None
        if not got:
            raise LinkError("the other end has closed the connection")
        done += got
    return bytes(data)


def _lost(error: OSError) -> LinkError:
    return LinkError(f"the connection was lost ({error.strerror})")


def _mac(key: bytes, number: int, body: bytes) -> bytes:
    return hashlib.blake2b(number.to_bytes(8, "little") + body, digest_size=_MAC, key=key).digest()


def call(us: Membership, other: int, address: tuple[str, int], within_s: float = 10.0) -> Channel:
    """Connect to another machine of the network, and have both prove the key.

    The other end may close a connection unheard, to make room for a newer one; it is called again then.
    """
    end_s = time.monotonic() + within_s
    while True:
        try:
            with _closed_if_it_fails(socket.create_connection(address, within_s)) as connection:
                return _called(us, other, connection, end_s)
        except _UnheardError:
            if time.monotonic() + _TRIES_AGAIN_S > end_s:
                raise
            time.sleep(_TRIES_AGAIN_S)
        except OSError as error:
            raise LinkError(f"{address[0]} port {address[1]} cannot be reached: {error.strerror or error}") from None


def _called(us: Membership, other: int, connection: socket.socket, end_s: float) -> Channel:
    ours = _hello(us, other)
    try:
        connection.sendall(ours)
        answer = exactly(connection, _HELLO.size + _PROOF, end_s)
    except (LinkError, ConnectionError) as error:
        raise _UnheardError(str(_lost(error) if isinstance(error, OSError) else error)) from None
    theirs, proof = answer[: _HELLO.size], answer[_HELLO.size :]
    _require_hello(theirs, other, us.number)
    talk = ours + theirs
    if not hmac.compare_digest(proof, _proof(us.key, b"answers", talk)):
        raise LinkError("the other end does not know the key of this run")
    connection.sendall(_proof(us.key, b"calls", talk))
    _require_alike(us, theirs)
    return _channel(us.key, other, connection, talk, calls=True)


class Listener:
    """A port for the machines of a network that call this one."""

    def __init__(self, host: str, us: Membership, report: Callable[[str], None]) -> None:
        self._us, self._report = us, report
        self._callers: list[_Caller] = []
        self._heard: set[bytes] = set()
        """The hellos that had the key's MAC: none of them is good for a second connection."""
        self._refused = 0
        try:
            self._server = socket.create_server((host, 0), backlog=_BACKLOG)
        except OSError as error:
            raise LinkError(f"no port can be opened on {host}: {error.strerror or error}") from None
        self._server.setblocking(False)
        self.address: tuple[str, int] = (host, self._server.getsockname()[1])

    def await_(self, expected: Collection[int], within_s: float) -> Mapping[int, Channel]:
        """Return the connections of all machines that are expected. Whoever else calls is refused, and named."""
        channels: dict[int, Channel] = {}
        end_s = time.monotonic() + within_s
        try:
            while missing := sorted({*expected} - {*channels}):
                now_s = time.monotonic()
                if now_s >= end_s:
                    named = ", ".join(map(str, missing))
                    raise LinkError(f"machine {named} of the run has not called within {within_s:g} s")
                is_ready = self._readable(min([end_s, *(caller.end_s for caller in self._callers)]) - now_s)
                for caller in self._callers[:]:  # before a new one, which could take the place of one that has spoken
                    if (channel := self._heard_of(caller, missing, caller.connection in is_ready)) is not None:
                        channels[channel.number] = channel
                        missing.remove(channel.number)
                if self._server in is_ready:
                    self._accept()
        except LinkError:
            for channel in channels.values():
                channel.close()
            raise
        finally:
            for caller in self._callers[:]:
                self._refuse(caller, "it had not proved the key when the wait was over")
            if self._refused > _MOST_LINES:
                self._report(f"{self._refused - _MOST_LINES} more connections were refused")
        return channels

    def _readable(self, within_s: float) -> set[socket.socket]:
        sockets = {one.fileno(): one for one in (self._server, *(caller.connection for caller in self._callers))}
        poll = select.poll()
        for descriptor in sockets:
            poll.register(descriptor, select.POLLIN)
        return {sockets[descriptor] for descriptor, _ in poll.poll(max(0.0, within_s) * 1000)}

    def _heard_of(self, caller: _Caller, missing: Collection[int], is_ready: bool) -> Channel | None:
        """Return the channel of a caller that proves the key; one that cannot, or not in time, is refused."""
        try:
            if is_ready:
                if caller.hear(self._us, self._heard, missing):
                    self._callers.remove(caller)
                    return caller.channel(self._us)
                return None
            if caller.end_s <= time.monotonic():
                raise LinkError(f"it has not proved the key within {_PROVES_WITHIN_S:g} s")
        except _OtherVersionError:
            self._callers.remove(caller)
            caller.connection.close()
            raise
        except LinkError as error:
            self._refuse(caller, str(error))
        return None

    def _accept(self) -> None:
        """Take the next connection. If there is no room for it, that of the stranger who came first goes."""
        strangers = [caller for caller in self._callers if not caller.knows_key]
        is_full = len(strangers) >= _MOST_STRANGERS
        try:
            connection, address = self._server.accept()
        except (BlockingIOError, ConnectionError):
            return  # it has gone again
        except OSError as error:  # this process may have no more descriptors
            if not strangers:
                raise LinkError(f"no connection can be taken: {error.strerror}") from None
            is_full = True
        else:
            who = f"{address[0]}:{address[1]}"
            self._callers.append(_Caller(connection, who, time.monotonic() + _PROVES_WITHIN_S))
        if is_full and strangers:
            self._refuse(
                strangers[0], f"{_MOST_STRANGERS} others called, and it had said nothing with the key of this run"
            )

    def _refuse(self, caller: _Caller, why: str) -> None:
        """Name a connection, then close it: who sees that it is closed may rely on its being named."""
        self._refused += 1
        if self._refused <= _MOST_LINES:
            self._report(f"a connection from {caller.who} was refused: {why}")
        self._callers.remove(caller)
        caller.connection.close()

    def close(self) -> None:
        self._server.close()


class _Caller:
    """A connection to a `Listener` that has not proved the key yet."""

    def __init__(self, connection: socket.socket, who: str, end_s: float) -> None:
        connection.setblocking(False)
        self.connection, self.who, self.end_s = connection, who, end_s
        self._came = bytearray()
        self._talk = b""
        self._number = 0

    @property
    def knows_key(self) -> bool:
        """True if its hello had the key's MAC, so a machine of the run has made it."""
        return bool(self._talk)

    def hear(self, us: Membership, heard: set[bytes], expected: Collection[int]) -> bool:
        """Take what has come; return True if the caller has proved the key now. LinkError if it is not expected."""
        wanted = (_PROOF if self._talk else _HELLO.size) - len(self._came)
        try:
            came = self.connection.recv(wanted)
            self._came += came
            if not came:
                raise LinkError("the other end has closed the connection")
            if len(came) == wanted:
                said = bytes(self._came)
                self._came.clear()
                if self._talk:
                    return self._has_proved(us, said, expected)
                self._answer(us, said, heard)
        except BlockingIOError:
            pass
        except OSError as error:
            raise _lost(error) from None
        return False

    def _answer(self, us: Membership, hello: bytes, heard: set[bytes]) -> None:
        self._number = _require_hello(hello, None, us.number)
        ours = _hello(us, self._number)
        talk = hello + ours
        self.connection.send(ours + _proof(us.key, b"answers", talk))  # what was sent first has room
        if not _has_mac(us.key, hello):
            raise LinkError("it does not know the key of this run")
        if hello in heard:
            raise LinkError("it repeats what a machine of this run has said")
        heard.add(hello)
        self._talk = talk

    def _has_proved(self, us: Membership, proof: bytes, expected: Collection[int]) -> bool:
        if not hmac.compare_digest(proof, _proof(us.key, b"calls", self._talk)):
            raise LinkError("it does not know the key of this run")
        _require_alike(us, self._talk[: _HELLO.size])
        if self._number not in expected:
            raise LinkError(f"it is machine {self._number} of the run, which is not expected, or here already")
        return True

    def channel(self, us: Membership) -> Channel:
        """Return the connection of a caller that has proved the key."""
        return _channel(us.key, self._number, self.connection, self._talk, calls=False)


class _UnheardError(LinkError):
    """Raised if the other end has closed a connection without an answer."""


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
    unsigned = _HELLO.pack(_MAGIC, us.number, other, us.alike, secrets.token_bytes(32), b"")[:-_PROOF]
    return unsigned + _proof(us.key, b"hello", unsigned)


def _has_mac(key: bytes, hello: bytes) -> bool:
    return hmac.compare_digest(hello[-_PROOF:], _proof(key, b"hello", hello[:-_PROOF]))


def _require_hello(data: bytes, sender: int | None, wanted: int) -> int:
    magic, number, for_whom, *_ = _HELLO.unpack(data)
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
