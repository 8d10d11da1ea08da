"""The engine `vm`: a stock kernel in QEMU in virtual time, in which an instruction takes a nanosecond."""

from __future__ import annotations

import socket
from abc import abstractmethod
from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from testbed.errors import XoffError
from testbed.experiment.output import Record
from testbed.lab.engines import words
from testbed.lab.engines.engine import Engine, PreparedEngine
from testbed.lab.engines.forecast import Step
from testbed.lab.host import checks, cores, prerequisites, process_tree
from testbed.lab.host.cache import Report
from testbed.lab.host.checks import Check
from testbed.lab.host.prerequisites import Package
from testbed.lab.image import image
from testbed.lab.image import packages as further
from testbed.lab.image.image import Image
from testbed.lab.image.packages import Packages
from testbed.lab.job.job import HELD
from testbed.lab.results.result import Provenance
from testbed.lab.um.machine import CONSOLE_MB, EXCESS, EXCESS_OF_CONSOLE, WRITTEN_MB, largest
from testbed.lab.vm import qemu, snapshot
from testbed.lab.vm.qemu import Machine
from testbed.lab.vm.snapshot import Snapshot

_ROOM_GB = 4
_UNPACKS = "zstd"
"""The program that unpacks the image's Python, which compiles new code for a machine."""


class VirtualMachine(Engine):
    """An engine whose labs are QEMU's virtual machines, woken from a snapshot."""

    def prepare(self, report: Report, packages: Sequence[str] = ()) -> PreparedMachine:
        found = further.ensure(packages, report)
        qemu.program()
        taken = self.snapshot(image.ensure(report), report, found)
        return PreparedMachine(engine=self, snapshot=taken, packages=found, names=tuple(packages))

    @abstractmethod
    def snapshot(self, of: Image, report: Report, packages: Packages | None) -> Snapshot:
        """Return the machine that waits for a job, from the cache or taken now."""

    def is_built(self) -> bool:
        of = image.described()
        return of is not None and len(of.sizes) > 1

    def requirements(self, building: bool) -> list[Package]:
        of_build = prerequisites.build_packages()
        return prerequisites.qemu_packages() + [one for one in of_build if building or one.program == _UNPACKS]

    def forecast(self) -> list[Step]:
        of = image.described()
        made = {
            Step.IMAGE: image.is_whole(of),
            Step.SNAPSHOT: of is not None and snapshot.is_taken(of, qemu.ICOUNT),
        }
        return [step for step, is_made in made.items() if not is_made]

    def checks(self) -> list[Check]:
        found = [checks.package(self.name, package) for package in self.requirements(building=False)]
        found += checks.building(self.name, self.is_built(), prerequisites.build_packages(), _ROOM_GB)
        what = "QEMU is new enough"
        try:
            qemu.program()
            found.append(Check(self.name, what, True, qemu.version()))
        except XoffError as error:
            found.append(Check(self.name, what, False, qemu.version() or "none", str(error)))
        return found


class Vm(VirtualMachine):
    """QEMU with an instruction clock."""

    name = words.VM.name
    summary = words.VM.summary
    reproducible = words.VM.reproducible
    interactive = words.VM.interactive

    def snapshot(self, of: Image, report: Report, packages: Packages | None) -> Snapshot:
        return snapshot.ensure(of, qemu.ICOUNT, report, packages=packages)

    def edition(self, provenance: Provenance) -> str:
        """Digests depend on the instructions that a version of QEMU counts."""
        return f"{self.name} QEMU {provenance.qemu}"


@dataclass(frozen=True, kw_only=True)
class PreparedMachine(PreparedEngine):
    """A virtual machine that waits for a job."""

    snapshot: Snapshot
    written_mb: int = WRITTEN_MB
    holds: ClassVar[tuple[str, ...]] = HELD

    def with_room(self, memory_mb: int, written_mb: int) -> PreparedMachine:
        return replace(self, written_mb=written_mb)

    @contextmanager
    def start(self, job: bytes, folder: Path) -> Iterator[MachineSession]:
        one_or_any: AbstractContextManager[Collection[int] | None] = (
            cores.taken(1) if self.engine.reproducible else nullcontext()
        )
        with one_or_any as chosen, self.snapshot.start(job, folder, chosen) as machine:
            yield MachineSession(machine, self.written_mb)

    def provenance(self) -> Provenance:
        accelerator, of = self.snapshot.accelerator, self.snapshot.image
        return replace(super().provenance(), accelerator=accelerator.name, image=of.digest, qemu=qemu.version())

    def give_up(self) -> str:
        """A snapshot that was changed can be woken and do nothing."""
        self.snapshot.discard()
        return "its snapshot may be damaged and was removed, so run it again"


class MachineSession:
    """A job in a virtual machine."""

    def __init__(self, machine: Machine, written_mb: int) -> None:
        self.stream = machine.folder / "out"
        self._machine = machine
        self._most = {
            self.stream: (largest(written_mb), EXCESS),
            machine.folder / "console": (CONSOLE_MB << 20, EXCESS_OF_CONSOLE),
        }
        self._excess = ""
        self._commands: socket.socket | None = None

    def lost(self) -> str | None:
        if self._machine.process.poll() is None:
            for path, (most, excess) in self._most.items():
                if path.exists() and path.stat().st_size > most:
                    self._machine.close()
                    self._excess = excess
        if self._excess or self._machine.process.poll() is None:
            return self._excess or None
        said = self._machine.last_words()
        what = "the lab's kernel panicked" if qemu.PANIC in said else "the lab's machine ended before the job did"
        return f"{what}{said}"

    def send(self, record: Record) -> None:
        if self._commands is None:
            self._commands = self._machine.connect("commands")
        with suppress(OSError):
            self._commands.sendall(record.encode())

    def cpu_s(self) -> None:
        """Return None: no costs of this engine's runs are known."""

    def used_cpu_s(self) -> float | None:
        """Return the CPU time in s of the lab's processes; None if the host does not show it."""
        return process_tree.cpu_s(self._machine.process.pid)

    def spins(self) -> None:
        """Return None: the clock of this engine does not stop for a program."""

    def close(self) -> None:
        if self._commands is not None:
            self._commands.close()
        self._machine.close()
