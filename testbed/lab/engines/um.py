"""The engine `um`: User-Mode Linux in virtual time, in which work of the CPU takes no time."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from testbed.lab.engines import words
from testbed.lab.engines.engine import Engine, PreparedEngine
from testbed.lab.engines.forecast import Step
from testbed.lab.engines.load import RunCosts
from testbed.lab.host import checks, cores, prerequisites
from testbed.lab.host.cache import Report
from testbed.lab.host.checks import Check
from testbed.lab.host.prerequisites import Package
from testbed.lab.image import image
from testbed.lab.image import packages as further
from testbed.lab.image.image import Image
from testbed.lab.job.job import OURS
from testbed.lab.partition import memory
from testbed.lab.partition.gang import Gang
from testbed.lab.results.result import Provenance
from testbed.lab.um import confinement, debian, disks, kernel
from testbed.lab.um.kernel import Kernel
from testbed.lab.um.machine import JOB_MB, WRITTEN_MB, Machine

_ROOM_GB = 6
_CORES = 2


class Um(Engine):
    """User-Mode Linux, whose clock stands still while anything runs."""

    name = words.UM.name
    summary = words.UM.summary
    reproducible = words.UM.reproducible
    cpu_takes_time = False
    joins_clusters = True
    divides = True

    def prepare(self, report: Report, packages: Sequence[str] = ()) -> PreparedUm:
        found = further.ensure(packages, report)
        of = disks.image_of_root(report)
        built = kernel.ensure(report)
        root = disks.root(of, report)
        mounted = {"XOFF_ROOT": root, "XOFF_CODE": debian.code(built, root, report, found)}
        return PreparedUm(
            engine=self, image=of, kernel=built, disks=mounted, packages=found, names=tuple(packages)
        )  # fmt: skip

    def is_built(self) -> bool:
        of = image.described()
        return of is not None and disks.has_root(of) and kernel.place().is_dir()

    def requirements(self, building: bool) -> list[Package]:
        return prerequisites.build_packages() if building else []

    def forecast(self) -> list[Step]:
        of = image.described()
        has_root = of is not None and disks.has_root(of)
        made = {
            Step.IMAGE: has_root or image.is_whole(of),
            Step.KERNEL: kernel.place().is_dir(),
            Step.ROOT: has_root,
        }
        return [step for step, is_made in made.items() if not is_made]

    def checks(self) -> list[Check]:
        found = checks.building(self.name, self.is_built(), self.requirements(building=True), _ROOM_GB)
        return found + confinement.checks()


@dataclass(frozen=True, kw_only=True)
class PreparedUm(PreparedEngine):
    """User-Mode Linux, and what it mounts."""

    image: Image
    kernel: Kernel
    disks: Mapping[str, Path]
    """The disks by the names of the variables that the kernel's driver reads."""
    job_mb: int = JOB_MB
    """The most memory of a job, in MB."""
    written_mb: int = WRITTEN_MB
    """The most that comes of a job, in MB."""
    holds: ClassVar[tuple[str, ...]] = OURS
    memory_mb: ClassVar[int] = JOB_MB
    costs = RunCosts.of(Um.name)

    @contextmanager
    def start(self, job: bytes, folder: Path) -> Iterator[Machine]:
        mounted = self._mounted(job, folder)
        with (
            cores.taken(_CORES) as own,
            closing(self._machine(mounted, folder, own)) as machine,
        ):
            yield machine

    @contextmanager
    def start_parts(self, parts: int, job: bytes, folder: Path, cancel: threading.Event) -> Iterator[Gang]:
        with (
            memory.shared(parts, memory.LOOKS if cores.are_free(parts) else 0) as shared,
            self.parts_started(range(parts), shared, job, folder) as machines,
            closing(Gang(machines, folder)) as gang,
        ):
            yield gang

    @contextmanager
    def parts_started(self, own: Sequence[int], shared: int, job: bytes, folder: Path) -> Iterator[list[Machine]]:
        """Start some parts of a network, whose kernels meet in the memory of a descriptor."""
        mounted = self._mounted(job, folder)
        available = cores.available()
        many = len(available)
        with ExitStack() as started:
            # One core each: a kernel with two would poll on both. Parts that wait need none, so some can share one.
            machines = []
            for place, part in enumerate(own):
                taken = started.enter_context(cores.taken(1)) if len(own) <= many else {available[place % many]}
                at = folder / f"machine-{part}"
                at.mkdir()
                machines.append(started.enter_context(closing(self._machine(mounted, at, taken, (shared, part)))))
            yield machines

    def _machine(
        self,
        mounted: Mapping[str, Path],
        folder: Path,
        own: Collection[int] | None,
        part: tuple[int, int] | None = None,
    ) -> Machine:
        return Machine(
            self.kernel.file, mounted, folder, own, job_mb=self.job_mb, written_mb=self.written_mb, part=part
        )  # fmt: skip

    def _mounted(self, job: bytes, folder: Path) -> dict[str, Path]:
        (folder / "job").write_bytes(job)
        for disk in self.disks.values():
            disks.note_use(disk)
        return {**self.disks, "XOFF_JOB": folder / "job"}

    def with_room(self, memory_mb: int, written_mb: int) -> PreparedUm:
        return replace(self, job_mb=max(JOB_MB, memory_mb), written_mb=written_mb)

    def provenance(self) -> Provenance:
        return replace(super().provenance(), image=self.image.digest, kernel_digest=self.kernel.digest)
