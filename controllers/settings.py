"""What the controller has to be told: where it listens, and its two secrets.

Ryu's launcher takes no options of applications, so all of it comes by environment variables; `python3 -m controllers`
has an option for each and sets them. The key, which routers' agents have too, and the token, which users of REST show,
are in files that nobody else may read.
"""

from __future__ import annotations

import os
import secrets
import socket
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from testbed.errors import UsageError
from testbed.srv6.northbound import SHORTEST_TOKEN
from testbed.srv6.session import SHORTEST_KEY

KEY_FILE, TOKEN_FILE = "XOFF_SR_KEY_FILE", "XOFF_SR_TOKEN_FILE"
AGENTS, REST, NAME = "XOFF_SR_AGENTS", "XOFF_SR_REST", "XOFF_SR_NAME"
DEFAULT_AGENTS, DEFAULT_REST, DEFAULT_NAME = "127.0.0.1:7179", "127.0.0.1:8181", "controller"


@dataclass(frozen=True)
class Address:
    """A place to listen at: host and port, or the path of a Unix socket, which network namespaces do not hide."""

    host: str = ""
    port: int = 0  # 0: any that is free
    path: str = ""

    @classmethod
    def parse(cls, text: str) -> Address:
        if text.startswith("unix:") and len(text) > 5:
            return cls(path=text[5:])
        host, colon, port = text.rpartition(":")
        host = host[1:-1] if host.startswith("[") and host.endswith("]") else host
        if not colon or not host or not port.isascii() or not port.isdigit() or int(port) > 65535:
            raise UsageError(f"{text!r} is no address to listen at; write 127.0.0.1:8181, [::1]:8181 or unix:/run/x")
        return cls(host, int(port))

    def clear(self) -> None:
        """A Unix socket that nobody listens at any more is in the way."""
        probe = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            probe.connect(self.path)
        except ConnectionRefusedError:
            os.unlink(self.path)  # noqa: PTH108
        except OSError:
            pass
        finally:
            probe.close()

    def __str__(self) -> str:
        if self.path:
            return f"unix:{self.path}"
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True)
class Settings:
    key: bytes
    token: str
    agents: Address
    rest: Address
    name: str = DEFAULT_NAME

    @classmethod
    def read(cls, environment: Mapping[str, str] = os.environ) -> Settings:
        return cls(
            _secret(environment, KEY_FILE, SHORTEST_KEY),
            _secret(environment, TOKEN_FILE, SHORTEST_TOKEN).decode("latin-1"),
            Address.parse(environment.get(AGENTS, DEFAULT_AGENTS)),
            Address.parse(environment.get(REST, DEFAULT_REST)),
            environment.get(NAME, DEFAULT_NAME),
        )


def make_secrets(folder: Path) -> tuple[Path, Path]:
    """Write a fresh key and a fresh token, for our eyes only; those that are there stay."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    made = []
    for name in ("key", "token"):
        path = folder / name
        try:
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            pass
        else:
            with os.fdopen(handle, "w") as file:
                file.write(secrets.token_urlsafe(32) + "\n")
        made.append(path)
    return made[0], made[1]


def _secret(environment: Mapping[str, str], variable: str, shortest: int) -> bytes:
    what = "key that routers' agents share" if variable == KEY_FILE else "token that users of REST show"
    name = environment.get(variable)
    if not name:
        raise UsageError(
            f"{variable} names no file with the {what}; make both with: python3 -m controllers --make-secrets FOLDER"
        )
    try:
        with open(name, "rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            content = file.read(4097).strip()
    except OSError as error:
        raise UsageError(f"{name}, with the {what}, cannot be read: {error.strerror}") from None
    if mode & 0o077:
        raise UsageError(f"{name} can be read by others (mode {mode:o}); take that away: chmod 600 {name}")
    if not shortest <= len(content) <= 4096:
        raise UsageError(f"{name} has {len(content)} octets, and the {what} has {shortest} to 4096")
    return content
