"""The sockets at which a stand-alone agent is found: for each interface one, in the abstract namespace of Unix sockets.

Abstract names belong to the network namespace, as interfaces do, and go with the process that has them, however it
ends. So one name is lock and door at once: no file is left, a name needs no quoting, and agents of different users
meet. The process that binds it first serves the interface.

A caller sends one line, a word of `REQUESTS`, and gets one JSON object. The kernel identifies its user: root, and
the user who started the agent, may do everything; members of a group that was named may read; all others are refused.
Any process of this network namespace can take a name before the agent does. It is then named, and not believed.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import select
import socket
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from testbed.errors import XoffError
from testbed.linux.process.privileges import Capability, has

SHOW, FORGET = "show", "forget"
REQUESTS = (SHOW, FORGET)
Answer = dict[str, Any]

_PREFIX = "xoff-dcbx/"
_LONGEST_REQUEST = 64
_LONGEST_ANSWER = 1 << 22
_MOST_CALLERS = 16
_WITHIN_S = 5.0
"""The time that a request may take, at either end."""
_SECOND = 10**9
_CREDENTIALS = struct.Struct("=iII")
_SO_PEERGROUPS, _MOST_GROUPS = 59, 255
_LISTENS = 0x10000  # __SO_ACCEPTCON, in the flags of /proc/net/unix


class ControlError(XoffError):
    """An agent that cannot be reached, or a second one for an interface."""

    exit_code = 3


@dataclass(frozen=True)
class Access:
    """The users who may send requests."""

    user: int
    """The user who may do everything, as root may."""
    group: int | None = None
    """The group whose members may read."""

    def refuses(self, caller: socket.socket, request: str) -> str | None:
        """Return the reason why the connected process may not send this request, or None if it may."""
        _, user, group = _peer(caller)
        if user in (0, self.user):
            return None
        if request == SHOW and self.group is not None and self.group in (group, *_groups(caller)):
            return None
        owners = f"root and user {self.user}" if self.user else "root"
        if request != SHOW:
            return f"only {owners} may have the agent {request} something"
        members = (
            f"members of group {self.group}"
            if self.group is not None
            else "no other user (--group NAME admits a group)"
        )
        return f"{owners} may read what the agent negotiates, and {members}"


class Claim:
    """The claim of this process to be the agent of an interface. Its `fd` is readable when `serve` has something to
    do.
    """

    def __init__(self, interface: str, access: Access) -> None:
        self._access = access
        self._callers: dict[int, _Caller] = {}
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        try:
            self._socket.bind(_address(interface))
        except OSError as error:
            self._socket.close()
            if error.errno != errno.EADDRINUSE:
                raise ControlError(f"no socket for the agent of {interface}: {error.strerror or error}") from None
            raise ControlError(_taken(interface)) from None
        self._socket.listen(_MOST_CALLERS)
        self._waiting = select.epoll()
        self._waiting.register(self._socket, select.EPOLLIN)

    @property
    def fd(self) -> int:
        return self._waiting.fileno()

    @property
    def deadline_ns(self) -> int | None:
        """The time when a slow caller is disconnected, or None if there is no caller."""
        return min((caller.end_ns for caller in self._callers.values()), default=None)

    def serve(self, now_ns: int, perform: Callable[[str], Answer]) -> None:
        """Serve requests, without waiting for any caller."""
        for file, _ in self._waiting.poll(0):
            if file == self._socket.fileno():
                self._accept(now_ns)
            elif file in self._callers:
                self._go_on(self._callers[file], perform)
        for caller in [one for one in self._callers.values() if one.end_ns <= now_ns]:
            self._leave(caller)

    def close(self) -> None:
        for caller in list(self._callers.values()):
            self._leave(caller)
        self._waiting.close()
        self._socket.close()

    def _accept(self, now_ns: int) -> None:
        try:
            end, _ = self._socket.accept()
        except OSError:
            return  # it has left already
        end.setblocking(False)
        if why := self._access.refuses(end, SHOW):
            with end, contextlib.suppress(OSError):
                end.send(_encoded({"error": why}))
            return
        if len(self._callers) == _MOST_CALLERS:
            self._leave(min(self._callers.values(), key=lambda caller: caller.end_ns))
        self._callers[end.fileno()] = _Caller(end, now_ns + int(_WITHIN_S * _SECOND))
        self._waiting.register(end, select.EPOLLIN)

    def _go_on(self, caller: _Caller, perform: Callable[[str], Answer]) -> None:
        try:
            if caller.answer is None:  # an empty piece: the caller sends no more
                caller.request += caller.end.recv(_LONGEST_REQUEST + 1) or b"\n"
                if b"\n" not in caller.request and len(caller.request) <= _LONGEST_REQUEST:
                    return
                caller.answer = _encoded(self._answer(caller, perform))
                self._waiting.modify(caller.end, select.EPOLLOUT)
            caller.answer = caller.answer[caller.end.send(caller.answer) :]
        except BlockingIOError:
            return
        except OSError:
            caller.answer = b""
        if not caller.answer:
            self._leave(caller)

    def _answer(self, caller: _Caller, perform: Callable[[str], Answer]) -> Answer:
        request = read_request(caller.request)
        if request is None:
            return {"error": f"unknown request; must be one of {', '.join(REQUESTS)}"}
        why = self._access.refuses(caller.end, request)
        return {"error": why} if why else perform(request)

    def _leave(self, caller: _Caller) -> None:
        self._waiting.unregister(caller.end)
        del self._callers[caller.end.fileno()]
        caller.end.close()


@dataclass
class _Caller:
    end: socket.socket
    end_ns: int
    request: bytes = b""
    answer: bytes | None = None


def read_request(octets: bytes) -> str | None:
    """Return the first line if it is one of REQUESTS, else None."""
    line = octets.partition(b"\n")[0][:_LONGEST_REQUEST]
    return next((request for request in REQUESTS if line == request.encode()), None)


def ask(interface: str | None = None, request: str = SHOW) -> dict[str, Answer]:
    """Return the answers of the agents of this network namespace, by interface; ControlError if there is none."""
    found = {}
    for name in [interface] if interface else sorted(served()):
        try:
            found[name] = _ask(name, request)
        except ConnectionRefusedError:
            continue  # there is none, or it has just ended
        except (TimeoutError, OSError) as error:
            raise ControlError(f"the agent of {name} does not answer: {error.strerror or error}") from None
    if not found:
        whose = f"serves {interface}" if interface else "runs"
        raise ControlError(
            f"no agent {whose} in this network namespace; start one with `xoff dcbx agent {interface or 'IFACE'}`"
        )
    return found


def served() -> set[str]:
    """Return the interfaces of this network namespace that have an agent."""
    names = set()
    with Path("/proc/thread-self/net/unix").open(encoding="utf-8", errors="surrogateescape") as lines:
        for line in lines:
            fields = line.split(maxsplit=7)
            if len(fields) == 8 and fields[7].startswith(f"@{_PREFIX}") and int(fields[3], 16) & _LISTENS:
                names.add(fields[7].rstrip("\n").removeprefix(f"@{_PREFIX}"))
    return names


def read_answer(octets: bytes, interface: str) -> Answer:
    """Read the answer of an agent; ControlError if it is an error, or not what an agent sends."""
    try:
        answer = json.loads(octets)
    except (ValueError, RecursionError):
        answer = None
    if not isinstance(answer, dict) or not ("error" in answer or answer.get("interface") == interface):
        raise ControlError(f"what serves {interface} does not answer as an agent does; is it another version of Xoff?")
    if "error" in answer:
        raise ControlError(f"the agent of {interface} refuses: {printable(str(answer['error']))}")
    return answer


def printable(text: str) -> str:
    """Return text from another source, made safe for a terminal."""
    return "".join(character if character.isprintable() else "?" for character in text)


def connect(interface: str) -> socket.socket:
    """Return a connection to what serves the interface; OSError if nothing does, or it has no time."""
    caller = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        # A connection that has to wait is refused at once where a timeout of Python's makes the socket non-blocking.
        caller.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("@ll", int(_WITHIN_S), 0))
        caller.connect(_address(interface))
        caller.settimeout(_WITHIN_S)
    except BaseException:
        caller.close()
        raise
    return caller


def _ask(interface: str, request: str) -> Answer:
    deadline = time.monotonic() + _WITHIN_S
    with connect(interface) as caller:
        pid, user, _ = _peer(caller)
        if not _is_believed(pid, user):
            raise ControlError(f"{_holder(pid, user)} holds the name of the agent of {interface} but is not an agent")
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # refused at once: the answer is there
            caller.sendall(f"{request}\n".encode())
        octets = b""
        with contextlib.suppress(ConnectionResetError):  # the end of an answer to a request that was not read
            while len(octets) < _LONGEST_ANSWER and (piece := caller.recv(1 << 16)):
                octets += piece
                caller.settimeout(max(0.001, deadline - time.monotonic()))
    return read_answer(octets, interface)


def _taken(interface: str) -> str:
    """Return the reason why this process cannot serve the interface."""
    pid, user = 0, -1
    with contextlib.suppress(OSError), connect(interface) as caller:
        pid, user, _ = _peer(caller)
    if user != -1 and not _is_believed(pid, user):
        return f"{_holder(pid, user)} holds the name of the agent of {interface} but is not an agent; end it"
    whose = "" if user in (-1, os.geteuid()) else f" of user {user}"
    return (
        f"an agent serves {interface} already, process {pid or 'unknown'}{whose}; see its state with "
        f"`xoff dcbx show {interface}`, or stop it first"
    )


def _is_believed(pid: int, user: int) -> bool:
    """Return True if a process may be an agent: it is root's or this user's, or can use packet sockets, which strangers
    cannot.
    """
    return user in (0, os.geteuid()) or (pid > 0 and has(Capability.NET_RAW, pid))


def _holder(pid: int, user: int) -> str:
    return f"process {pid or 'unknown'} of user {user}"


def _address(interface: str) -> bytes:
    return b"\0" + os.fsencode(f"{_PREFIX}{interface}")


def _peer(end: socket.socket) -> tuple[int, int, int]:
    """Return process, user and group of the other end."""
    pid, user, group = _CREDENTIALS.unpack(end.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    return pid, user, group


def _groups(end: socket.socket) -> tuple[int, ...]:
    """Return the other groups of the other end's user."""
    try:
        octets = end.getsockopt(socket.SOL_SOCKET, _SO_PEERGROUPS, 4 * _MOST_GROUPS)
    except OSError:
        return ()
    return struct.unpack(f"={len(octets) // 4}I", octets)


def _encoded(answer: Answer) -> bytes:
    return json.dumps(answer).encode()
