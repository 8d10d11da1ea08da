"""The Linux that this machine has: its name, its package manager, and whether it runs labs at all. Nothing is installed
here."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from testbed.errors import XoffError
from testbed.lab.host.prerequisites import Package

_RELEASE = Path("/etc/os-release")
APT = "apt-get"
_INSTALLS = {
    APT: "apt-get install",
    "dnf": "dnf install",
    "pacman": "pacman -S",
    "zypper": "zypper install",
    "apk": "apk add",
}
"""The command of each package manager that installs packages."""
_FAMILIES = {
    "debian": APT, "ubuntu": APT, "fedora": "dnf", "rhel": "dnf", "centos": "dnf", "arch": "pacman", "suse": "zypper",
    "opensuse": "zypper", "alpine": "apk",
}  # fmt: skip
"""The package manager of each family, by the words of ID and ID_LIKE in os-release."""


class PlatformError(XoffError):
    """This machine runs no labs."""

    exit_code = 3


def runs_labs() -> bool:
    """Return True if the kernels of labs, which are of x86-64, run here."""
    return sys.platform == "linux" and os.uname().machine == "x86_64"


def require_labs() -> None:
    """Raise an error that says what works here, if labs do not."""
    if not runs_labs():
        raise PlatformError(
            f"labs need Linux on x86-64, and this is {name()} on {os.uname().machine}. They run in a container under "
            "emulation (podman run --platform linux/amd64), or in a box (vagrant up); here work xoff list, report, "
            "compare, plot, decode, switch check, switch headroom and whatever else takes no lab"
        )


def name() -> str:
    """Return the name of this system for people."""
    return _release().get("PRETTY_NAME") or sys.platform


def manager() -> str | None:
    """Return the package manager of this system; None if it has none that we know.

    That of the family counts if it is there, or if no other one is: a system can have several.
    """
    here = [program for program in _INSTALLS if shutil.which(program)]
    release = _release()
    words = [release.get("ID", ""), *release.get("ID_LIKE", "").split()]
    family = [found for word in words if (found := _FAMILIES.get(word.partition("-")[0]))]
    return next((one for one in family if one in here), None) or next(iter([*here, *family]), None)


def remedy(packages: Sequence[Package]) -> str:
    """Return the command that installs these packages here, and which of them this system has not."""
    packager = manager()
    if packager is None:
        return f"install {', '.join(package.name for package in packages)} in the way of this system"
    names = [package.name_for(packager) for package in packages]
    absent = [package.name for package, known in zip(packages, names, strict=True) if not known]
    known = [one for one in names if one]
    said = f"{_INSTALLS[packager]} {' '.join(dict.fromkeys(known))}" if known else ""
    without = f"{packager} has no package of {' and '.join(absent)} that is known to us" if absent else ""
    return ", but ".join(filter(None, [said, without]))


def _release() -> dict[str, str]:
    """Return what `os-release` says; nothing if it is not there."""
    try:
        pairs = (line.partition("=") for line in _RELEASE.read_text(errors="replace").splitlines())
        return {key.strip(): next(iter(shlex.split(value)), "") for key, _, value in pairs if key.strip()}
    except (OSError, ValueError):
        return {}
