"""Snapshots: the lab's machine, booted and ready, as files to start from.

The guest stops itself at one instruction (see `guest/init.py`), so the snapshot does not depend on when
the host notices. Its memory is a file that every run maps privately: nothing is copied, and runs side
by side share what they do not change.

There are two: of the machine as it has booted, and of the same machine after it has unpacked and imported
Xoff's own code (see `guest_main.py`), which was compiled meanwhile (`image/bytecode.py`). The first changes with the
image, the second with each change of the code.
"""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import re
import shutil
import tarfile
import tempfile
import time
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from testbed.errors import UsageError
from testbed.lab.host import cache
from testbed.lab.host.cache import Report
from testbed.lab.image import bytecode, deb_tree
from testbed.lab.image.debs import Debs
from testbed.lab.image.image import Image
from testbed.lab.image.packages import Packages
from testbed.lab.job.job import DEBIAN, HELD, LARGEST, held
from testbed.lab.vm import qemu
from testbed.lab.vm.qemu import Accelerator, Machine, QemuError

_MEMORY, _STATE, _MANIFEST = "memory", "state", "manifest.json"
_BOOTED, _READY = "booted", "ready"
"""The names of the two states in a file; that of a machine with code in it has both."""
_JOB = "job"
_ROOM = 3 << 30
_KEPT = 3
"""The number of snapshots with code that stay in the cache for each machine; a run makes another if need be."""
_BOOT_SECONDS = 300.0
_LARGE_SECONDS = 1800.0
"""The longest time in s that unpacking and configuring large packages may take in the machine, once."""
_MOST_CODE_MB = 255
"""The largest code in MB; a PCI device's memory is the next power of two."""
_ATTEMPTS = 8


class _SpoiltError(QemuError):
    """QEMU cannot load what has booted."""


@dataclass(frozen=True)
class Snapshot:
    """A machine that waits for a job."""

    path: Path
    image: Image
    accelerator: Accelerator
    packages: Packages | None = None

    @property
    def memory(self) -> Path:
        return self.path / _MEMORY

    @property
    def state(self) -> Path:
        return self.path / _STATE

    @property
    def size(self) -> int:
        """The octets that it takes on the disk."""
        return sum(file.stat().st_blocks * 512 for file in (self.memory, self.state))

    def discard(self) -> None:
        """Remove the snapshot; the next run takes it again."""
        cache.remove_tree(self.path)

    def start(self, job: bytes, folder: Path, own: Collection[int] | None) -> Machine:
        """Start a machine with a job; a snapshot that is spoilt, or was pruned, is taken again."""
        try:
            cache.used(self.path)  # by each job of a long suite
            return self._wake(job, folder, own)
        except (QemuError, FileNotFoundError):
            shutil.rmtree(self.path, ignore_errors=True)
            ensure(self.image, self.accelerator, lambda _: None, packages=self.packages)
            return self._wake(job, folder, own)

    def _wake(self, job: bytes, folder: Path, own: Collection[int] | None) -> Machine:
        _lay_down(job, folder, self.accelerator)
        argv = qemu.arguments(self.image, self.accelerator, self.memory, fresh=False)
        machine = Machine(argv, folder, own, batch=self.accelerator.deterministic)
        try:
            shutil.copyfile(self.state, folder / _STATE)
            machine.load(folder / _STATE, _READY)
            machine.command("cont")
        except BaseException:
            machine.close()
            raise
        return machine


def ensure(
    image: Image,
    accelerator: Accelerator,
    report: Report,
    boot_seconds: float = _BOOT_SECONDS,
    packages: Packages | None = None,
) -> Snapshot:
    """Return the snapshot for this image, accelerator, QEMU, code and packages, from the cache or taken now."""
    code = held(HELD, packages) if packages is None or packages.debs is None else _with_debian(packages, packages.debs)
    # Of Xoff's own code a test knows that it has room; reading it through takes longer than to find the snapshot.
    if (most := len(code) if packages is None else bytecode.largest(code)) > LARGEST:
        if most > _MOST_CODE_MB << 20:
            raise UsageError(f"the packages have {most >> 20} MB; the engine vm takes {_MOST_CODE_MB} MB, um more")
        accelerator = replace(accelerator, job_space_mb=_MOST_CODE_MB + 1)
        boot_seconds = max(boot_seconds, _LARGE_SECONDS)
    booted = _place(image, accelerator)
    final = booted.with_name(f"{booted.name}-{hashlib.sha256(code).hexdigest()[:16]}")

    def make(place: Path, what: str, onto: tuple[Path, bytes] | None = None) -> None:
        if place.exists():
            report(f"the snapshot in {place} is damaged; taking it again")
        report(what)
        for _ in range(_ATTEMPTS):
            if _take(image, accelerator, place, boot_seconds, onto):
                return
            report("the lab's clock ran on while it was stopped; once more")
        raise QemuError(f"no exact snapshot in {_ATTEMPTS} attempts; is this machine very busy?")

    def boot() -> None:
        make(booted, f"booting the lab once ({accelerator.name}) to take its snapshot")

    def put_in(compiled: Callable[[], bytes]) -> None:
        make(final, "putting this version of Xoff into the lab, once", (cache.used(booted), compiled()))

    if not _whole(final):
        with cache.locked("lab snapshot", report):
            if not _whole(final):
                with ThreadPoolExecutor(max_workers=1) as beside:  # on the other core, while the machine boots on one
                    compiled = beside.submit(bytecode.with_bytecode, code, image).result
                    if not _whole(booted):
                        boot()
                    try:
                        put_in(compiled)
                    except _SpoiltError:
                        boot()
                        put_in(compiled)
                cache.keep_newest(f"{booted.name}-*", _KEPT)
    return Snapshot(cache.used(final), image, accelerator, packages)


