"""Where a stand-alone agent is found: for each interface of each network namespace one lock and one socket.

The lock says that an agent is there, and goes when its process ends, however it ends. Whoever connects to the socket is
sent one JSON object, and no more is said. Only the agent's own user can connect.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from testbed.errors import XoffError

_ANSWER_WITHIN_S = 5.0
_ROOM = 1 << 20


class ControlError(XoffError):
    """An agent that cannot be reached, or one too many."""

    exit_code = 3


def folders() -> list[Path]:
    """Where agents may be: the system's, and the user's own."""
    own = os.environ.get("XDG_RUNTIME_DIR")
    return [Path("/run/xoff"), *([Path(own) / "xoff"] if own else [])]


class Claim:
    """This process is the agent of an interface."""

    def __init__(self, interface: str) -> None:
        self._path = _folder() / _name(interface)
        self._lock = self._take_lock(interface)
        place = self._path.with_suffix(".sock")
        place.unlink(missing_ok=True)  # of an agent that was killed
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        previous = os.umask(0o177)
        try:
            self._socket.bind(str(place))
            self._socket.listen()
        except OSError as error:
            self.close()
            raise ControlError(f"no socket can be made at {place}: {error.strerror or error}") from None
        finally:
            os.umask(previous)

    @property
    def fd(self) -> int:
        return self._socket.fileno()

    def answer(self, content: dict[str, Any]) -> None:
        """Send it to who has connected; who does not listen is left."""
        with contextlib.suppress(OSError):
            caller, _ = self._socket.accept()
            with caller:
                caller.setblocking(False)
                caller.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _ROOM)
                caller.sendall(json.dumps(content).encode())

    def close(self) -> None:
        for suffix in (".sock", ".lock"):
            self._path.with_suffix(suffix).unlink(missing_ok=True)
        self._socket.close()
        os.close(self._lock)

    def _take_lock(self, interface: str) -> int:
        path = self._path.with_suffix(".lock")
        while True:
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                pid = os.read(handle, 20).decode() or "unknown"
                os.close(handle)
                raise ControlError(
                    f"an agent serves {interface} already, process {pid}; look at it with `xoff dcbx {interface}`, "
                    "or stop it first"
                ) from None
            if _is_at(handle, path):
                os.ftruncate(handle, 0)
                os.write(handle, str(os.getpid()).encode())
                return handle
            os.close(handle)  # its owner has just removed it; make another


def ask(interface: str | None = None) -> dict[str, dict[str, Any]]:
    """What the agents of this network namespace say, by interface; ControlError if there is none."""
    found: dict[str, dict[str, Any]] = {}
    for path in _sockets(interface):
        try:
            answer = _read(path)
        except ConnectionRefusedError:
            continue  # its agent was killed
        except PermissionError:
            raise ControlError(f"{path} is another user's: look at this agent as the user that started it") from None
        except (OSError, ValueError) as error:
            raise ControlError(f"the agent at {path} does not answer: {error}") from None
        found[answer["interface"]] = answer
    if not found:
        whose = f"serves {interface}" if interface else "runs"
        raise ControlError(
            f"no agent {whose} in this network namespace; start one with `xoff agent {interface or 'IFACE'}`"
        )
    return dict(sorted(found.items()))


def _sockets(interface: str | None) -> Iterator[Path]:
    for folder in folders():
        with contextlib.suppress(OSError):
            yield from sorted(folder.glob(f"{_name(interface or '*')}.sock"))


def _read(path: Path) -> dict[str, Any]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as caller:
        caller.settimeout(_ANSWER_WITHIN_S)
        caller.connect(str(path))
        answer = b""
        while piece := caller.recv(1 << 16):
            answer += piece
    content: dict[str, Any] = json.loads(answer)
    return content


def _folder() -> Path:
    """The first that can be written to."""
    tried = folders()
    for folder in tried:
        with contextlib.suppress(OSError):
            folder.mkdir(mode=0o755, exist_ok=True)
            if os.access(folder, os.W_OK):
                return folder
    listed = " or ".join(map(str, tried))
    raise ControlError(f"there is no place for the agent's socket: {listed} cannot be written; set XDG_RUNTIME_DIR")


def _name(interface: str) -> str:
    """Interfaces of different network namespaces may have one name."""
    return f"dcbx-{Path('/proc/thread-self/ns/net').stat().st_ino}-{interface}"


def _is_at(handle: int, path: Path) -> bool:
    try:
        return os.fstat(handle).st_ino == path.stat().st_ino
    except FileNotFoundError:
        return False
