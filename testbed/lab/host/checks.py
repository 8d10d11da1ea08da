"""The checks of `xoff doctor`: one for each thing that an engine needs of this machine."""

from __future__ import annotations

import os
import pwd
from dataclasses import dataclass
from pathlib import Path

from testbed.errors import XoffError
from testbed.lab.host import cache, distribution
from testbed.lab.host.prerequisites import Package


@dataclass(frozen=True)
class Check:
    """One thing that was looked at."""

    engine: str
    what: str
    ok: bool
    found: str
    remedy: str = ""
    optional: bool = False
    """True if labs run without it, and are protected less."""


def package(engine: str, wanted: Package) -> Check:
    """Check that a Debian package is installed."""
    ok = wanted.is_here()
    return Check(engine, wanted.name, ok, wanted.why, "" if ok else distribution.remedy([wanted]))


def building(engine: str, is_built: bool, packages: list[Package], room_gb: int) -> list[Check]:
    """Check what building a lab takes, unless it is built already."""
    if not distribution.runs_labs():
        remedy = "run labs in a container under emulation: podman run --platform linux/amd64"
        return [Check(engine, "an x86-64 processor", False, os.uname().machine, remedy)]
    if is_built:
        return [Check(engine, "the lab", True, f"built or imported, in {cache.root()}")]
    checks = [package(engine, wanted) for wanted in packages]
    if os.geteuid() != 0:
        name = user()
        ok = any(line.startswith(f"{name}:") for line in lines("/etc/subuid"))
        remedy = f"sudo usermod --add-subuids 100000-165535 --add-subgids 100000-165535 {name}"
        checks.append(Check(engine, "user ids for building the image", ok, name, "" if ok else remedy))
    try:
        cache.require_room(cache.root(), room_gb << 30, "what the lab is built from and into")
        checks.append(Check(engine, "room for what is built", True, str(cache.root())))
    except XoffError as error:
        checks.append(Check(engine, "room for what is built", False, str(cache.root()), str(error)))
    return checks


def user() -> str:
    """Return the name of the user, or the number of one without a name, as a container may be started with."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


def lines(path: str) -> list[str]:
    """Return the lines of a file; none if it cannot be read."""
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []
