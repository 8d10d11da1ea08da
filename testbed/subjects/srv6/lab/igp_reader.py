"""The database of IS-IS, read from one FRR router of a lab, for the SR policy controller.

IS-IS floods what each router has, so one router knows all: locators, End and End.X SIDs (RFC 9352), neighbours and
metrics. Nobody asks the others, which may have nothing but FRR. In a network over several kernels the router may be in
another part than the controller, which then has an inbox.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from ipaddress import IPv6Address
from typing import Any

from testbed.linux.process import kernel
from testbed.linux.process.forked_helper import READY, Ending, ForkedHelper, PacketPipe
from testbed.subjects.routing.lab.route_table import RouteNotices
from testbed.subjects.srv6.controller.network import IgpNeighbour, IgpRouter, write

_AGAIN_S = 1.0
"""How often the database is read while no route changes: not each of its changes moves a route."""


class IgpReader:
    """A process that reads the database when routes of its router change, and passes on what is new in it."""

    def __init__(self, router: Any, names: Mapping[str, str], take: Callable[[str], None]) -> None:
        self._router, self._names, self._take = router, names, take
        self._command = router.daemons.vtysh("-c", "show isis database detail json")
        self._helper: ForkedHelper[PacketPipe] | None = None

    def __enter__(self) -> IgpReader:
        self._helper = ForkedHelper(
            f"reading the IGP of {self._router.name} failed", self._read, PacketPipe.pair(), Ending.RETURNS,
            name="xoff-igp",
        )  # fmt: skip
        self._helper.receive()
        return self

    def __exit__(self, *_: object) -> None:
        if self._helper is not None:
            self._helper.stop()

    def _read(self, pipe: PacketPipe) -> None:
        notices, told = RouteNotices(self._router.pid), ""
        pipe.send(READY)
        while True:
            done = subprocess.run(self._command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
            if done.returncode == 0:  # else its daemons have ended: what is known stays
                text = write(described(json.loads(done.stdout), self._names))
                if text != told:
                    self._take(text)
                    told = text
            if pipe.fileno() in kernel.wait_readable([pipe, notices], _AGAIN_S):
                return
            for _ in notices.read():
                pass


class IgpInbox:
    """A process that takes what the reader in another part of the network sends (`send`), at a Unix socket."""

    def __init__(self, path: str, take: Callable[[str], None]) -> None:
        self._take = take
        self._listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        with suppress(FileNotFoundError):
            os.unlink(path)  # noqa: PTH108 - of an inbox before
        self._listening.bind(path)
        self._listening.listen()
        self._helper: ForkedHelper[PacketPipe] | None = None

    def __enter__(self) -> IgpInbox:
        self._helper = ForkedHelper(
            "taking what the IGP says failed", self._receive, PacketPipe.pair(), Ending.RETURNS, name="xoff-igp"
        )
        self._listening.close()
        return self

    def __exit__(self, *_: object) -> None:
        if self._helper is not None:
            self._helper.stop()

    def _receive(self, pipe: PacketPipe) -> None:
        while pipe.fileno() not in kernel.wait_readable([pipe, self._listening]):
            connection, _ = self._listening.accept()
            with connection, connection.makefile(encoding="utf-8") as sent:
                self._take(sent.read())


def send(path: str, text: str) -> None:
    """Send a text to the inbox at a Unix socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.connect(path)
        connection.sendall(text.encode())


def described(database: Any, names: Mapping[str, str]) -> list[IgpRouter]:
    """Return the routers of FRR's `show isis database detail json` that have a locator, by `names` of their systems.

    A router with several fragments of its link state packet has what is in any of them.
    """
    found: dict[str, dict[str, Any]] = {}
    for area in database.get("areas", ()):
        for level in area.get("levels", ()):
            for packet in level.get("lsps", ()):
                system = packet["lsp"]["id"].partition(".00-")[0]
                if system not in names:
                    continue
                whole = found.setdefault(system, {"end": [], "addresses": [], "neighbours": []})
                whole["end"] += _end(packet)
                whole["addresses"] += _addresses(packet)
                whole["neighbours"] += _neighbours(packet, names)
    return [
        IgpRouter(names[system], min(whole["addresses"]), tuple(whole["end"]), tuple(whole["neighbours"]))
        for system, whole in sorted(found.items())
        if whole["end"] and whole["addresses"]
    ]


def _end(packet: Any) -> Iterator[IPv6Address]:
    sid = packet.get("srv6Locator", {}).get("subtlvs", {}).get("srv6EndSid")
    if sid is not None:
        yield IPv6Address(sid["sidValue"])


def _addresses(packet: Any) -> Iterator[IPv6Address]:
    for reached in packet.get("ipv6Reach", ()):
        address, _, length = reached["prefix"].partition("/")
        if length == "128":
            yield IPv6Address(address)


def _neighbours(packet: Any, names: Mapping[str, str]) -> Iterator[IgpNeighbour]:
    for reached in packet.get("extReach", ()):
        name = names.get(reached["id"].removesuffix(".00"))
        if name is not None:
            sids = tuple(IPv6Address(sid["sid"]) for sid in reached.get("srv6EndXSID", ()))
            yield IgpNeighbour(name, reached["metric"], sids)
