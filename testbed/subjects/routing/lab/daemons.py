"""The daemons of one router: started in its namespace, asked, watched for their end, and killed with the network.

BIRD in a router: one daemon, which reads its configuration when it starts; birdc asks it.

FRR in a router: zebra and the daemons of its protocols, with the configuration that vtysh gives them.

FRR's option -N keeps routers apart: the files of r1 are in /etc/frr/r1, its sockets and logs in /run/frr/r1.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from testbed.errors import XoffError, listed, plain, warn
from testbed.linux.process import kernel
from testbed.subjects.routing.bird import Bird
from testbed.subjects.routing.frr import Frr
from testbed.subjects.routing.router import Router, Software

_PATIENCE_S, _LOOK_S = 20.0, 0.001
_LINES = 6
_LOG_ENTRY = re.compile(r"^\S+ \S+ ")
"""The time at the beginning of a line of a log."""


class RoutingError(XoffError):
    """A routing daemon could not be started, has ended, or refuses something."""


class Daemons(ABC):
    """The daemons of a router, whatever software they are."""

    software: Software

    def __init__(self, router: Router, node: Any) -> None:
        self.router, self._node = router, node
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self.text = ""
        """The configuration, once it has been made."""

    @property
    def names(self) -> list[str]:
        """The daemons that run, or should."""
        return list(self._running)

    @abstractmethod
    def check(self) -> subprocess.Popen[str]:
        """Write the configuration, and start the program that checks it."""

    @abstractmethod
    def stages(self) -> Sequence[Sequence[str]]:
        """Return the daemons in the order of their start; those of a stage are started together."""

    @abstractmethod
    def command(self, daemon: str) -> list[str]:
        """Return the command line of a daemon, which stays in the foreground."""

    @abstractmethod
    def socket(self, daemon: str) -> Path:
        """Return the socket of a daemon, which is there when it can be asked."""

    @abstractmethod
    def log(self, daemon: str) -> Path:
        """Return the file with what a daemon reports."""

    @abstractmethod
    def apply(self) -> subprocess.Popen[str] | None:
        """Start the program that gives running daemons the configuration, if they have not read it at their start."""

    @abstractmethod
    def remove(self) -> None:
        """Remove all files of the router."""

    @abstractmethod
    def complaint(self, said: str) -> str:
        """Return what is wrong with the configuration, by the words of the program that checked it."""

    @abstractmethod
    def sessions(self) -> dict[str, str]:
        """Return the state of each BGP session that is configured and not turned off, by its neighbour; it is empty if
        the session has been up."""

    def adjacencies(self) -> dict[tuple[str, str], str]:
        """Return the state of what the router has at each port where a protocol looks for neighbours by itself, by the
        protocol and the port; it is empty if there is a neighbour. None of BIRD are known.
        """
        return {}

    @abstractmethod
    def interfaces(self) -> set[str]:
        """Return the interfaces that the configuration names, without patterns."""

    def require_interfaces(self, known: Iterable[str]) -> None:
        """Refuse a configuration of the user's for a port that the router has not."""
        for name in sorted(self.interfaces() - set(known)) if self.software.config else ():
            ports = listed(f"{port.name} to {port.neighbour}" for port in self.router.ports)
            told = f"router {self.router.name}: its configuration names the interface {name}, which is not there"
            if "-eth" in name:
                raise RoutingError(f"{told}; its ports are {ports} (those of routers and hosts count from 0)")
            warn(f"{told} yet; its ports are {ports}")

    def ask(self, program: str, *commands: str) -> str:
        """Return the answer of the daemons to commands for this program, which is the software's own."""
        raise RoutingError(
            f"router {self.router.name}: there is no {program} for {type(self.software).__name__}'s daemons"
        )

    def start(self, daemon: str) -> None:
        """Start a daemon in the router's namespace."""
        command = self.command(daemon)
        with open(self.log(daemon), "ab") as out:
            try:
                with kernel.in_network_of(self._node.pid):
                    self._running[daemon] = subprocess.Popen(
                        command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT
                    )
            except OSError as error:
                raise RoutingError(f"router {self.router.name}: {command[0]}: {error.strerror}") from None

    def wait_for(self, daemons: Iterable[str]) -> None:
        """Wait until daemons can be asked."""
        deadline = time.monotonic() + _PATIENCE_S
        for daemon in daemons:
            while not self.socket(daemon).exists():
                self.require_alive()
                if time.monotonic() > deadline:
                    raise RoutingError(f"router {self.router.name}: {daemon} does not answer{self._reason(daemon)}")
                time.sleep(_LOOK_S)

    def require_alive(self) -> None:
        """Raise an error that names a daemon which has ended."""
        for daemon, process in self._running.items():
            if (code := process.poll()) is not None:
                how = f"was killed by signal {-code}" if code < 0 else f"ended with {code}"
                raise RoutingError(f"router {self.router.name}: {daemon} {how}{self._reason(daemon)}")

    def kill(self, daemon: str) -> None:
        """Kill a daemon, as a failure of the router's software would; the network goes on without it."""
        if daemon not in self._running:
            known = ", ".join(self._running) or "none"
            raise RoutingError(f"router {self.router.name} has no {daemon} that runs; it has {known}")
        process = self._running.pop(daemon)
        process.kill()
        process.wait()

    def stop(self) -> None:
        """Kill all daemons, and remove their files."""
        for process in self._running.values():
            process.kill()
        for process in self._running.values():
            process.wait()
        self._running.clear()
        self.remove()

    def require_done(self, program: subprocess.Popen[str], what: str) -> None:
        """Wait for a program that checks or applies the configuration, and raise an error with its words."""
        said = program.communicate()[0] or ""
        if program.returncode:
            raise RoutingError(f"router {self.router.name}: {what}: {self.complaint(plain(said))}")

    def _reason(self, daemon: str) -> str:
        try:
            lines = [_LOG_ENTRY.sub("", line) for line in self.log(daemon).read_text(errors="replace").splitlines()]
        except OSError:
            lines = []
        return "".join([":", *(f"\n  {plain(line)}" for line in lines[-_LINES:])]) if lines else ", without a word"


