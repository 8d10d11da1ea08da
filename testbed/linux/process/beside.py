"""A process beside the experiment, for as long as a network runs: it watches, and the experiment does not wait for it.

A fork of the network's own process, so it has all objects of the network as they were at that moment.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from testbed.errors import XoffError
from testbed.linux.process.child import Child

_LONGEST_ANSWER = 4096
_READY, _STOP, _DONE = b"ready", b"stop", b"done"


class BesideError(XoffError):
    """Such a process has failed."""


class Commands:
    """The end of a process beside the experiment: it is readable when the process has to end."""

    def __init__(self, ours: socket.socket) -> None:
        self._ours = ours

    def fileno(self) -> int:
        return self._ours.fileno()

    def ready(self) -> None:
        """Let the experiment go on."""
        self._ours.send(_READY)

    def answer(self, error: BaseException | None) -> None:
        if error is None:
            self._ours.recv(_LONGEST_ANSWER)  # what is unread when a socket is closed makes the other end fail
            self._ours.send(_DONE)
        else:
            self._ours.send(f"{type(error).__name__}: {error}".encode()[:_LONGEST_ANSWER])


class Beside:
    """One such process, from its start on."""

    def __init__(self, name: str, what: str, body: Callable[[Commands], None]) -> None:
        """`body` calls `ready`, and returns soon after its commands have become readable. `what` it does is for errors,
        `name` is the process's.
        """
        self._what = what
        self._ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)

        def perform() -> None:
            self._ours.close()
            _perform(name, body, Commands(theirs))

        self._process = Child(perform)
        theirs.close()
        self._expect(_READY)

    def stop(self) -> None:
        """End it; what it does is done when this returns."""
        with suppress(OSError):  # it has ended already
            self._ours.send(_STOP)
        try:
            self._expect(_DONE)
        finally:
            self._ours.close()
            self._process.wait()

    def _expect(self, wanted: bytes) -> None:
        answer = self._ours.recv(_LONGEST_ANSWER)
        if answer != wanted:
            why = answer.decode(errors="replace") or "its process was killed"
            raise BesideError(f"{self._what} failed: {why}")


def _perform(name: str, body: Callable[[Commands], None], commands: Commands) -> None:
    found: BaseException | None = None
    try:
        Path("/proc/self/comm").write_text(name)
        body(commands)
    except BaseException as error:
        found = error
    with suppress(OSError):
        commands.answer(found)
