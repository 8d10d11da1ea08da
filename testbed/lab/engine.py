"""The engines: where a job can run. Each starts a job (`RunningJob`), with the same interface.

A session is somewhere that a supervisor (see `supervisor.py`) does the job and appends frames to a file.
"""

from __future__ import annotations

import enum
import json
import os
import platform
import signal
import socket
import subprocess
import sys
import tarfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Protocol

from testbed.errors import UsageError, nearest
from testbed.lab import cache, cores, image, qemu, snapshot
from testbed.lab import packages as further
from testbed.lab.cache import Report
from testbed.lab.image import Image
from testbed.lab.job import HELD, OURS
from testbed.lab.packages import Packages
from testbed.lab.qemu import Machine, QemuError
from testbed.lab.snapshot import Snapshot
from testbed.lab.um import disks
from testbed.lab.um import kernel as um
from testbed.lab.um.machine import Machine as UmlMachine
from testbed.lab.wire import Frame

_KVM_BOOT_SECONDS = 60.0


class Kind(enum.StrEnum):
    UM = "um"
    VM = "vm"
    REALTIME = "realtime"
    HOST = "host"

    @property
    def reproducible(self) -> bool:
        return self in (Kind.UM, Kind.VM)


class RunningJob(Protocol):
    """A job at work."""

    stream: Path
    """The file to which the supervisor's frames are appended."""

    def lost(self) -> str | None:
        """Why nothing will come any more, if that is so."""

    def send(self, frame: Frame) -> None:
        """Give the supervisor a command."""

    def close(self) -> None:
        """End it now."""


@dataclass(frozen=True)
class Ready:
    """An engine whose parts are all there."""

    kind: Kind
    snapshot: Snapshot | None = None
    uml: Uml | None = None
    packages: Packages | None = None
    """What a job finds beside the image's packages."""
    names: tuple[str, ...] = ()
    """The names by which they were requested."""

    @property
    def accelerator(self) -> str:
        return self.snapshot.accelerator.name if self.snapshot else "none"

    @property
    def holds(self) -> tuple[str, ...]:
        """The packages of ours that are there before the job is."""
        return OURS if self.uml else HELD if self.snapshot else ()

    @property
    def memory_mb(self) -> int:
        """What a job may use by default."""
        return 3000 if self.uml else 1200

    @property
    def image_digest(self) -> str:
        held = self.uml or self.snapshot
        return held.image.digest if held else ""

    @property
    def kernel_digest(self) -> str:
        """Of a kernel that Xoff built; a stock kernel is part of the image."""
        return self.uml.kernel.digest if self.uml else ""

    def having(self, names: Sequence[str], report: Report, beside: Path | None = None) -> Ready:
        """The same engine with these Python packages too; lock files are looked for in the folder `beside`."""
        more = further.found_beside(names, beside or Path())
        if not set(more) - set(self.names):
            return self
        return prepare(self.kind, report, [*self.names, *more])

    @contextmanager
    def start(self, job: bytes, folder: Path) -> Iterator[RunningJob]:
        """Start the job; whatever happens, nothing of it is left running afterwards."""
        if self.uml is not None:
            with cores.taken(2) as own, closing(self.uml.start(job, folder, own)) as uml:
                yield uml
        elif self.snapshot is None:
            with closing(HostSession(job, folder)) as host:
                yield host
        else:
            one_or_any: AbstractContextManager[Collection[int] | None] = (
                cores.taken(1) if self.kind.reproducible else nullcontext()
            )
            with one_or_any as chosen, self.snapshot.start(job, folder, chosen) as machine:
                yield MachineSession(machine)


@dataclass(frozen=True)
class Uml:
    """User-Mode Linux and what it mounts."""

    image: Image
    kernel: um.Kernel
    disks: Mapping[str, Path]

    def start(self, job: bytes, folder: Path, own: Collection[int]) -> UmlMachine:
        (folder / "job").write_bytes(job)
        return UmlMachine(self.kernel.file, {**self.disks, "XOFF_JOB": folder / "job"}, folder, own)


