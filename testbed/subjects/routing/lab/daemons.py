"""The daemons of one router: started in its namespace, asked, watched for their end, and killed with the network."""

from __future__ import annotations

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
from testbed.subjects.routing.router import Router
from testbed.subjects.routing.software import Software

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