def program(command: Sequence[str], **more: Any) -> subprocess.Popen[str]:
    """Start a program whose output is read at its end."""
    return subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        errors="replace", **more,
    )  # fmt: skip


def make_folder(path: Path, owner: tuple[int, int]) -> None:
    """Make a folder for a daemon that does not run as root."""
    path.mkdir(parents=True, exist_ok=True)
    os.chown(path, *owner)


def require_program(router: str, software: Software, path: Path) -> None:
    """Refuse to start software that the lab lacks."""
    if not path.exists():
        package = software.package
        raise RoutingError(
            f"router {router}: {type(software).__name__} needs the Debian package {package}, which this lab "
            f'lacks: write @experiment(debs=["{package}"]), or run it with --with-deb {package}'
        )


def remove(*paths: Path) -> None:
    for path in paths:
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


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
_TURNED_OFF, _ALONE = "Idle (Admin)", "without a neighbour"
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
        users = _USERS.search(self._inside(Path("/etc/passwd")).read_text())
        assert users is not None
        owner = int(users[1]), int(users[2])
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
        match = _LINE.search(said)
        if match is None:
            return " ".join(said.split()) or "no reason was given"
        return f"line {match[1]}: {_CODE.sub(': ', match[2]).strip()}"

    def sessions(self) -> dict[str, str]:
        if "bgpd" not in self.names:
            return {}
        families = [family for one in self._told("show bgp summary json") for family in one.values()]
        return {
            name: "" if peer.get("connectionsEstablished") or peer.get("state") == _UP else str(peer.get("state"))
            for family in families
            if isinstance(family, dict)
            for name, peer in family.get("peers", {}).items()
            if peer.get("state") != _TURNED_OFF
        }

    def adjacencies(self) -> dict[tuple[str, str], str]:
        asked = [("ospfd", "show ip ospf interface json"), ("isisd", "show isis interface detail json")]
        commands = [
            command for daemon, command in (*asked, ("isisd", "show isis neighbor json")) if daemon in self.names
        ]
        told = self._told(*commands) if commands else []
        by_neighbour = {}
        for port, has in (item for one in told for item in one.get("interfaces", {}).items()):
            if has.get("ospfEnabled") and has.get("ifUp") and not has.get("timerPassiveIface"):
                state = "not synchronised" if has.get("nbrCount") else _ALONE
                by_neighbour["OSPF", port] = "" if has.get("nbrAdjacentCount") else state
        circuits = [one for said in told for area in said.get("areas", ()) for one in area.get("circuits", ())]
        neighbours = {one["interface"]: one.get("state") for one in circuits if isinstance(one.get("interface"), str)}
        for has in (one["interface"] for one in circuits if isinstance(one.get("interface"), dict)):
            if has.get("state") == "Up" and has.get("is-passive") == "active":
                state = neighbours.get(has["name"]) or _ALONE
                by_neighbour["IS-IS", has["name"]] = "" if state == "Up" else state
        return by_neighbour

    def _told(self, *commands: str) -> list[Any]:
        """Ask vtysh several commands, and return each JSON object among what it prints."""
        said, found, at = self.ask("vtysh", *commands), [], 0
        while (at := said.find("{", at)) >= 0:
            value, at = json.JSONDecoder().raw_decode(said, at)
            found.append(value)
        return found

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
