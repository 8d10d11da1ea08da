"""The disks of `um` in the cache: the image's root, and Xoff's own code compiled for the lab's Python."""

from __future__ import annotations

import hashlib
import json
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import IO

from testbed.lab.host import cache, prerequisites
from testbed.lab.host.cache import Report
from testbed.lab.image import erofs, image, recipe
from testbed.lab.image.image import Image
from testbed.lab.image.packages import Packages
from testbed.lab.image.recipe import ImageError
from testbed.lab.job import job
from testbed.lab.um import system_calls
from testbed.lab.um.kernel import Kernel
from testbed.lab.um.machine import boot_alone

_ROOM = 1 << 30
_CODE, KEPT = "um-code-*", 20
"""The disks with code, and the number of them that stay in the cache."""
AT_WORK_S = 3600.0
"""A disk that was used within this time may be that of a study, which has many runs before it."""
_COMPILE_S = 600.0
DISK = "disk"
_SEEN = "seen.json"
"""The file with the disk's SHA-256, and its size, times and inode when that was computed."""


def image_of_root(report: Report) -> Image:
    """Return the image; if its root is a disk already, its manifest is enough."""
    known = image.described()
    if known is None or not has_root(known):
        return image.ensure(report)
    cache.used(known.path)
    return known


def has_root(of: Image) -> bool:
    """Return True if the image's root is a disk in the cache."""
    return is_whole(_root(of), cache.quiet)


def put_root(work: Path, of: Image, report: Report) -> None:
    """Publish a root disk that was made elsewhere of this image, the folder `work`, unless there is one."""
    with cache.locked("lab root disk", report):
        if not has_root(of):
            publish(work, _root(of))


def root(of: Image, report: Report) -> Path:
    """Return the image's root as a disk, from the cache or made now."""
    place = _root(of)
    if not is_whole(place, report):
        with cache.locked("lab root disk", report):
            if not is_whole(place, cache.quiet):
                report("unpacking the lab image for the engine um")
                cache.require_room(cache.root(), _ROOM, "the lab image's disk")
                with cache.owned("um-root") as work, tempfile.TemporaryFile(dir=work) as archive:
                    program = prerequisites.find_program("zstd") or "zstd"
                    if subprocess.run(
                        [program, "-d", "-q", "-c", str(of.initrd)], stdout=archive, check=False
                    ).returncode:
                        raise ImageError(f"{program} could not unpack {of.initrd}; xoff image build makes it anew")
                    archive.seek(0)
                    tree = erofs.read_cpio(archive)
                    _rewrite_library(tree, archive)
                    with (work / DISK).open("wb") as out:
                        erofs.write(tree, archive, out, recipe.EPOCH)
                    publish(work, place)
                    cache.prune("um-root-*")
    return cache.used(place) / DISK


def write_reference(of: Image, report: Report) -> None:
    """Make this image's disk the reference: a prebuilt lab has to have it."""
    place = root(of, report).parent
    image.amend_reference({"um_root": {"name": place.name, "digest": cache.sha256(place / DISK)}})


def reference_digest() -> str:
    """Return the digest of the reference's disk; an empty text if this version makes another one of its image."""
    content = image.reference()
    entry = content.get("um_root", {})
    return str(entry["digest"]) if entry.get("name") == name_of_root(str(content.get("digest"))) else ""


def note_use(disk: Path) -> None:
    """Note that a run uses a disk, so that it stays while a study of hours goes on and its user's code changes."""
    try:
        cache.used(disk.parent)
    except FileNotFoundError:
        raise ImageError(
            f"{disk.parent} has been removed since this xoff began; start it again, and it is made anew"
        ) from None


def file_of_root(of: Image, name: str, report: Report) -> bytes:
    """Return a file of the image."""
    with root(of, report).open("rb") as disk:
        node = erofs.read(disk).find(name)
        if node is None or not isinstance(node.content, int):
            raise ImageError(f"the lab image has no file {name}")
        disk.seek(node.content)
        return disk.read(node.size)


