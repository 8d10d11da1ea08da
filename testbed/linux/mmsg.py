"""Many datagrams in one system call, sendmmsg and recvmmsg, for traffic at little CPU cost.

Python's library sends and receives one at a time. In the lab, where an instruction takes time, that is most of what a
datagram costs.
"""

from __future__ import annotations

import ctypes
import errno
import os
import socket
import struct
from array import array
from collections.abc import Iterable, Sequence
from itertools import repeat
from operator import add, mul

SO_TIMESTAMPNS = 35
_DONTWAIT = 0x40
_HEAD_OCTETS = 64
_CONTROL_OCTETS = 64
_MOST = 1024
"""Messages that the kernel takes in one call."""
_WORD = 8
"""Octets of what is written to and read from all datagrams of a batch together."""
_SECONDS, _NANOSECONDS = 2, 3
"""Words of the first control message that have the time stamp."""
_DS_FIELD = 48
"""Where the second control message has its octet: IP_TOS comes after the time stamp."""

_INET = struct.Struct("=H2s4s8x")
"""An address of IPv4: family, port in network order, address."""

_libc = ctypes.CDLL(None, use_errno=True)


class _Vector(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


class _Message(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_void_p),
        ("name_length", ctypes.c_uint32),
        ("vectors", ctypes.c_void_p),
        ("vector_count", ctypes.c_size_t),
        ("control", ctypes.c_void_p),
        ("control_length", ctypes.c_size_t),
        ("flags", ctypes.c_int),
        ("padding", ctypes.c_uint),
        ("length", ctypes.c_uint),  # of struct mmsghdr, which holds the rest
    )


_MESSAGE_WORDS = ctypes.sizeof(_Message) // 4
_LENGTH = _Message.length.offset // 4


