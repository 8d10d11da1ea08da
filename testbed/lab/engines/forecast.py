"""The forecast of what setting up takes in network, disk and time, before anything is downloaded.

The figures are in `setup_costs.json`, which `bench/setup_costs.py` writes: it sets everything up in an empty cache and
measures. What Debian packages take is apt-get's own calculation.
"""

from __future__ import annotations

import enum
import json
import os
import re
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import resources

from testbed.lab.host import cores, prerequisites

FILE = "setup_costs.json"
_APT_DOWNLOAD = re.compile(r"Need to get ([\d.,]+) ([kMG]?B)")
_APT_DISK = re.compile(r"After this operation, ([\d.,]+) ([kMG]?B) of additional")
_UNITS = {"B": 1e-6, "kB": 1e-3, "MB": 1.0, "GB": 1e3}


class Step(enum.StrEnum):
    """A part of the set-up, in the order in which they are made."""

    ENVIRONMENT = "Python environment"
    IMAGE = "lab image"
    KERNEL = "kernel of um"
    ROOT = "root disk of um"
    SNAPSHOT = "snapshot of vm"


@dataclass(frozen=True)
class Cost:
    """The cost of a part of the set-up as it was measured, or of all parts on this machine."""

    download_mb: float = 0.0
    disk_mb: float = 0.0
    time_s: float = 0.0

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.download_mb + other.download_mb, self.disk_mb + other.disk_mb, self.time_s + other.time_s)


def costs(steps: Iterable[Step], cores: int) -> Cost:
    """Return what the steps take on a number of cores, of which only the compiler uses more than one."""
    table = json.loads((resources.files("testbed.lab") / FILE).read_text())
    total = Cost()
    for step in steps:
        measured = table["steps"][step]
        time_s = measured["cpu_s"] / (cores if step is Step.KERNEL else 1)
        total += Cost(measured["download_mb"], measured["disk_mb"], time_s)
    return total


def apt_cost(packages: Sequence[prerequisites.Package]) -> Cost | None:
    """Return what apt-get will download and unpack, or None if it cannot tell, as before its first update."""
    command = ["apt-get", "install", "--assume-no", "--no-install-recommends", *(p.name for p in packages)]
    try:
        done = subprocess.run(
            command, env={**os.environ, "LC_ALL": "C"}, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            check=False,
        )  # fmt: skip
    except OSError:
        return None
    download, disk = _APT_DOWNLOAD.search(done.stdout), _APT_DISK.search(done.stdout)
    if download is None or disk is None:
        return None
    return Cost(*(float(found[1].replace(",", "")) * _UNITS[found[2]] for found in (download, disk)))


def sentence(steps: Sequence[Step], packages: Iterable[prerequisites.Package]) -> str:
    """Return one sentence about what has to be set up on this machine; an empty one if nothing has."""
    return text(steps, [package for package in packages if not package.is_here()], len(cores.available()))


def text(steps: Sequence[Step], packages: Sequence[prerequisites.Package], cores: int) -> str:
    """Return one sentence for the user; an empty one if nothing has to be set up."""
    if not steps and not packages:
        return ""
    total, beside = costs(steps, cores), ""
    names = [str(step) for step in steps]
    if packages:
        names.insert(0, f"{len(packages)} Debian package{'s' * (len(packages) > 1)}")
        if (apt := apt_cost(packages)) is None:
            beside = ", and what apt-get will say of the Debian packages"
        else:
            total += apt
    space = f"about {_size(total.download_mb)} to download, {_size(total.disk_mb)} of disk{beside}"
    time = f"about {duration(total.time_s)} on {cores} core{'s' * (cores > 1)} and a fast network"
    return f"to be set up once: {', '.join(names)}; {space}; {time}"


def cost(step: Step) -> str:
    """Return what one step takes on one core, as a part of a sentence."""
    total = costs([step], 1)
    return f"about {_size(total.download_mb)} to download and {duration(total.time_s)}"


def _size(mb: float) -> str:
    return f"{mb / 1000:.1f} GB" if mb >= 1000 else f"{max(1, round(mb))} MB"


def duration(seconds: float) -> str:
    """Return a time as a forecast has it, in whole seconds or minutes."""
    return f"{max(1, round(seconds / 60))} min" if seconds > 90 else f"{max(1, round(seconds))} s"
