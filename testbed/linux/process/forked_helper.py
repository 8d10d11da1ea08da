"""Helpers: forked processes that run one function each, and the pipe between such a process and its parent.

A helper is a fork, so it has all objects of its parent as they were at that moment. It gets its end of the pipe, and
sends messages through it; if it fails, that is an error where the parent receives. Both ends are `Connection`s of
`multiprocessing`, which carry messages of any size, or `PacketPipe`s, which take one system call for each message.

In a network that runs on `um`, each system call takes time of the lab. So a helper makes no other calls than those that
its way to end (`Ending`) needs.
"""

from __future__ import annotations

import enum
import pickle
import signal
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from testbed.errors import XoffError
from testbed.linux.process.child import Child

READY, STOP, DONE = "ready", "stop", "done"
_LONGEST_PACKET = 4096
_LONGEST_TEXT = 3000


class HelperError(XoffError):
    """A helper has failed."""


class Pipe(Protocol):
    """One end of the pipe between a helper and its parent."""

    @property
    def readable(self) -> bool:
        """True if messages can come from the other end."""

    @property
    def writable(self) -> bool:
        """True if messages can be sent to the other end."""

    def fileno(self) -> int: ...
    def send(self, message: Any, /) -> None: ...
    def recv(self) -> Any: ...
    def close(self) -> None: ...


P = TypeVar("P", bound=Pipe)


class PacketPipe:
    """One end of a pipe for short messages in both directions."""

    readable = writable = True

    def __init__(self, ours: socket.socket) -> None:
        self._ours = ours

    @classmethod
    def pair(cls) -> tuple[PacketPipe, PacketPipe]:
        """Return both ends of a new pipe."""
        one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        return cls(one), cls(other)

    def fileno(self) -> int:
        return self._ours.fileno()

    def send(self, message: Any, /) -> None:
        self._ours.send(pickle.dumps(message))

    def recv(self) -> Any:
        packet = self._ours.recv(_LONGEST_PACKET)
        if not packet:
            raise EOFError
        return pickle.loads(packet)

    def close(self) -> None:
        self._ours.close()


class Ending(enum.Enum):
    """The way in which a helper ends."""

    RETURNS = enum.auto()
    """Its pipe becomes readable, the function returns, and the process ends."""
    CONFIRMS = enum.auto()
    """The same, and it confirms that all is done. Its function sends READY when the parent may go on."""
    IS_KILLED = enum.auto()
    """Its function returns early and the process stays until it is killed: to end takes a process milliseconds of the
    CPU."""


class _Failure:
    """The message of a helper that has failed."""

    def __init__(self, text: str) -> None:
        self.text = text[:_LONGEST_TEXT]


class ForkedHelper(Generic[P]):
    """A helper, from its start on."""

    def __init__(
        self,
        what: str,
        body: Callable[[P], None],
        pipe: tuple[P, P],
        ending: Ending,
        *,
        name: str = "",
        error: type[XoffError] = HelperError,
        killed: str = "",
    ) -> None:
        """Start the process, which calls `body` with its end of the pipe.

        `what` begins the messages of its failures, which are raised as `error`; `killed` is the message when the
        process has gone without one. `name` is the name of the process.
        """
        self.pipe, theirs = pipe
        self._what, self._error, self._ending = what, error, ending
        self._killed = killed or f"{what}: its process was killed"

        def perform() -> None:
            if self.pipe.readable and self.pipe.writable:
                self.pipe.close()  # or this process would hold its own pipe open when its parent has gone
            _perform(name, body, theirs, ending)

        self.process = Child(perform)
        theirs.close()
        if ending is Ending.CONFIRMS:
            self.receive()

    def receive(self) -> Any:
        """Return the next message, as soon as it is there; a failure of the helper is an error here."""
        try:
            try:
                message = self.pipe.recv()
            except ConnectionResetError:  # it ended before it read what we sent; what it had sent is there still
                message = self.pipe.recv()
        except (EOFError, OSError):
            raise self._error(self._killed) from None
        if isinstance(message, _Failure):
            raise self._error(f"{self._what}: {message.text}")
        return message

    def send(self, message: Any) -> None:
        """Send the helper a message; one that has failed is found out by `receive`."""
        with suppress(BrokenPipeError):
            self.pipe.send(message)

    def stop(self) -> None:
        """End the helper in its way; when this returns, what it does is done and the process is gone."""
        if self._ending is Ending.IS_KILLED:
            self.process.kill()
            self.pipe.close()
            return
        try:
            # To close the pipe would not do: processes that were forked meanwhile have it too.
            with suppress(OSError):
                self.pipe.send(STOP)
            if self._ending is Ending.CONFIRMS:
                self.receive()
                self.pipe.close()
        finally:
            code = self.process.wait()
            self.pipe.close()
        if code and self._ending is Ending.RETURNS:
            raise self._error(f"{self._what}: its process ended with {code}, and its output has the reason")


def _perform(name: str, body: Callable[[P], None], pipe: P, ending: Ending) -> None:
    """Run the function in the new process."""
    try:
        if name:
            Path("/proc/self/comm").write_text(name)
        body(pipe)
    except BaseException as error:
        if not pipe.writable:
            raise  # it is printed, and its exit code tells the parent
        expected = isinstance(error, (OSError, XoffError))
        with suppress(OSError):
            pipe.send(_Failure(str(error) if expected else f"{type(error).__name__}: {error}"))
    else:
        if ending is Ending.CONFIRMS:
            with suppress(OSError):
                pipe.recv()  # a message that is unread when a socket is closed makes the other end fail
                pipe.send(DONE)
    if ending is Ending.IS_KILLED:
        signal.pause()
