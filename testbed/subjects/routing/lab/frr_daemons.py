"""FRR in a router: zebra and the daemons of its protocols, with the configuration that vtysh gives them.

FRR's option -N keeps routers apart: the files of r1 are in /etc/frr/r1, its sockets and logs in /run/frr/r1.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from testbed.linux.process import kernel
from testbed.subjects.routing.frr import Frr
from testbed.subjects.routing.lab.daemons import (
    Daemons,
    RoutingError,
    make_folder,
    program,
    remove,
    require_program,
)
from testbed.subjects.routing.router import Router

_PROGRAMS = Path("/usr/lib/frr")
_SETTINGS, _SOCKETS = Path("/etc/frr"), Path("/run/frr")
_ROOTS = Path("/opt")
"""The folder with a root for each other release of Debian (`lab/image/deb_tree.py`)."""
_SHARED = ("proc", "sys", "dev", "run", "tmp")
"""The folders that such a root shares with the lab's."""
_USERS = re.compile(r"^frr:[^:]*:(\d+):(\d+):", re.MULTILINE)
_LINE = re.compile(r"^line (\d+): (.*)$", re.MULTILINE)
_INTERFACE = re.compile(
    r"^ *interface +(\S+)|^ *neighbor +(\S+) +interface\b|^ *(?:no +)?passive-interface +(\S+)", re.MULTILINE
)
_UP, _TURNED_OFF = "Established", "Idle (Admin)"
_CODE = re.compile(r"\[\d+\]: *")


class FrrDaemons(Daemons):
    """The daemons of FRR."""

    def __init__(self, software: Frr, router: Router, node: Any) -> None:
        super().__init__(router, node)
        self.software: Frr = software
        self._root = _ROOTS / software.release if software.release else Path("/")
        require_program(router.name, software, self._inside(_PROGRAMS / "zebra"))
        self._settings = self._inside(_SETTINGS / router.name)
        self._sockets = _SOCKETS / router.name

    def check(self) -> subprocess.Popen[str]:
        self.text = self.software.text(self.router)
        if self.software.release:
            for name in _SHARED:
                if not os.path.ismount(self._root / name):
                    kernel.bind(f"/{name}", str(self._root / name))
        found = _USERS.search(self._inside(Path("/etc/passwd")).read_text())
        assert found is not None
        owner = int(found[1]), int(found[2])
        for folder in (self._settings, self._sockets):
            make_folder(folder, owner)
        self._write("vtysh.conf", "", owner)
        self._write("frr.conf", self.text, owner)
        return program(self.vtysh("-C"))

    def stages(self) -> Sequence[Sequence[str]]:
        zebra, *others = self.software.daemons(self.text)
        first = [one for one in others if one == "mgmtd"]
        return [*first, zebra], [one for one in others if one not in first]

    def command(self, daemon: str) -> list[str]:
        if not self._inside(_PROGRAMS / daemon).exists():
            raise RoutingError(f"router {self.router.name}: FRR has no daemon {daemon}, which its configuration needs")
        logged = ["--log", f"file:{self.log(daemon)}", "--log-level", "informational"]
        return [*self._entering, f"{_PROGRAMS}/{daemon}", "-N", self.router.name, *logged]

    def socket(self, daemon: str) -> Path:
        return self._sockets / f"{daemon}.vty"

    def log(self, daemon: str) -> Path:
        return self._sockets / f"{daemon}.log"

    def apply(self) -> subprocess.Popen[str]:
        return program(self.vtysh("-b"))

    def remove(self) -> None:
        remove(self._settings, self._sockets)

    def complaint(self, said: str) -> str:
        found = _LINE.search(said)
        if found is None:
            return " ".join(said.split()) or "no reason was given"
        return f"line {found[1]}: {_CODE.sub(': ', found[2]).strip()}"

    def sessions(self) -> dict[str, str]:
        if "bgpd" not in self.names:
            return {}
        said = self.ask("vtysh", "show bgp summary json")
        families = json.loads(said).values() if said.lstrip().startswith("{") else ()
        return {
            name: "" if peer.get("connectionsEstablished") or peer.get("state") == _UP else str(peer.get("state"))
            for family in families
            if isinstance(family, dict)
            for name, peer in family.get("peers", {}).items()
            if peer.get("state") != _TURNED_OFF
        }

    def interfaces(self) -> set[str]:
        return {name for found in _INTERFACE.findall(self.text) for name in found if name} - {"default"}

    def ask(self, program: str, *commands: str) -> str:
        if program != "vtysh":
            return super().ask(program, *commands)
        self.require_alive()
        done = subprocess.run(
            self.vtysh(*(word for command in commands for word in ("-c", command))),
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
            check=False,
        )  # fmt: skip
        if done.returncode:
            raise RoutingError(f"router {self.router.name}: vtysh: {' '.join(done.stdout.split())}")
        return done.stdout

    def vtysh(self, *arguments: str) -> list[str]:
        """Return the command of vtysh for this router, with arguments."""
        return [*self._entering, "vtysh", "-N", self.router.name, *arguments]

    @property
    def _entering(self) -> list[str]:
        return ["chroot", str(self._root)] if self.software.release else []

    def _inside(self, path: Path) -> Path:
        """Return the lab's path of what is a path in FRR's root."""
        return self._root / path.relative_to("/")

    def _write(self, name: str, text: str, owner: tuple[int, int]) -> None:
        path = self._settings / name
        path.write_text(text)
        os.chown(path, *owner)