def code(kernel: Kernel, root_disk: Path, report: Report, packages: Packages | None = None) -> Path:
    """Return a disk with all of Xoff's own packages, and further ones of Python, compiled by the lab's Python."""
    place = _place_of_code(kernel, job.digest_of_held(packages))
    if not is_whole(place, report):
        with cache.locked("lab code disk", report):
            if not is_whole(place, cache.quiet):
                report("compiling this version of Xoff for the lab, once")
                held = job.held(job.OURS, packages)
                place = _place_of_code(kernel, hashlib.sha256(held).hexdigest())  # a file may have changed since
                with cache.owned("um-code") as work:
                    (work / "job").write_bytes(held)
                    _compile(kernel, root_disk, work)
                    with (work / "out").open("rb") as archive, (work / DISK).open("wb") as out:
                        erofs.write(erofs.read_tar(archive), archive, out, recipe.EPOCH)
                    publish(work, place)
                    cache.keep_newest(_CODE, KEPT, AT_WORK_S)
    return cache.used(place) / DISK


def _place_of_code(kernel: Kernel, digest: str) -> Path:
    """Return the folder in the cache of the disk with the code of this digest, as this kernel compiles it."""
    return cache.root() / f"um-code-{hashlib.sha256((digest + kernel.digest + _SEEN).encode()).hexdigest()[:16]}"


def _compile(kernel: Kernel, root_disk: Path, work: Path) -> None:
    """Boot without a disk of code: process 1 compiles what is in the job's place and writes it out."""
    disks = {"XOFF_ROOT": root_disk, "XOFF_JOB": work / "job"}
    if (why := boot_alone(kernel.file, disks, work, _COMPILE_S)) is not None:
        raise ImageError(f"the lab could not compile Xoff{why}")


def _rewrite_library(tree: erofs.Inode, archive: IO[bytes]) -> None:
    """Change the C library of an unpacked image in place."""
    library = tree.find(system_calls.LIBRARY)
    if library is None or not isinstance(library.content, int):
        raise ImageError(f"the lab image has no {system_calls.LIBRARY}")
    archive.seek(library.content)
    content = system_calls.rewrite(archive.read(library.size))
    archive.seek(library.content)
    archive.write(content)


def _root(of: Image) -> Path:
    return cache.root() / name_of_root(of.digest)


def name_of_root(digest: str) -> str:
    """Return the name of the folder in the cache that has the root of an image with this digest."""
    made_by = recipe.without_imports(Path(system_calls.__file__)) + _SEEN.encode()
    return f"um-root-{digest[:16]}-{hashlib.sha256(made_by).hexdigest()[:8]}"


def publish(work: Path, place: Path) -> None:
    cache.leave_only(work, DISK)
    _note(work, cache.sha256(work / DISK))
    cache.publish(work, place)


def is_disk(place: Path) -> bool:
    """Return True if a folder has a disk that was published."""
    return (place / DISK).is_file() and (place / _SEEN).is_file()


def noted_digest(place: Path) -> str:
    """Return the SHA-256 of a disk as it was noted when the disk was published; an empty text if that is damaged."""
    try:
        return str(json.loads((place / _SEEN).read_text())[0])
    except (OSError, ValueError, TypeError, LookupError):
        return ""


def use(theirs: Path, place: Path) -> None:
    """Publish a disk of a lab that is installed on this machine, which stays where it is and is not read through."""
    with cache.owned("um-disk") as work:
        (work / DISK).symlink_to(theirs / DISK)
        _note(work, noted_digest(theirs))
        cache.publish(work, place)


def _note(place: Path, digest: str) -> None:
    draft = place / f".{_SEEN}"
    draft.write_text(json.dumps([digest, *_identity(place)]) + "\n")
    draft.replace(place / _SEEN)


def _identity(place: Path) -> list[int]:
    status = (place / DISK).stat()
    return [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino]


def is_whole(place: Path, report: Report) -> bool:
    """Return True if the disk is as it was when it was written.

    Reading it through takes longer than a run, so its size, times and inode must do, among them the time that cannot be
    set. One for which these differ, as after a copy of the cache, is read through, and noted if its digest is right.
    """
    if not cache.own(place, DISK, _SEEN).exists():
        return False
    try:
        digest, *identity = json.loads((place / _SEEN).read_text())
        if identity == _identity(place):
            return True
        if digest == cache.sha256(place / DISK):
            with suppress(OSError):  # a cache that we may not write to
                _note(place, digest)
            return True
        why = "its SHA-256 is another one"
    except (OSError, ValueError, TypeError, RecursionError) as error:
        why = f"{type(error).__name__}: {error}"
    report(f"the disk in {place} is damaged ({why}); making it again")
    return False
