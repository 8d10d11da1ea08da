"""Access to the live view: requests need the right token, host and origin, and all others are refused.

The token comes in the address that is printed once. The first request with it gets a cookie and is sent on to the same
address without it, so that the token does not stay in the browser's history or in a picture of the screen. The host is
checked because the name of another site can be made to lead to this machine (DNS rebinding), and the origin because a
page of another port of this machine may open a WebSocket, to which the browser adds the cookie. Not here: protection
from those who can read the memory of this user's processes, and encryption.
"""

from __future__ import annotations

import hmac
import ipaddress
import os
import re
import secrets
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from http.cookies import CookieError, SimpleCookie
from pathlib import Path
from urllib.parse import urlsplit

from testbed.errors import UsageError

_NAMES = ("localhost",)
_TOKEN = re.compile("[A-Za-z0-9_-]{16,200}", re.ASCII)


class Verdict(Enum):
    """The verdict about a request, as its HTTP status."""

    ADMIT = 200
    TAKE_COOKIE = 303
    WRONG_TOKEN = 401
    WRONG_ORIGIN = 403
    WRONG_HOST = 421


def token_of(file: Path) -> str:
    """Return the token in a file that its user alone can read; it is made with a new token if it is not there."""
    try:
        try:
            made = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except FileExistsError:
            mode = file.stat().st_mode
            if not stat.S_ISREG(mode):
                raise UsageError(f"{file} is not a file; name one for the token") from None
            if mode & 0o077:
                raise UsageError(f"{file} can be read by others; `chmod 600 {file}` closes it") from None
            with file.open(encoding="utf-8", errors="replace") as text:
                token = text.read(1000).strip()
            if not _TOKEN.fullmatch(token):
                raise UsageError(
                    f"{file} has no token, which has 16 to 200 letters, digits, - and _; remove it for a new one"
                ) from None
            return token
        token = secrets.token_urlsafe(32)
        with os.fdopen(made, "w", encoding="utf-8") as out:
            out.write(f"{token}\n")
    except OSError as error:
        raise UsageError(f"the token cannot be in {file}: {error.strerror}") from None
    return token


@dataclass(frozen=True)
class Access:
    """The access rule of one server."""

    address: str
    """The address at which the server listens."""
    port: int
    token: str = field(default_factory=lambda: secrets.token_urlsafe(32))

    @property
    def is_loopback(self) -> bool:
        return self.address in _NAMES or ipaddress.ip_address(self.address).is_loopback

    @property
    def host(self) -> str:
        """The host and port, as browsers name them."""
        shown = "127.0.0.1" if self.address == "0.0.0.0" else self.address
        return f"[{shown}]:{self.port}" if ":" in shown else f"{shown}:{self.port}"

    @property
    def url(self) -> str:
        """The address to open, with the token."""
        return f"http://{self.host}/?token={self.token}"

    @property
    def cookie(self) -> str:
        """The name of the cookie; it has the port, because all ports of a machine share its cookies."""
        return f"xoff-{self.port}"

    def judge(self, headers: Mapping[str, str], given: str | None = None) -> Verdict:
        """Judge a request with these headers, whose names are in lower case; `given` is a token in its address."""
        if not self.is_our_host(headers.get("host", "")):
            return Verdict.WRONG_HOST
        if given is not None:
            return Verdict.TAKE_COOKIE if self._is_right(given) else Verdict.WRONG_TOKEN
        kind, _, bearer = headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer":
            return Verdict.ADMIT if self._is_right(bearer.strip()) else Verdict.WRONG_TOKEN
        return Verdict.ADMIT if self._is_right(self._from_cookie(headers.get("cookie", ""))) else Verdict.WRONG_TOKEN

    def judge_socket(self, headers: Mapping[str, str]) -> Verdict:
        """Judge a WebSocket: a browser's has an origin, which has to be the host; a program without one shows its
        token."""
        verdict = self.judge(headers)
        if verdict is not Verdict.ADMIT:
            return verdict
        origin = headers.get("origin")
        if origin is None:
            return verdict if "authorization" in headers else Verdict.WRONG_ORIGIN
        return verdict if origin == f"http://{headers['host']}" else Verdict.WRONG_ORIGIN

    def is_our_host(self, host: str) -> bool:
        """True if a host is this server by an address. A name other than localhost can lead anywhere."""
        try:
            parts = urlsplit(f"//{host}")
            name, port = parts.hostname or "", parts.port or 80
        except ValueError:
            return False
        if port != self.port or parts.username is not None or parts.path or parts.query or parts.fragment:
            return False
        if name in _NAMES:
            return True
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            return False
        return not self.is_loopback or address.is_loopback

    def _is_right(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(errors="replace"), self.token.encode())

    def _from_cookie(self, header: str) -> str:
        try:
            found = SimpleCookie(header).get(self.cookie)
        except CookieError:
            return ""
        return found.value if found else ""
