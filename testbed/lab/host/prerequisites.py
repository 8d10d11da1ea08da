"""Debian packages and kernel modules that Xoff depends on: the list (`packages.toml`), and which of them are present.

Nothing here installs anything.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

_ID_MAPPING = "uidmap"
DEBIAN_PYTHON = "/usr/lib/python3/dist-packages"
"""The place of Debian's Python packages, among them Mininet."""
_SBIN = ("/usr/local/sbin", "/usr/sbin", "/sbin")


@dataclass(frozen=True)
class Package:
    """A Debian package, and the program, file or Python module that shows that it is installed."""

    name: str
    why: str
    program: str = ""
    file: str = ""
    module: str = ""
    elsewhere: Mapping[str, str] = field(default_factory=dict, hash=False)
    """The names that other package managers have for it, as far as they have it."""

    def name_for(self, manager: str) -> str:
        """Return the name that a package manager has for it; an empty text if it has no such package."""
        return self.name if manager == "apt-get" else self.elsewhere.get(manager, "")

    def is_here(self) -> bool:
        if self.module:
            importlib.invalidate_caches()
            return importlib.util.find_spec(self.module) is not None
        if self.program:
            return find_program(self.program) is not None
        return Path(self.file).exists()


@dataclass(frozen=True)
class Module:
    """A kernel module that the lab uses."""

    name: str
    why: str
    probe: str = ""
    """A command that works only if the kernel has the module, for one that no list of built-in modules shows."""

    def is_here(self) -> bool:
        """Return True if the module is loaded, built in, or there to be loaded on demand."""
        if Path("/sys/module", self.name.replace("-", "_")).exists():
            return True
        tree = Path("/lib/modules", platform.release())
        wanted = self.name.replace("-", "_")
        for index in ("modules.builtin", "modules.dep"):
            try:
                lines = (tree / index).read_text().splitlines()
            except OSError:
                continue
            for line in lines:
                stem = Path(line.split(":")[0]).name.split(".")[0]
                if stem.replace("-", "_") == wanted:
                    return True
        return bool(self.probe) and self._try()

    def _try(self) -> bool:
        """Try the command in a network namespace of its own, which is gone afterwards; this takes root."""
        try:
            done = subprocess.run(["unshare", "-n", *self.probe.split()], capture_output=True, check=False)
        except OSError:
            return False
        return done.returncode == 0


@functools.cache
def table() -> dict[str, Any]:
    """Return the whole list as it is written."""
    return tomllib.loads((resources.files("testbed.lab") / "packages.toml").read_text())


def build_packages() -> list[Package]:
    """Return the packages that this machine needs to build the image and a kernel; root needs no mapping of ids."""
    found = [Package(**entry) for entry in table()["machine"]["packages"]]
    return [package for package in found if package.name != _ID_MAPPING or os.geteuid() != 0]


def qemu_packages() -> list[Package]:
    """Return the packages that this machine needs to run virtual machines."""
    return [Package(**entry) for entry in table()["machine"]["qemu"]["packages"]]


def machine_packages() -> list[Package]:
    """Return all packages that any user of this machine needs, to build labs and to run them."""
    machine = table()["machine"]
    return [Package(**entry) for entry in [*machine["qemu"]["packages"], *machine["packages"]]]


def front_door_packages() -> list[Package]:
    """Return the packages that making a Python environment takes."""
    return [Package(**entry) for entry in table()["front_door"]["packages"]]


def box_packages() -> list[Package]:
    """Return the packages that a Vagrant box has besides."""
    return [Package(**entry) for entry in table()["box"]["packages"]]


def test_packages() -> list[Package]:
    """Return the packages that the whole test suite needs in addition."""
    return [Package(**entry) for entry in table()["test"]["packages"]]


def lab_packages() -> list[Package]:
    """Return the packages that Xoff itself needs inside the lab."""
    return [Package(**entry) for entry in table()["lab"]["packages"]]


def script_packages() -> list[Package]:
    """Return the packages of other programs that scripts for Mininet call."""
    return [Package(**entry) for entry in table()["lab"]["scripts"]["packages"]]


def image_packages() -> list[Package]:
    """Return all packages that are installed in the image."""
    return [*lab_packages(), *script_packages()]


def lab_modules() -> list[Module]:
    """Return the kernel modules that the lab uses."""
    return [Module(**entry) for entry in table()["lab"]["kernel"]["modules"]]


def find_program(name: str) -> str | None:
    """Return the path of a program, or None; Debian keeps some where an ordinary user's PATH does not look."""
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), *_SBIN])
    return shutil.which(name, path=path)


def main(arguments: Sequence[str]) -> int:
    """Print the names of a list, for scripts with plain Python: `python3 -m testbed.lab.host.prerequisites box`."""
    machine, test, lab = (
        [package.name for package in packages] for packages in (machine_packages(), test_packages(), image_packages())
    )
    # A box is a machine and a lab in one.
    more = [package.name for package in (*front_door_packages(), *box_packages())]
    box = [*machine, *lab, str(table()["lab"]["kernel"]["box"]), *more]
    lists = {"box": box, "machine": machine, "lab": lab, "test": test}
    if len(arguments) != 1 or arguments[0] not in lists:
        print(f"usage: python3 -m testbed.lab.host.prerequisites {'|'.join(lists)}", file=sys.stderr)
        return 2
    print(*dict.fromkeys(lists[arguments[0]]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
