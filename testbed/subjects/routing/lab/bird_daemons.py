"""BIRD in a router: one daemon, which reads its configuration when it starts; birdc asks it."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from testbed.subjects.routing.bird import Bird
from testbed.subjects.routing.lab.daemons import Daemons, RoutingError, make_folder, program, remove, require_program
from testbed.subjects.routing.router import Router

_DAEMON = Path("/usr/sbin/bird")
_INTERFACES = re.compile(r'\binterface +((?:"[^"]*"[ ,]*)+)')
_NAME = re.compile(r'"([^"]+)"')
_UP = "Established"
_PLACE = Path("/run/xoff-bird")
_REFUSED = ("syntax error", "No such command", "Incomplete command", "Ambiguous command")
"""The beginnings of what birdc says to what is no command; it ends with 0 all the same."""


class BirdDaemons(Daemons):
    """The daemon of BIRD."""

    def __init__(self, software: Bird, router: Router, node: Any) -> None:
        super().__init__(router, node)
        self.software: Bird = software
        require_program(router.name, software, _DAEMON)
        self._place = _PLACE / router.name

    def check(self) -> subprocess.Popen[str]:
        self.text = self.software.text(self.router)
        make_folder(self._place, (0, 0))
        self._file.write_text(self.text)
        return program([str(_DAEMON), "-p", "-c", str(self._file)])

    def stages(self) -> Sequence[Sequence[str]]:
        return [["bird"]]

    def command(self, daemon: str) -> list[str]:
        return [str(_DAEMON), "-f", "-c", str(self._file), "-s", str(self.socket(daemon))]

    def socket(self, daemon: str) -> Path:
        return self._place / f"{daemon}.ctl"

    def log(self, daemon: str) -> Path:
        return self._place / f"{daemon}.log"

    def apply(self) -> None:
        """Do nothing: it has read its file."""

    def remove(self) -> None:
        remove(self._place)

    def complaint(self, said: str) -> str:
        """Return BIRD's words, as in "line 3: syntax error, unexpected ..."."""
        words = " ".join(said.split()).replace("bird: ", "").replace(f"{self._file}:", "line ")
        return words or "no reason was given"

    def sessions(self) -> dict[str, str]:
        if "bird" not in self.names:
            return {}
        rows = [line.split(maxsplit=5) for line in self.ask("birdc", "show protocols").splitlines()]
        found = {row[0]: " ".join(row[5:]) for row in rows if len(row) > 3 and row[1] == "BGP" and row[3] != "down"}
        return {name: "" if info.startswith(_UP) else info or "down" for name, info in found.items()}

    def interfaces(self) -> set[str]:
        lists = _INTERFACES.findall(self.text)
        return {name for one in lists for name in _NAME.findall(one) if not {"*", "?"} & {*name} and name[:1] != "-"}

    def ask(self, program: str, *commands: str) -> str:
        if program != "birdc":
            return super().ask(program, *commands)
        self.require_alive()
        done = subprocess.run(
            ["birdc", "-s", str(self.socket("bird")), *" ".join(commands).split()],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
            check=False,
        )  # fmt: skip
        lines = done.stdout.splitlines()
        answer = "\n".join(lines[1:] if lines and lines[0].startswith("BIRD ") else lines)
        if done.returncode or answer.startswith(_REFUSED):
            raise RoutingError(f"router {self.router.name}: birdc: {' '.join(answer.split())}")
        return answer

    @property
    def _file(self) -> Path:
        return self._place / "bird.conf"
