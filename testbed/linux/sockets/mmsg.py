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
from itertools import accumulate, repeat
from operator import add

SO_TIMESTAMPNS = 35
_DONTWAIT = 0x40
_HEAD_OCTETS = 64
_CONTROL_OCTETS = 64
_MOST = 1024
"""Messages that the kernel takes in one call."""
_WORD = 8
"""The octets in which fields of all datagrams of a batch are written and read at once."""
_SECONDS, _NANOSECONDS = 2, 3
"""The words of the first control message that have the time stamp."""
_DS_FIELD = 48
"""The position of the DS field's octet: the second control message, IP_TOS or IPV6_TCLASS, is behind the time stamp."""

_INET = struct.Struct("=H2s4s8x")
"""struct sockaddr_in: family, port in network order, IPv4 address."""
_INET6 = struct.Struct("=H2s4s16s4x")
"""struct sockaddr_in6: family, port and flow label in network order, IPv6 address."""

_libc = ctypes.CDLL(None, use_errno=True)


_VECTOR_WORDS = 2
"""struct iovec: address, length"""
_MESSAGE_WORDS = 8
"""struct mmsghdr, which has these words, and room that is not used:"""
_NAME, _NAME_LENGTH, _VECTORS, _VECTOR_COUNT, _CONTROL, _CONTROL_LENGTH, _LENGTH = 0, 1, 2, 3, 4, 5, 7


class _Messages:
    """An array of struct mmsghdr for sendmmsg and recvmmsg. All messages have the same number of parts.

    For each part the caller gives its addresses and its lengths, one of each for each message.
    """

    def __init__(self, *parts: tuple[array[int], array[int]]) -> None:
        many, step = len(parts[0][0]), _VECTOR_WORDS * len(parts)
        self._vectors = array("Q", bytes(_WORD * step * many))
        for number, part in enumerate(parts):
            for word, values in enumerate(part):
                self._vectors[number * _VECTOR_WORDS + word :: step] = values
        self.words = array("Q", bytes(_WORD * _MESSAGE_WORDS * many))
        self.set(_VECTORS, _places(self._vectors, _WORD * step, many))
        self.set(_VECTOR_COUNT, array("Q", [len(parts)]) * many)
        self._address = _address(self.words)

    def set(self, word: int, values: array[int]) -> None:
        """Set this word of each message to a value of its own."""
        self.words[word::_MESSAGE_WORDS] = values

    def of(self, place: int = 0) -> ctypes.c_void_p:
        """Return a pointer to the messages from this place on."""
        return ctypes.c_void_p(self._address + place * _MESSAGE_WORDS * _WORD)


def _address(octets: bytearray | array[int]) -> int:
    """Return the address of some octets, which must not change their length from now on."""
    return ctypes.addressof((ctypes.c_char * 0).from_buffer(octets))


def _places(octets: bytearray | array[int], size: int, many: int) -> array[int]:
    """Return the addresses of `many` parts of this size that lie one after the other."""
    first = _address(octets)
    return array("Q", range(first, first + size * many, size))


def _in_parts(sizes: Sequence[int], most: int) -> tuple[list[bytearray], _Messages]:
    """Return memory for datagrams, one buffer for each part of all of them, and the messages that point into it."""
    strings = [bytearray(size * most) for size in sizes]
    parts = [(_places(one, size, most), array("Q", [size]) * most) for one, size in zip(strings, sizes, strict=True)]
    return strings, _Messages(*parts)


