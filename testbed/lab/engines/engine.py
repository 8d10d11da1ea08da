"""The engines: where labs run. `Engine` is what each of them can do, `PreparedEngine` is one that is ready for jobs.

An engine is a class in a file of its own (`um.py`, `vm.py`, `realtime.py`, `host.py`) and an entry in `table.py`. All
others ask it: no code outside of its file compares its name with anything.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Protocol

import testbed
from testbed.errors import UsageError
from testbed.experiment.output import Record
from testbed.lab.engines.forecast import Step
from testbed.lab.engines.load import RunCosts
from testbed.lab.host.cache import Report
from testbed.lab.host.checks import Check
from testbed.lab.host.prerequisites import Package
from testbed.lab.image import packages as further
from testbed.lab.image.packages import Packages
from testbed.lab.partition.gang import Gang
from testbed.lab.results.result import Provenance


class RunningJob(Protocol):
    """A job at work."""

    stream: Path
    """The file to which the supervisor's records are appended."""

    def lost(self) -> str | None:
        """Return the reason for which nothing will come any more, or None while the lab runs."""

    def send(self, record: Record) -> None:
        """Give the supervisor a command."""

    def cpu_s(self) -> float | None:
        """Return the CPU time in s that the lab's kernel has taken so far; None if it is not known."""

    def used_cpu_s(self) -> float | None:
        """Return the CPU time in s that all processes of the lab have taken so far; None if it is not known."""

    def spins(self) -> str | None:
        """Return the command line of a program that has computed since the last call of this while the lab's clock
        stood still, or nothing if that is not known; None if there is none."""

    def close(self) -> None:
        """End the job now."""


class Engine(ABC):
    """An engine: what it needs of this machine, and how it is made ready for jobs."""

    name: ClassVar[str]
    """The word for `--engine`."""
    summary: ClassVar[str]
    """A phrase for the help of `--engine`."""
    reproducible: ClassVar[bool] = False
    """True if the lab's time is virtual, so that two runs of a job give the same digest."""
    cpu_takes_time: ClassVar[bool] = True
    """True if work of the CPU takes time of the lab, so that results depend on the code that runs."""
    runs_image: ClassVar[bool] = True
    """True if the lab is the image on a kernel of its own, which are of x86-64."""
    interactive: ClassVar[bool] = True
    """True if a user can take part: the lab's clock is real, or waits for the user."""
    joins_clusters: ClassVar[bool] = False
    """True if workers of a cluster, which have only Python and Dask, can run it."""

    divides: ClassVar[bool] = False
    """True if it can run one network over several kernels."""

    def __str__(self) -> str:
        return self.name

    @abstractmethod
    def prepare(self, report: Report, packages: Sequence[str] = ()) -> PreparedEngine:
        """Make everything that labs need, with these packages in it; report what is being made."""

    def is_built(self) -> bool:
        """Return True if all that the engine builds is in the cache."""
        return True

    def requirements(self, building: bool) -> list[Package]:
        """Return the Debian packages that this machine needs to run labs, and to build what they run in."""
        return []

    def installable(self) -> list[Package]:
        """Return the Debian packages that `xoff doctor --install` installs."""
        return self.requirements(building=True)

    def install(self, report: Report) -> None:  # noqa: B027
        """Install what labs need beside Debian packages."""

    def forecast(self) -> list[Step]:
        """Return the steps of the set-up that have to be made before the first lab."""
        return []

    def checks(self) -> list[Check]:
        """Look at this machine: each thing that labs need, and the remedy if it is missing."""
        return []

    def edition(self, provenance: Provenance) -> str:
        """Return the name under which digests are kept: the engine's, with the version of what they depend on."""
        return self.name


@dataclass(frozen=True, kw_only=True)
class PreparedEngine(ABC):
    """An engine that can run jobs at once."""

    engine: Engine
    packages: Packages | None = None
    """The packages that jobs find beside those of the image."""
    names: tuple[str, ...] = ()
    """The names by which `packages` were requested."""
    holds: ClassVar[tuple[str, ...]] = ()
    """The packages of Xoff's own that are in a lab before it has a job."""
    memory_mb: ClassVar[int] = 1200
    """The default limit of a job's memory in MB."""
    costs: ClassVar[RunCosts | None] = None
    """The CPU time and memory that runs take, for the forecast; None if they were not measured."""

    @abstractmethod
    def start(self, job: bytes, folder: Path) -> AbstractContextManager[RunningJob]:
        """Start a job; when the block ends, nothing of the job is left running."""

    def start_parts(
        self, parts: int, job: bytes, folder: Path, cancel: threading.Event
    ) -> AbstractContextManager[Gang]:
        """Start a job in so many labs that have a part of its network each, if the engine `divides`.

        Setting `cancel` ends a wait for machines.
        """
        raise UsageError(f"--partitions: {self.engine} has one kernel for a network; run it with --engine um")

    def provenance(self) -> Provenance:
        """Return what results are made with, as far as it is known before a run."""
        return Provenance(
            engine=self.engine.name, accelerator="none", image="", kernel="", kernel_digest="", qemu="",
            xoff=testbed.__version__, commit="", code="",
            packages=dict(self.packages.versions) if self.packages else {},
            debian=self.packages.debs.versions if self.packages and self.packages.debs else {},
        )  # fmt: skip

    def with_room(self, memory_mb: int, written_mb: int) -> PreparedEngine:
        """Return the same engine, whose labs have room for a job of so much memory if they can, and write no more than
        so many MB, if they can be kept from it.
        """
        return self

    def give_up(self) -> str:
        """Remove what may have kept a lab from starting; return what the user is told of that, if anything."""
        return ""

    def having(self, names: Sequence[str], report: Report, beside: Path | None = None) -> PreparedEngine:
        """Return the same engine with these packages too; lock files are looked for in the folder `beside`."""
        more = further.found_beside(names, beside or Path())
        if not set(more) - set(self.names):
            return self
        return self.engine.prepare(report, [*self.names, *more])
