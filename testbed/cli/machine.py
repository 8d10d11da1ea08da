"""Set-up of this machine: report what is missing and why, then install it. Standard library only,
because the front door uses it before anything is installed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence

from testbed.errors import XoffError
from testbed.lab.host import distribution
from testbed.lab.host.prerequisites import Package
from testbed.lab.image.fetching import OTHER_MACHINE

Report = Callable[[str], None]


class MachineError(XoffError):
    """Raised if this machine lacks something that Xoff cannot install."""

    exit_code = 3


YES = "--yes"
"""The option of commands that install packages to do so without a question; `XOFF_YES=1` is the same."""


def require(packages: Sequence[Package], report: Report) -> None:
    """Install the Debian packages that are missing; does nothing when none is. At a terminal it asks first."""
    missing = [package for package in packages if not package.is_here()]
    if not missing:
        return
    check_platform(missing)
    asks = sys.stdin.isatty() and YES not in sys.argv[1:] and not os.environ.get("XOFF_YES")
    tell = _write if asks else report  # a report may draw over the question
    width = max(len(package.name) for package in missing)
    tell("this machine needs:")
    for package in missing:
        tell(f"  {package.name:<{width}}  {package.why}")
    if asks:
        _ask([package.name for package in missing])
    install([package.name for package in missing], report)
    still = [package.name for package in missing if not package.is_here()]
    if still:
        raise MachineError(f"installed, but still not found: {', '.join(still)}; is PATH or the system unusual?")


def _write(text: str) -> None:
    print(f"xoff: {text}", file=sys.stderr, flush=True)


def _ask(names: Sequence[str]) -> None:
    """Ask the user, and raise an error if the answer is not yes."""
    print("xoff: install them with apt-get? [Y/n] ", end="", file=sys.stderr, flush=True)
    answer = sys.stdin.readline()
    if answer.strip().lower() not in ("", "y", "yes") or not answer:
        raise MachineError(
            f"nothing was installed; `apt-get install {' '.join(names)}` does it, and {YES} here does not ask"
        )


def install(names: Sequence[str], report: Report) -> None:
    """Install Debian packages, as root or through sudo."""
    apt = ["apt-get", "-q", "-y", "-o", "Dpkg::Use-Pty=0"]
    prefix: list[str] = []
    if os.geteuid() != 0:
        if shutil.which("sudo") is None:
            raise MachineError(f"as root, run: apt-get install {' '.join(names)}; or {OTHER_MACHINE}")
        # Without a terminal sudo must not wait for a password.
        prefix = ["sudo"] if sys.stdin.isatty() else ["sudo", "-n"]
    report(f"installing {', '.join(names)}")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    commands = (
        [*prefix, *apt, "update"],
        [*prefix, *apt, "install", "--no-install-recommends", *names],
    )
    for command in commands:
        done = subprocess.run(
            command, stdin=None if sys.stdin.isatty() else subprocess.DEVNULL, env=environment,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", check=False,
        )  # fmt: skip
        if done.returncode:
            tail = "\n  ".join(done.stdout.strip().splitlines()[-6:])
            raise MachineError(f"`{' '.join(command)}` failed:\n  {tail}")


def check_platform(missing: Sequence[Package] = ()) -> None:
    """Raise an error that names the way out on a system where Xoff cannot install anything."""
    box = "run it in a box: vagrant up && vagrant ssh"
    if sys.platform != "linux":
        distribution.require_labs()
    if not shutil.which(distribution.APT):
        remedy = distribution.remedy(missing)
        raise MachineError(
            f"this {distribution.name()} lacks {', '.join(package.name for package in missing) or 'nothing'}; Xoff "
            f"installs with apt-get alone, and there is none in PATH. As root: {remedy}. Or {OTHER_MACHINE}, for which "
            f"Python is enough; or {box}"
        )
