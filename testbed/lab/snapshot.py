"""The lab's machine, booted and ready, as files to start from.

The guest stops itself at one instruction (see `guest/init.py`), so the snapshot does not depend on when
the host notices. Its memory is a file that every run maps privately: nothing is copied, and runs side
by side share what they do not change.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import time
from dataclasses import dataclass, replace
from pathlib import Path

from testbed.lab import cache, qemu
from testbed.lab.cache import Report
from testbed.lab.image import Image
from testbed.lab.qemu import Accelerator, Machine, QemuError

_MEMORY, _STATE, _MANIFEST = "memory", "state", "manifest.json"
_ROOM = 3 << 30
_BOOT_SECONDS = 300.0
_ATTEMPTS = 8


@dataclass(frozen=True)
class Snapshot:
    """A machine waiting for a job."""

    path: Path
    image: Image
    accelerator: Accelerator

    @property
    def memory(self) -> Path:
        return self.path / _MEMORY

    @property
    def state(self) -> Path:
        return self.path / _STATE

    @property
    def size(self) -> int:
        """What it takes on the disk."""
        return sum(file.stat().st_blocks * 512 for file in (self.memory, self.state))

    def start(self, job: bytes, folder: Path, core: int | None) -> Machine:
        """A machine that has been given the job and runs; if the snapshot is spoilt, it is taken again."""
        try:
            return self._wake(job, folder, core)
        except QemuError:
            shutil.rmtree(self.path, ignore_errors=True)
            ensure(self.image, self.accelerator, lambda _: None)
            return self._wake(job, folder, core)

    def _wake(self, job: bytes, folder: Path, core: int | None) -> Machine:
        with (folder / "job").open("wb") as out:
            out.write(len(job).to_bytes(8, "little") + job)
            out.truncate(qemu.JOB_SPACE_MB << 20)
        argv = qemu.arguments(self.image, self.accelerator, self.memory, fresh=False)
        machine = Machine(argv, folder, core, batch=self.accelerator.deterministic)
        try:
            shutil.copyfile(self.state, folder / "state")
            machine.load(folder / "state")
            machine.command("cont")
        except BaseException:
            machine.close()
            raise
        return machine


def ensure(image: Image, accelerator: Accelerator, report: Report, boot_seconds: float = _BOOT_SECONDS) -> Snapshot:
    """The snapshot for this image, accelerator and QEMU, from the cache or taken now."""
    final = _place(image, accelerator)
    if _whole(final):
        return Snapshot(cache.used(final), image, accelerator)
    with cache.locked("lab snapshot", report):
        if not _whole(final):
            if final.exists():
                report(f"the snapshot in {final} is damaged; taking it again")
            report(f"booting the lab once ({accelerator.name}) to take its snapshot")
            for _ in range(_ATTEMPTS):
                if _take(image, accelerator, final, boot_seconds):
                    break
                report("the lab's clock ran on while it was stopped; booting it again")
            else:
                raise QemuError(f"no exact snapshot in {_ATTEMPTS} attempts; is this machine very busy?")
    return Snapshot(final, image, accelerator)


def total_size() -> int:
    """What all snapshots take on the disk."""
    return sum(file.stat().st_blocks * 512 for file in cache.root().glob("snapshot-*/*") if file.is_file())


def _place(image: Image, accelerator: Accelerator) -> Path:
    # The same hardware for the same guest: whatever QEMU is told, and which QEMU it is.
    # Where the cache is does not matter.
    told = qemu.arguments(replace(image, path=Path()), accelerator, Path(_MEMORY), fresh=True)
    identity = json.dumps([told, qemu.version(), image.digest])
    return cache.root() / f"snapshot-{hashlib.sha256(identity.encode()).hexdigest()[:16]}"


def _take(image: Image, accelerator: Accelerator, final: Path, boot_seconds: float) -> bool:
    """Boot and save; False if the moment was not exact."""
    cache.require_room(cache.root(), _ROOM, "the lab's snapshot")
    with cache.owned("snapshot") as work:
        argv = qemu.arguments(image, accelerator, work / _MEMORY, fresh=True)
        with Machine(argv, work, _any_core() if accelerator is not qemu.KVM else None) as machine:
            machine.command("cont")
            machine.wait_for_stop(boot_seconds)
            if accelerator.deterministic and _ran_on(machine):
                return False
            if "xoff-init" in (text := machine.last_words()) or "panic" in text:
                raise QemuError(f"the lab's machine did not boot cleanly{text}")
            machine.save(work / _STATE)
        for leftover in work.iterdir():
            if leftover.name not in (_MEMORY, _STATE, ".owner"):
                leftover.unlink()
        manifest = {"seen": _signature(work), "state": cache.sha256(work / _STATE), "taken": time.time()}
        (work / _MANIFEST).write_text(json.dumps(manifest) + "\n")
        cache.publish(work, final)
        cache.prune("snapshot-*")
    return True


def _ran_on(machine: Machine) -> bool:
    """Whether the lab's clock went on after the guest had stopped.

    Between the guest's stop and its own QEMU may look for idle time to skip, and find a CPU that does
    nothing; then it goes on to the next timer. Whether it looks is up to the host. It shows in the timer of
    the CPU's interrupt controller: the kernel always has it running, and then it has run out.
    """
    told = machine.command("info lapic")
    left = re.search(r"current_count = (\d+)", told)
    if left is None:
        raise QemuError(f"QEMU does not tell the state of the CPU's timer: {told.strip()[:200]}")
    return int(left[1]) == 0


def _whole(path: Path) -> bool:
    """Whether the snapshot is as it was when it was taken.

    Reading the memory file through would cost as much as the run, so its size and time must do; a
    snapshot that QEMU cannot load is taken again by `Snapshot.start`.
    """
    try:
        manifest = json.loads((path / _MANIFEST).read_text())
        seen: list[int] = manifest["seen"]
        state: str = manifest["state"]
        return seen == _signature(path) and state == cache.sha256(path / _STATE)
    except (OSError, ValueError, KeyError):
        return False


def _signature(path: Path) -> list[int]:
    seen = (path / _MEMORY).stat()
    return [seen.st_size, seen.st_mtime_ns]


def _any_core() -> int:
    return max(os.sched_getaffinity(0))