class Sender:
    """Sends up to `most` datagrams of `size` octets on a connected socket."""

    def __init__(self, udp: socket.socket, size: int, most: int) -> None:
        self.most = most
        self._stride = -(-size // _WORD)
        self._words = memoryview(bytearray(self._stride * _WORD * most)).cast("Q")
        self._file = udp.fileno()
        base = ctypes.addressof(ctypes.c_char.from_buffer(self._words))
        places = range(base, base + self._words.nbytes, self._stride * _WORD)
        self._vectors = (_Vector * most)(*[_Vector(place, size) for place in places])
        self._messages = _messages(self._vectors)

    def write(self, word: int, values: Iterable[int], many: int) -> None:
        """Put a value into this word of each of the first `many`: word 0 is their octets 0 to 7."""
        self._words[word : many * self._stride : self._stride] = array("Q", values)

    def send(self, many: int) -> int:
        """Send the first `many`; how many went before the socket's time was up, 0 if none."""
        done: int = _libc.sendmmsg(self._file, self._messages, many, 0)
        return _count(done, (errno.EAGAIN, errno.ENOBUFS, errno.ECONNREFUSED, errno.EINTR))


def send_all(to: socket.socket, datagrams: Sequence[bytes]) -> None:
    """Send them all, of whatever sizes, on a blocking, connected socket."""
    for start in range(0, len(datagrams), _MOST):
        batch = datagrams[start : start + _MOST]
        octets = bytearray(b"".join(batch))
        base = ctypes.addressof(ctypes.c_char.from_buffer(octets)) if octets else 0
        vectors = (_Vector * len(batch))()
        for vector, datagram in zip(vectors, batch, strict=True):
            vector.base, vector.length = base, len(datagram)
            base += len(datagram)
        messages, sent = _messages(vectors), 0
        while sent < len(batch):
            rest = ctypes.byref(messages, sent * ctypes.sizeof(_Message))
            sent += _count(_libc.sendmmsg(to.fileno(), rest, len(batch) - sent, 0), (errno.EINTR,))


class Burst:
    """Sends datagrams of one size, up to `most` at a time, on a socket that is not connected, to one address."""

    def __init__(self, udp: socket.socket, address: str, port: int, size: int, most: int) -> None:
        self.size = size
        self._octets = bytearray(size * most)
        self._file = udp.fileno()
        self._name = ctypes.create_string_buffer(
            _INET.pack(socket.AF_INET, port.to_bytes(2, "big"), socket.inet_aton(address))
        )
        base = ctypes.addressof(ctypes.c_char.from_buffer(self._octets))
        self._vectors = (_Vector * most)(*[_Vector(base + size * place, size) for place in range(most)])
        self._messages = _messages(self._vectors)
        for message in self._messages:
            message.name, message.name_length = ctypes.addressof(self._name), _INET.size

    def send(self, octets: bytes) -> int:
        """Send datagrams that lie one after the other; how many of them the socket took without waiting."""
        self._octets[: len(octets)] = octets
        done: int = _libc.sendmmsg(self._file, self._messages, len(octets) // self.size, _DONTWAIT)
        return _count(done, (errno.EAGAIN, errno.ENOBUFS, errno.ECONNREFUSED, errno.EINTR))


class Receiver:
    """Receives up to `most` datagrams, the first 64 octets of each or more, with the kernel's time stamp."""

    def __init__(
        self, udp: socket.socket, most: int, octets: int = _HEAD_OCTETS, control: int = _CONTROL_OCTETS
    ) -> None:
        self._most = most
        self._control = control
        self._stride = -(-octets // _WORD) * _WORD
        self._file = udp.fileno()
        self._buffer = bytearray(self._stride * most)
        self._heads = memoryview(self._buffer).cast("Q")
        self._octets = bytearray(control * most)
        self._controls = memoryview(self._octets).cast("q")
        heads = ctypes.addressof(ctypes.c_char.from_buffer(self._heads))
        controls = ctypes.addressof(ctypes.c_char.from_buffer(self._controls))
        vectors = [_Vector(heads + place * self._stride, self._stride) for place in range(most)]
        self._vectors = (_Vector * most)(*vectors)
        self._messages = _messages(self._vectors)
        for place, message in enumerate(self._messages):
            message.control = controls + place * control
            message.control_length = control
        self._fresh = bytes(self._messages)  # a call writes lengths into its messages
        self._counted = memoryview(self._messages).cast("B").cast("I")

    def receive(self) -> int:
        """How many came; 0 if none waits."""
        ctypes.memmove(self._messages, self._fresh, len(self._fresh))
        done: int = _libc.recvmmsg(self._file, self._messages, self._most, _DONTWAIT, None)
        return _count(done, (errno.EAGAIN, errno.EINTR))

    def words(self, word: int, many: int) -> list[int]:
        """This word of each, word 0 being their octets 0 to 7, out of those that are received."""
        return self._heads[word : many * self._stride // _WORD : self._stride // _WORD].tolist()

    def datagrams(self, many: int) -> list[bytes]:
        """The octets of each that were received."""
        stride, octets = self._stride, bytes(self._buffer[: many * self._stride])
        starts = range(0, many * stride, stride)
        return [octets[start : start + length] for start, length in zip(starts, self._lengths(many), strict=True)]

    def _lengths(self, many: int) -> list[int]:
        return self._counted[_LENGTH : many * _MESSAGE_WORDS : _MESSAGE_WORDS].tolist()

    def arrivals(self, many: int) -> list[int]:
        """When each came, in nanoseconds of the time of day."""
        end, step = many * self._control // _WORD, self._control // _WORD
        seconds, nanoseconds = (self._controls[word:end:step].tolist() for word in (_SECONDS, _NANOSECONDS))
        return list(map(add, nanoseconds, map(mul, seconds, repeat(10**9))))

    def ds_fields(self, many: int) -> bytes:
        """The DS field of each, where the socket asked for it."""
        return bytes(self._octets[_DS_FIELD : many * self._control : self._control])

    def control(self, place: int) -> bytes:
        """The control messages that came with one of them."""
        return bytes(self._octets[place * self._control : (place + 1) * self._control])


def _messages(vectors: ctypes.Array[_Vector]) -> ctypes.Array[_Message]:
    messages = (_Message * len(vectors))()
    for place, message in enumerate(messages):
        message.vectors = ctypes.addressof(vectors) + place * ctypes.sizeof(_Vector)
        message.vector_count = 1
    return messages


def _count(done: int, nothing: tuple[int, ...]) -> int:
    if done >= 0:
        return done
    code = ctypes.get_errno()
    if code in nothing:
        return 0
    raise OSError(code, os.strerror(code))
