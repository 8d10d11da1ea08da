"""The files that a worker takes for a run: the lab, and Xoff's own code for the lab and the worker."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from testbed.errors import UsageError, XoffError
from testbed.lab.engines import lab_file
from testbed.lab.engines.engine import PreparedEngine
from testbed.lab.engines.lab_file import Progress
from testbed.lab.engines.um import PreparedUm
from testbed.lab.host import cache
from testbed.lab.host.cache import Report
from testbed.lab.job import job

_ENGINE = "um"
_FILE = "lab.tar"


@dataclass(frozen=True)
class Part:
    """A file with its digest."""

    path: Path
    sha256: str
    size: int

    @classmethod
    def of(cls, path: Path) -> Part:
        return cls(path, cache.sha256(path), path.stat().st_size)

    def named(self) -> dict[str, str | int]:
        """Return the file under a name made of its digest."""
        return {"sha256": self.sha256, "size": self.size}


def of_code(prepared: PreparedUm, work: Path) -> Mapping[str, Part]:
    """Return this version of Xoff, for the lab and for the worker; files that are not in the cache are made in
    `work`."""
    code = work / "code.tar"
    code.write_bytes(job.held(["testbed"]))
    return {"disk": Part.of(prepared.disks["XOFF_CODE"]), "code": Part.of(code)}


def lab(prepared: PreparedEngine, report: Report, progress: Progress) -> Part:
    """Return the lab in one file, in the cache."""
    made_with = prepared.provenance()
    # A file is for the Xoff with these keys; another version may build the same image, and refuses it.
    place = cache.root() / f"lab-file-{made_with.image[:16]}-{lab_file.digest_of_keys([_ENGINE])[:16]}"
    if not (cache.own(place, _FILE) / _FILE).is_file():
        with cache.locked("lab file", report):
            if not (place / _FILE).is_file():
                report("packing the lab for workers, once")
                with cache.owned("lab-file") as work:
                    packed = lab_file.export(work / _FILE, [_ENGINE], report, progress)
                    if packed.image != made_with.image:
                        raise XoffError("the lab image was changed meanwhile; run it again")
                    cache.leave_only(work, _FILE)
                    cache.publish(work, place)
                    cache.prune("lab-file-*")
    return Part.of(cache.used(place) / _FILE)


def share(lab: Part, file: Path) -> Part:
    """Return the lab as a file in a folder that workers see; it is written if it is not there."""
    if not file.exists():
        try:
            draft = file.with_name(f".{file.name}.new")
            shutil.copyfile(lab.path, draft)
            draft.replace(file)
        except OSError as error:
            raise UsageError(f"--lab {file} cannot be written: {error.strerror}") from None
    if not file.is_file():
        raise UsageError(f"--lab {file} is not a file; name one in a folder that all workers see, as /shared/lab.tar")
    try:
        there = Part.of(file)
    except OSError as error:
        raise UsageError(f"--lab {file} cannot be read: {error.strerror}") from None
    if there.sha256 != lab.sha256:
        raise UsageError(f"--lab {file} is not this version's lab; remove it, and it is written anew, or name another")
    return there


def described(prepared: PreparedEngine) -> dict[str, object]:
    """Return the description of the lab that a worker has to have."""
    further, made_with = prepared.packages, prepared.provenance()
    return {
        "image": made_with.image,
        "kernel": made_with.kernel_digest,
        "packages": further.as_json() if further else None,
    }
