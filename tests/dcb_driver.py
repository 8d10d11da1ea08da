"""A stand-in for a network card's driver that has DCB, for a daemon that speaks DCBX only where there is one.

The lab's interfaces have no such driver, and the kernel reports it. Here the daemon runs under a filter that hands its
sendmsg and recvmsg to us (seccomp's user notification). A request about DCB is answered from here; every other goes on
to the kernel. So the daemon and its frames are as they are on a machine with such a card, and what it would have
written into the card is in `ets`, `pfc` and `applications`.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import select
import struct
import subprocess
import threading
from contextlib import suppress
from pathlib import Path
from typing import IO

_SECCOMP, _PIDFD_GETFD = 317, 438  # system calls of x86-64
_SENDMSG, _RECVMSG = 46, 47
_SET_FILTER, _NEW_LISTENER = 1, 8
_NO_NEW_PRIVILEGES = 38
_ASK_US, _ALLOW = 0x7FC0_0000, 0x7FFF_0000
_RECEIVE, _ANSWER = 0xC050_2100, 0xC018_2101
_CONTINUE = 1
_PEEK, _TRUNCATED = 0x02, 0x20
_NOTIFICATION = struct.Struct("=QIIiIQ6Q")
_MESSAGE = struct.Struct("=QIxxxxQQQQixxxx")  # struct msghdr
_GET, _SET = 78, 79
_IEEE_SET, _IEEE_GET, _GET_MODE, _IEEE_DELETE = 20, 21, 22, 27
_IEEE, _MODE = 13, 14
_ETS, _PFC, _APPLICATIONS = 1, 2, 3
_HOST_AND_IEEE = 0x09

_libc = ctypes.CDLL(None, use_errno=True)


def _attribute(kind: int, value: bytes) -> bytes:
    return struct.pack("=HH", len(value) + 4, kind) + value + bytes(-len(value) % 4)


def _attributes(data: bytes) -> list[tuple[int, bytes]]:
    found, at = [], 0
    while at + 4 <= len(data):
        length, kind = struct.unpack_from("=HH", data, at)
        found.append((kind & 0x3FFF, data[at + 4 : at + length]))
        at += -(-length // 4) * 4
    return found


class Driver:
    """The driver of one card with eight classes, all of which can have PFC. Its octets are those of linux/dcbnl.h."""

    def __init__(self) -> None:
        self.ets = bytes([0, 8, 0]) + bytes(56)
        self.pfc = bytes([8]) + bytes(135)
        self.applications: set[tuple[int, int, int]] = set()  # selector, priority, protocol

    @property
    def pfc_enabled(self) -> int:
        return self.pfc[1]

    @property
    def ets_tables(self) -> dict[str, list[int]]:
        ets = list(self.ets)
        return {"bandwidth": ets[3:11], "tsa": ets[19:27], "assignment": ets[27:35]}

    def request(self, message: bytes) -> bytes | None:
        """The answer to a netlink message, b"" if there is none to give; None: this is not for the card."""
        if len(message) < 20:
            return None
        _, kind, _, sequence, port = struct.unpack_from("=IHHII", message)
        command = message[17]
        if kind == _GET and command == _GET_MODE:
            parts = _attribute(_MODE, bytes([_HOST_AND_IEEE]))
        elif kind == _GET and command == _IEEE_GET:
            table = b"".join(_attribute(1, struct.pack("=BBH", *entry)) for entry in sorted(self.applications))
            ieee = _attribute(_ETS, self.ets) + _attribute(_PFC, self.pfc) + _attribute(_APPLICATIONS, table)
            parts = _attribute(_IEEE, ieee)
        elif kind == _SET and command in (_IEEE_SET, _IEEE_DELETE):
            self._change(dict(_attributes(message[20:]))[_IEEE], command == _IEEE_DELETE)
            return b""
        else:
            return None
        body = struct.pack("=BBxx", 0, command) + parts
        return struct.pack("=IHHII", 16 + len(body), kind, 0, sequence, port) + body

    def _change(self, ieee: bytes, is_removal: bool) -> None:
        for kind, value in _attributes(ieee):
            if kind == _ETS and not is_removal:
                self.ets = value
            elif kind == _PFC and not is_removal:
                self.pfc = value
            elif kind == _APPLICATIONS:
                entries = {struct.unpack("=BBH", entry) for _, entry in _attributes(value)}
                self.applications = self.applications - entries if is_removal else self.applications | entries


class Daemon:
    """A program that takes `driver` for the card of each of its interfaces."""

    def __init__(self, command: list[str], driver: Driver, output: Path) -> None:
        self._driver = driver
        self._answers: dict[int, bytes] = {}
        ready, told = os.pipe()
        go, done = os.pipe()
        with output.open("wb") as log:
            starting = threading.Thread(target=self._start, args=(command, log, told, go))
            starting.start()  # Popen returns when the program runs, and it cannot run before we have its listener
            number = int(os.read(ready, 20))
            pid = int(os.read(ready, 20))
            process = os.pidfd_open(pid)
            self._listener = _libc.syscall(_PIDFD_GETFD, process, number, 0)
            os.close(process)
            os.write(done, b"!")
            starting.join()
        for fd in (ready, told, go, done):
            os.close(fd)
        if self._listener < 0:
            raise OSError(ctypes.get_errno(), "taking over the listener")
        threading.Thread(target=self._serve, daemon=True).start()

    def _start(self, command: list[str], log: IO[bytes], told: int, go: int) -> None:
        def prepare() -> None:
            load, equal, answer = 0x20, 0x15, 0x06
            code = b"".join(
                struct.pack("=HBBI", *instruction)
                for instruction in (
                    (load, 0, 0, 0),
                    (equal, 2, 0, _SENDMSG),
                    (equal, 1, 0, _RECVMSG),
                    (answer, 0, 0, _ALLOW),
                    (answer, 0, 0, _ASK_US),
                )
            )
            buffer = ctypes.create_string_buffer(code, len(code))
            program = struct.pack("HxxxxxxP", len(code) // 8, ctypes.addressof(buffer))
            _libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
            listener = _libc.syscall(_SECCOMP, _SET_FILTER, _NEW_LISTENER, program)
            if listener < 0:
                raise OSError(ctypes.get_errno(), "seccomp")
            os.write(told, b"%-20d" % listener)
            os.write(told, b"%-20d" % os.getpid())
            os.read(go, 1)

        self.process = subprocess.Popen(command, stdout=log, stderr=log, preexec_fn=prepare)  # noqa: PLW1509

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(10)

    def _serve(self) -> None:
        waiting = select.poll()
        waiting.register(self._listener, select.POLLIN)
        while True:
            if any(events & select.POLLHUP for _, events in waiting.poll()):
                os.close(self._listener)
                return
            request = bytearray(_NOTIFICATION.size)
            try:
                fcntl.ioctl(self._listener, _RECEIVE, request)
            except OSError:
                continue  # who asked has been interrupted, or has ended
            number, pid, _, call, _, _, fd, message, flags, *_ = _NOTIFICATION.unpack(request)
            value: int | None = None
            code = 0
            try:
                value = self._call(pid, call, fd, message, flags)
            except OSError as error:
                code = error.errno or errno.EIO
            how = _CONTINUE if value is None and not code else 0
            with suppress(OSError):
                fcntl.ioctl(self._listener, _ANSWER, bytearray(struct.pack("=QqiI", number, value or 0, -code, how)))

    def _call(self, pid: int, call: int, fd: int, message: int, flags: int) -> int | None:
        """Return the result of a system call, or None if the kernel is to do it."""
        with open(f"/proc/{pid}/mem", "r+b", buffering=0) as memory:

            def read(place: int, length: int) -> bytes:
                memory.seek(place)
                return memory.read(length)

            name, _, vectors, count, control, _, _ = _MESSAGE.unpack(read(message, _MESSAGE.size))
            pieces = [struct.unpack_from("=QQ", read(vectors + 16 * number, 16)) for number in range(count)]
            if call == _SENDMSG:
                self._answers.pop(fd, None)
                data = b"".join(read(*piece) for piece in pieces)
                answer = self._driver.request(data)
                if answer is None:
                    return None
                if answer:
                    self._answers[fd] = answer
                return len(data)
            if fd not in self._answers:
                return None
            answer = self._answers[fd]
            start = 0
            for place, room in pieces:
                memory.seek(place)
                memory.write(answer[start : start + room])
                start += room
            is_cut = start < len(answer)
            sender = struct.pack("=HHII", 16, 0, 0, 0)
            memory.seek(name)
            memory.write(sender)
            memory.seek(message)
            memory.write(_MESSAGE.pack(name, len(sender), vectors, count, control, 0, _TRUNCATED if is_cut else 0))
            if not flags & _PEEK:
                del self._answers[fd]
            return len(answer) if flags & _TRUNCATED else min(start, len(answer))