def prepare(kind: Kind | str, report: Report = lambda _: None, packages: Sequence[str] = ()) -> Ready:
    """Make everything that the engine needs, with further Python packages in it; report what is being made."""
    if kind not in list(Kind):
        raise UsageError(f"there is no engine {kind}; {nearest(kind, Kind)}")
    kind = Kind(kind)
    if kind is Kind.HOST and packages:
        raise UsageError(
            f"--with {packages[0]}: packages are locked for the lab's Python; on the host engine install them as the "
            "system does, as in apt-get install python3-numpy"
        )
    found = further.ensure(packages, report)
    if kind is Kind.HOST:
        if os.geteuid() != 0:
            raise UsageError("the host engine makes networks on this machine and needs root; use sudo, or --engine vm")
        return Ready(kind, None)
    if kind is Kind.UM:
        return Ready(kind, uml=_uml(report, found), packages=found, names=tuple(packages))
    qemu.program()
    lab = image.ensure(report)
    if kind is Kind.VM:
        return Ready(
            kind, snapshot.ensure(lab, qemu.ICOUNT, report, packages=found), packages=found, names=tuple(packages)
        )
    return Ready(kind, _realtime_snapshot(lab, report, found), packages=found, names=tuple(packages))


def is_built(kind: Kind) -> bool:
    """Whether all that this engine builds from Debian's packages is in the cache."""
    if kind is Kind.HOST:
        return True
    lab = image.described()
    if kind is Kind.UM:
        return lab is not None and disks.has_root(lab) and um.place().is_dir()
    return lab is not None and len(lab.sizes) > 1


def _uml(report: Report, packages: Packages | None) -> Uml:
    lab = disks.image_of_root(report)
    kernel = um.ensure(report)
    root = disks.root(lab, report)
    return Uml(lab, kernel, {"XOFF_ROOT": root, "XOFF_CODE": disks.code(kernel, root, report, packages)})


def _realtime_snapshot(lab: image.Image, report: Report, packages: Packages | None) -> Snapshot:
    """With KVM if it really runs the guest; that there is a /dev/kvm does not prove it."""
    verdict = cache.root() / f"kvm-{platform.release()}-{qemu.version()}.json"
    try:
        works, why = json.loads(verdict.read_text())
    except (OSError, ValueError, TypeError, RecursionError):
        works, why = True, ""
        if not os.access("/dev/kvm", os.R_OK | os.W_OK):
            works, why = False, "there is no /dev/kvm that we may use"
    if works:
        try:
            found = snapshot.ensure(lab, qemu.KVM, report, _KVM_BOOT_SECONDS, packages)
            report("real time on KVM")
            return found
        except QemuError as error:
            why = str(error).splitlines()[-1].strip()
            verdict.write_text(json.dumps([False, why]))
    report(f"real time without KVM ({why}): the lab will be slow, and short of CPU under load")
    return snapshot.ensure(lab, qemu.TCG, report, packages=packages)


class MachineSession:
    """A job in the virtual machine."""

    def __init__(self, machine: Machine) -> None:
        self.stream = machine.folder / "out"
        self._machine = machine
        self._commands: socket.socket | None = None

    def lost(self) -> str | None:
        if self._machine.process.poll() is None:
            return None
        said = self._machine.last_words()
        what = "the lab's kernel panicked" if qemu.PANIC in said else "the lab's machine ended before the job did"
        return f"{what}{said}"

    def send(self, frame: Frame) -> None:
        if self._commands is None:
            self._commands = self._machine.connect("commands")
        with suppress(OSError):
            self._commands.sendall(frame.encode())

    def close(self) -> None:
        if self._commands is not None:
            self._commands.close()
        self._machine.close()


class HostSession:
    """A job on this machine, in a sandbox."""

    def __init__(self, job: bytes, folder: Path) -> None:
        with tarfile.open(fileobj=BytesIO(job)) as archive:
            # Debian 12's Python has no filters, and later versions warn without one.
            archive.extraction_filter = getattr(tarfile, "data_filter", None)
            archive.extractall(folder)
        self.stream = folder / "out"
        self.stream.touch()
        self._log = folder / "supervisor.log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "TERM", sys.executable, "-m", "testbed.lab.host_main", str(folder)],
                stdin=subprocess.PIPE, stdout=log, stderr=log, start_new_session=True, cwd=folder,
                env={**os.environ, "PYTHONPATH": str(folder / "code"), "PYTHONDONTWRITEBYTECODE": "1"},
            )  # fmt: skip

    def lost(self) -> str | None:
        if self._process.poll() is None:
            return None
        said = self._log.read_text(errors="replace").strip().splitlines()[-6:]
        return "\n  ".join(["the supervisor ended before the job did; its last output:", *said])

    def send(self, frame: Frame) -> None:
        if self._process.stdin is not None:
            with suppress(OSError):
                self._process.stdin.write(frame.encode())
                self._process.stdin.flush()

    def close(self) -> None:
        """SIGTERM has the supervisor end the job and remove its control group."""
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdin is not None:
            with suppress(OSError):
                self._process.stdin.close()
