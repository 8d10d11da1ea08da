"""The settings of the controller: the addresses at which it listens, its two secrets, and its list of routers.

Ryu's launcher takes no options of applications, so all of it comes by environment variables; `python3 -m controllers`
has an option for each and sets them. The key, of which each router's own key is made, and the token, which users of
REST show, are in files that only their owner may read.
"""

from __future__ import annotations

import os
import secrets
import socket
import ssl
import stat
from collections.abc import Mapping
from dataclasses import dataclass, replace
from ipaddress import IPv6Network, ip_address
from itertools import pairwise
from pathlib import Path
from typing import Annotated

from testbed.errors import UsageError
from testbed.rest.server import SHORTEST_TOKEN
from testbed.strict import toml_text
from testbed.strict.numbers import whole
from testbed.subjects.srv6.controller import network
from testbed.subjects.srv6.controller.network import IgpRouter
from testbed.subjects.srv6.protocol.domain import RouterName
from testbed.subjects.srv6.session.messages import SHORTEST_KEY, router_key
from testbed.typed_json.codec import CODEC
from testbed.typed_json.meta import Meta
from testbed.typed_json.text import InvalidError

KEY_FILE, TOKEN_FILE = "XOFF_SR_KEY_FILE", "XOFF_SR_TOKEN_FILE"
AGENTS, REST, NAME = "XOFF_SR_AGENTS", "XOFF_SR_REST", "XOFF_SR_NAME"
ROUTERS, REST_NAMES = "XOFF_SR_ROUTERS", "XOFF_SR_REST_NAMES"
WAYS_SEED, IGP = "XOFF_SR_WAYS_SEED", "XOFF_SR_IGP"
TLS_CERTIFICATE, TLS_KEY, OPEN = "XOFF_SR_TLS_CERTIFICATE", "XOFF_SR_TLS_KEY", "XOFF_SR_OPEN_TO_NETWORK"
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
        number = whole(port, 65535)
        if not colon or not host or number is None:
            raise UsageError(
                f"{text[:80]!r} is not an address to listen at; write 127.0.0.1:8181, [::1]:8181 or unix:/run/x"
            )
        return cls(host, number)

    @property
    def is_local(self) -> bool:
        """True if only programs of this machine reach it."""
        if self.path or self.host == "localhost":
            return True
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return False

    def check_open(self, what: str, environment: Mapping[str, str], has_tls: bool = False) -> None:
        """Raise a UsageError if others on the network can listen in, and nothing allows that."""
        if not self.is_local and not has_tls and environment.get(OPEN, "") != "1":
            ways = f"give REST a certificate ({TLS_CERTIFICATE}), or " if what == "REST" else ""
            raise UsageError(
                f"{self} for {what} is open to the network, where others can read what passes; listen at 127.0.0.1 or "
                f"a Unix socket, {ways}allow it by --open-to-network ({OPEN}=1)"
            )

    def clear(self) -> None:
        """Remove a Unix socket on which no process listens."""
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
class RouterEntry:
    """A table of the list of routers."""

    locators: Annotated[tuple[Annotated[IPv6Network, Meta(examples=("fd00:a:1::/48",))], ...], Meta(max_length=64)]
    issue: Annotated[int, Meta(ge=1, le=1 << 31)] = 1


@dataclass(frozen=True)
class Routers:
    """The routers that there may be. In TOML, a table for each: its locators, and `issue`, the number of its key."""

    locators: Mapping[str, tuple[IPv6Network, ...]]
    issues: Mapping[str, int]

    @classmethod
    def read(cls, name: str) -> Routers:
        try:
            with open(name, "rb") as file:
                content = file.read()
        except OSError as error:
            raise UsageError(f"{name}, with the list of routers, cannot be read: {error.strerror}") from None
        tables = toml_text.read(content, f"{name}, with the list of routers,")
        try:
            entries: Mapping[str, RouterEntry] = CODEC.decode(Mapping[RouterName, RouterEntry], tables)
        except InvalidError as error:
            raise UsageError(f"{name}, with the list of routers: {error}") from None
        found = cls(
            {router: entry.locators for router, entry in entries.items()},
            {router: entry.issue for router, entry in entries.items()},
        )
        taken = sorted((prefix, router) for router, prefixes in found.locators.items() for prefix in prefixes)
        for (one, owner), (other, rival) in pairwise(taken):
            if one.overlaps(other):
                raise UsageError(
                    f"{name}: locator {one} of {owner} and {other} of {rival} overlap; a SID has one router"
                )
        return found

    def changed(self, after: Routers) -> list[str]:
        """Return the routers that are not in the list any more, or have a new key or other locators."""
        return [
            router
            for router in self.locators
            if (self.locators[router], self.issues[router]) != (after.locators.get(router), after.issues.get(router))
        ]