class Sender:
    """Sends up to `most` datagrams of `size` octets on a connected socket."""

    def __init__(self, udp: socket.socket, size: int, most: int) -> None:
        self.most = most
        self._stride = -(-size // _WORD)
        self._file = udp.fileno()
        octets = bytearray(self._stride * _WORD * most)
        self._messages = _Messages((_places(octets, self._stride * _WORD, most), array("Q", [size]) * most))
        self._words = memoryview(octets).cast("Q")

    def write(self, word: int, values: Iterable[int], many: int) -> None:
        """Set this word of each of the first `many` datagrams to a value of its own; word 0 is octets 0 to 7."""
        self._words[word : many * self._stride : self._stride] = array("Q", values)

    def send(self, many: int) -> int:
        """Send the first `many` datagrams, and return how many were sent before the socket's timeout."""
        done: int = _libc.sendmmsg(self._file, self._messages.of(), many, 0)
        return _count(done, (errno.EAGAIN, errno.ENOBUFS, errno.ECONNREFUSED, errno.EINTR))


def send_all(to: socket.socket, datagrams: Sequence[bytes]) -> None:
    """Send datagrams of any sizes on a blocking, connected socket."""
    for start in range(0, len(datagrams), _MOST):
        batch = datagrams[start : start + _MOST]
        octets = bytearray(b"".join(batch))
        lengths = array("Q", map(len, batch))
        starts = accumulate(lengths[:-1], initial=_address(octets))
        messages, sent = _Messages((array("Q", starts), lengths)), 0
        while sent < len(batch):
            sent += _count(_libc.sendmmsg(to.fileno(), messages.of(sent), len(batch) - sent, 0), (errno.EINTR,))


def _name(address: str, port: int, flow_label: int) -> bytes:
    """Return the address of a socket as the kernel takes it."""
    if ":" not in address:
        return _INET.pack(socket.AF_INET, port.to_bytes(2, "big"), socket.inet_aton(address))
    octets = socket.inet_pton(socket.AF_INET6, address)
    return _INET6.pack(socket.AF_INET6, port.to_bytes(2, "big"), flow_label.to_bytes(4, "big"), octets)


class Burst:
    """Sends up to `most` datagrams at a time to one address, on a socket that is not connected.

    Each datagram consists of one part of each of the `sizes`.
    """

    def __init__(
        self, udp: socket.socket, address: str, port: int, sizes: Sequence[int], most: int, *, flow_label: int = 0
    ) -> None:
        self._parts, self._messages = _in_parts(sizes, most)
        self._file = udp.fileno()
        name = _name(address, port, flow_label)
        self._name = ctypes.create_string_buffer(name, len(name))
        self._messages.set(_NAME, array("Q", [ctypes.addressof(self._name)]) * most)
        self._messages.set(_NAME_LENGTH, array("Q", [len(name)]) * most)

    def send(self, many: int, *parts: bytes) -> int:
        """Send `many` datagrams, and return how many of them the socket accepted without waiting.

        The first argument of `parts` has the first parts of all datagrams, the second their second parts, and so on.
        """
        for place, octets in zip(self._parts, parts, strict=True):
            place[: len(octets)] = octets
        done: int = _libc.sendmmsg(self._file, self._messages.of(), many, _DONTWAIT)
        return _count(done, (errno.EAGAIN, errno.ENOBUFS, errno.ECONNREFUSED, errno.EINTR))


class Receiver:
    """Receives up to `most` datagrams at a time, with the kernel's time stamps.

    `sizes` are the sizes of the parts into which each datagram is divided; the first parts of all datagrams lie
    together in memory, and so on. Without `sizes`, the first 64 octets of each datagram are received.
    """

    def __init__(self, udp: socket.socket, most: int, *sizes: int, control: int = _CONTROL_OCTETS) -> None:
        self._most = most
        self._control = control
        # A single part is divided into words.
        self._sizes = sizes if len(sizes) > 1 else (-(-(sizes or (_HEAD_OCTETS,))[0] // _WORD) * _WORD,)
        self._file = udp.fileno()
        self._parts, self._messages = _in_parts(self._sizes, most)
        self._octets = bytearray(control * most)
        self._controls = memoryview(self._octets).cast("q")
        self._messages.set(_CONTROL, _places(self._octets, control, most))
        self._messages.set(_CONTROL_LENGTH, array("Q", [control]) * most)
        self._fresh = self._messages.words[:]  # a call writes lengths into its messages

    def receive(self) -> int:
        """Receive the datagrams that wait, and return how many there were."""
        self._messages.words[:] = self._fresh
        done: int = _libc.recvmmsg(self._file, self._messages.of(), self._most, _DONTWAIT, None)
        return _count(done, (errno.EAGAIN, errno.EINTR))

    def words(self, word: int, many: int) -> list[int]:
        """Return this word of the first `many` datagrams; word 0 is octets 0 to 7."""
        step = self._sizes[0] // _WORD
        return memoryview(self._parts[0]).cast("Q")[word : many * step : step].tolist()

    def datagrams(self, many: int) -> list[bytes]:
        """Return the received octets of the first `many` datagrams."""
        return [self.datagram(place, length) for place, length in enumerate(self.lengths(many))]

    def datagram(self, place: int, length: int) -> bytes:
        """Return the octets of the datagram at this place, which has this length."""
        found = b""
        for octets, size in zip(self._parts, self._sizes, strict=True):
            found += octets[place * size : place * size + min(size, length - len(found))]
        return found

    def part(self, number: int, first: int, end: int) -> bytes:
        """Return the part with this number of the datagrams from place `first` up to `end`, `end` excluded."""
        size = self._sizes[number]
        return bytes(memoryview(self._parts[number])[first * size : end * size])

    def lengths(self, many: int) -> list[int]:
        """Return the lengths of the first `many` datagrams."""
        return self._messages.words[_LENGTH : many * _MESSAGE_WORDS : _MESSAGE_WORDS].tolist()

    def arrivals(self, many: int, since_ns: int = 0) -> list[int]:
        """Return the arrival times of the first `many` datagrams, in ns of the time of day since `since_ns`."""
        end, step = many * self._control // _WORD, self._control // _WORD
        seconds, nanoseconds = (self._controls[word:end:step].tolist() for word in (_SECONDS, _NANOSECONDS))
        if seconds[0] == seconds[-1]:
            return list(map(add, nanoseconds, repeat(seconds[0] * 10**9 - since_ns)))
        return [second * 10**9 + rest - since_ns for second, rest in zip(seconds, nanoseconds, strict=True)]

    def ds_fields(self, many: int) -> bytes:
        """Return the DS fields of the first `many` datagrams; the socket needs IP_RECVTOS."""
        return bytes(self._octets[_DS_FIELD : many * self._control : self._control])

    def control(self, place: int) -> bytes:
        """Return the control messages that came with the datagram at this place."""
        return bytes(self._octets[place * self._control : (place + 1) * self._control])


def _count(done: int, nothing: tuple[int, ...]) -> int:
    if done >= 0:
        return done
    code = ctypes.get_errno()
    if code in nothing:
        return 0
    raise OSError(code, os.strerror(code))