def _with_debian(packages: Packages, debs: Debs) -> bytes:
    """Return all that a machine with Debian packages holds, as a tar: they are configured there."""
    code = io.BytesIO(held(HELD, packages))
    with tempfile.TemporaryFile() as archive, tarfile.open(fileobj=code, mode="a") as tar:
        deb_tree.add_to_tar(deb_tree.all_unpacked(debs.files(), archive), archive, tar, DEBIAN)
    return code.getvalue()


def is_taken(image: Image, accelerator: Accelerator) -> bool:
    """Return True if a snapshot of the booted machine is there; that with the code takes some seconds more."""
    try:
        return _place(image, accelerator).is_dir()
    except QemuError:
        return False  # QEMU has to be installed first


def total_size() -> int:
    """Return the octets that all snapshots take on the disk."""
    return sum(file.stat().st_blocks * 512 for file in cache.root().glob("snapshot-*/*") if file.is_file())


def _place(image: Image, accelerator: Accelerator) -> Path:
    # The same hardware for the same guest: QEMU's arguments and its version.
    # Where the cache is does not matter.
    told = qemu.arguments(replace(image, path=Path()), accelerator, Path(_MEMORY), fresh=True)
    identity = json.dumps([told, qemu.version(), image.digest, _BOOTED, _READY])
    return cache.root() / f"snapshot-{hashlib.sha256(identity.encode()).hexdigest()[:16]}"


def _take(
    image: Image, accelerator: Accelerator, final: Path, boot_seconds: float, onto: tuple[Path, bytes] | None = None
) -> bool:
    """Boot and save; or wake what has booted, give it code, and save. Return False if the moment was not exact."""
    cache.require_room(cache.root(), _ROOM, "the lab's snapshot")
    with cache.owned("snapshot") as work:
        if onto is not None:
            booted, code = onto
            _copy_sparse(booted / _MEMORY, work / _MEMORY)
            shutil.copyfile(booted / _STATE, work / _STATE)
            _lay_down(code, work, accelerator)
        argv = qemu.arguments(image, accelerator, work / _MEMORY, fresh=True)
        with Machine(argv, work, {_any_core()} if accelerator is not qemu.KVM else None) as machine:
            if onto is not None:
                machine.place_job_memory(*json.loads((booted / _MANIFEST).read_text())["job_memory"])
                try:
                    machine.load(work / _STATE, _BOOTED)
                except QemuError as error:
                    raise _SpoiltError(str(error)) from error
            machine.command("cont")
            machine.wait_for_stop(boot_seconds)
            if accelerator.deterministic and _ran_on(machine):
                return False
            if "xoff-init" in (text := machine.last_words()) or "panic" in text:
                raise QemuError(f"the lab's machine did not boot cleanly{text}")
            job_memory = machine.job_memory()
            machine.save(work / _STATE, _BOOTED if onto is None else _READY)
        cache.leave_only(work, _MEMORY, _STATE)
        manifest = {
            "seen": _signature(work),
            "state": cache.sha256(work / _STATE),
            "taken": time.time(),
            "job_memory": job_memory,
        }
        (work / _MANIFEST).write_text(json.dumps(manifest) + "\n")
        cache.publish(work, final)
        cache.prune("snapshot-*")
    return True


def _lay_down(job: bytes, folder: Path, accelerator: Accelerator) -> None:
    """Write the file that a machine which starts in `folder` finds as its job's memory."""
    with (folder / _JOB).open("wb") as out:
        out.write(len(job).to_bytes(8, "little") + job)
        out.truncate(accelerator.job_space_mb << 20)


def _copy_sparse(source: Path, target: Path) -> None:
    """Copy a file that is mostly holes, and leave them out."""
    with source.open("rb") as old, target.open("wb") as new:
        end = os.fstat(old.fileno()).st_size
        new.truncate(end)
        at = 0
        while at < end:
            try:
                at = os.lseek(old.fileno(), at, os.SEEK_DATA)
            except OSError as error:
                if error.errno != errno.ENXIO:
                    raise
                break  # nothing but a hole is left
            hole = os.lseek(old.fileno(), at, os.SEEK_HOLE)
            while at < hole:
                at += os.copy_file_range(old.fileno(), new.fileno(), hole - at, at, at)


def _ran_on(machine: Machine) -> bool:
    """Return True if the lab's clock went on after the guest had stopped.

    Between the guest's stop and its own QEMU may look for idle time to skip, and find a CPU that does
    nothing; then it goes on to the next timer. Whether it looks is up to the host. It shows in the timer of
    the CPU's interrupt controller: the kernel always has it running, and then it has run out.
    """
    told = machine.command("info lapic")
    left = re.search(r"current_count = (\d+)", told)
    if left is None:
        raise QemuError(f"QEMU does not show the state of the CPU's timer: {told.strip()[:200]}")
    return int(left[1]) == 0


def _whole(path: Path) -> bool:
    """Return True if the snapshot is as it was when it was taken.

    Reading the memory file through would cost as much as the run, so its size and times must do, among them the one
    that cannot be set. A snapshot that QEMU cannot load is taken again by `Snapshot.start`.
    """
    try:
        manifest = json.loads((cache.own(path, _MEMORY, _STATE, _MANIFEST) / _MANIFEST).read_text())
        seen: list[int] = manifest["seen"]
        state: str = manifest["state"]
        manifest["job_memory"]
        return seen == _signature(path) and state == cache.sha256(path / _STATE)
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return False


def _signature(path: Path) -> list[int]:
    seen = (path / _MEMORY).stat()
    return [seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns]


def _any_core() -> int:
    return max(os.sched_getaffinity(0))