@dataclass(frozen=True)
class Settings:
    key: bytes
    token: str
    agents: Address
    rest: Address
    name: str = DEFAULT_NAME
    routers: Routers | None = None  # None: every router that has a key of ours
    routers_file: str = ""
    igp_file: str = ""
    """The file with what the IGP says of routers, which need not be there yet; empty: no IGP says anything."""
    rest_names: tuple[str, ...] = ()
    """The host names of the REST interface, besides localhost."""
    ways_seed: int = 0
    """The seed of which each switch's own is made, for the hash by which it chooses among equal ways."""
    tls: ssl.SSLContext | None = None
    """The certificate and key of the REST interface, or None for requests in the clear."""

    @classmethod
    def read(cls, environment: Mapping[str, str] = os.environ) -> Settings:
        routers_file = environment.get(ROUTERS, "")
        settings = cls(
            _secret(environment, KEY_FILE, SHORTEST_KEY),
            _secret(environment, TOKEN_FILE, SHORTEST_TOKEN).decode("latin-1"),
            Address.parse(environment.get(AGENTS, DEFAULT_AGENTS)),
            Address.parse(environment.get(REST, DEFAULT_REST)),
            environment.get(NAME, DEFAULT_NAME),
            Routers.read(routers_file) if routers_file else None,
            routers_file,
            environment.get(IGP, ""),
            tuple(filter(None, environment.get(REST_NAMES, "").split(","))),
            _ways_seed(environment),
            _tls(environment),
        )
        settings.agents.check_open("agents", environment)
        settings.rest.check_open("REST", environment, settings.tls is not None)
        return settings

    def reread(self) -> Routers | None:
        """Return the list of routers as it is now."""
        return Routers.read(self.routers_file) if self.routers_file else None

    def read_igp(self) -> tuple[IgpRouter, ...] | None:
        """Return what the IGP says of routers now; None if there is no file of it."""
        if not self.igp_file:
            return None
        try:
            return network.read(Path(self.igp_file).read_text())
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError, InvalidError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            raise UsageError(f"{self.igp_file}, with what the IGP says of routers, cannot be used: {why}") from None

    def with_routers(self, routers: Routers | None) -> Settings:
        return replace(self, routers=routers)

    def key_of(self, router: str) -> bytes:
        """Return a router's key. Each router has one of its own, so that no other can speak for it."""
        issue = self.routers.issues.get(router, 1) if self.routers else 1
        return router_key(self.key, router, issue)


def make_secrets(folder: Path) -> tuple[Path, Path]:
    """Write a new key and a new token, readable by their owner only. Files that are there stay as they are."""
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


def _ways_seed(environment: Mapping[str, str]) -> int:
    text = environment.get(WAYS_SEED, "0")
    if (seed := whole(text, 2**63)) is None:
        raise UsageError(f"{text[:40]!r} is no seed for equal ways ({WAYS_SEED}); write a whole number, such as 7")
    return seed


def _tls(environment: Mapping[str, str]) -> ssl.SSLContext | None:
    certificate, key = environment.get(TLS_CERTIFICATE), environment.get(TLS_KEY)
    if not certificate and not key:
        return None
    if not certificate or not key:
        raise UsageError(f"TLS needs a certificate and its key: set both {TLS_CERTIFICATE} and {TLS_KEY}")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(certificate, key, password="")
    except OSError as error:  # ssl.SSLError is one
        why = error.strerror or str(error)
        raise UsageError(f"the certificate {certificate} and key {key} cannot be used: {why}") from None
    return context


def _secret(environment: Mapping[str, str], variable: str, shortest: int) -> bytes:
    what = "key that routers' keys are made of" if variable == KEY_FILE else "token that users of REST show"
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
