"""Lab files: one file takes the lab to another machine. `xoff image export` writes it, `xoff image import` reads it.

The file is a plain tar. First comes a manifest with the size and SHA-256 of everything; behind it are, for the engine
`um`, the kernel and the root as a disk, for `vm` the image, the Python packages that Xoff imports, and the Debian
packages that the export was asked for, as they came from Debian. Disk and kernel are compressed with xz, which every
Python can read. Nothing of the exporting machine is in it: two exports of the same lab are the same bytes. An import
checks everything before it puts anything into the cache, and takes little time and memory to find that a file is none
of ours, whatever it is (`../image/plain_tar.py`). A wheel can be around it (`lab_wheel.py`). Standard library only.
"""

from __future__ import annotations

import errno
import hashlib
import io
import json
import lzma
import os
import re
import tarfile
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import testbed
from testbed.errors import UsageError, XoffError
from testbed.lab.engines import lab_wheel
from testbed.lab.host import cache
from testbed.lab.host.cache import Report
from testbed.lab.image import debs, image, plain_tar, recipe, wheels
from testbed.lab.image.debs import Locked
from testbed.lab.image.plain_tar import MalformedError, TarMember
from testbed.lab.um import disks, kernel
from testbed.strict import regular_files

ENGINES = ("um", "vm")
Progress = Callable[[int, int], None]
"""A function that is called with the bytes that are done and those of the whole."""

_CHECKED = {"kernel": f"kernel/{kernel.KERNEL}", "disk": f"disk/{disks.DISK}"}
"""The parts of `um` that this version names by their digests, and their files."""
_FORMAT = 1
_MANIFEST = "xoff-lab.json"
_LARGEST_MANIFEST = 1 << 20
_XZ = ".xz"
_STEP = 1 << 20
_BLOCK = 16 << 20
"""The octets that are compressed by themselves, on all cores; the result does not depend on their number."""

# The parts of a file, each a directory of the cache: its files, and those of them that are compressed.
_PARTS = {
    "um": {f"kernel/{kernel.KERNEL}", f"kernel/{kernel.MANIFEST}", f"disk/{disks.DISK}", f"image/{image.MANIFEST}"},
    "vm": {f"image/{image.MANIFEST}", f"image/{recipe.KERNEL}", f"image/{recipe.ROOT}"},
}
_COMPRESSED = {f"kernel/{kernel.KERNEL}", f"disk/{disks.DISK}"}
_LARGEST = {name: 1 << 20 for name in (f"kernel/{kernel.MANIFEST}", f"image/{image.MANIFEST}")} | {
    f"kernel/{kernel.KERNEL}": 256 << 20, f"disk/{disks.DISK}": 4 << 30,
    f"image/{recipe.KERNEL}": 256 << 20, f"image/{recipe.ROOT}": 2 << 30,
}  # fmt: skip
"""The most octets that each file may have, some ten times what it has."""
_SHOWN = 16
"""The digits of a digest that a message has where some are enough."""
_LARGEST_WHEEL, _MOST_WHEELS = 32 << 20, 64
_QUICK, _SMALL = 0, 6
"""The levels of xz: on two cores the first takes seconds, and the second minutes for a tenth less."""
_XZ_MEMORY = 64 << 20
"""The octets of memory that decompression may take; the levels that are written need less than one, and nine MB."""
_WHEEL = re.compile(r"python/[A-Za-z0-9][\w.+-]*\.whl")
_LARGEST_DEB, _MOST_DEBS = 1 << 30, 1000
_DEB = re.compile(r"debian/([0-9a-f]{64})\.deb")


class TransferError(XoffError):
    """This machine cannot write the file, or import it."""

    exit_code = 3


@dataclass(frozen=True)
class Contents:
    """The contents of a lab file."""

    file: Path
    engines: tuple[str, ...]
    image: str
    """The image's digest."""
    size: int
    """The octets of all that is in it, unpacked."""


def export(
    file: Path,
    engines: Sequence[str],
    report: Report,
    progress: Progress,
    *,
    with_debs: Sequence[str] = (),
    small: bool = False,
    wheel: bool = False,
) -> Contents:
    """Write all that `engines` need to `file`, in place of what was there, with the Debian packages of some locks; what
    is missing is built before.

    A `small` file takes minutes of CPU time to compress, and a `wheel` is one for an index of Python packages.
    """
    sources, digest = _sources(engines, report)
    if (further := debs.ensure(with_debs, report)) is not None:
        sources |= {f"debian/{one.sha256}.deb": one.place / debs.FILE for one in further.locked}
    report("computing checksums")
    content = {
        "format": _FORMAT,
        "xoff": testbed.__version__,
        "engines": sorted(engines),
        "keys": _keys(engines),
        "files": {n: {"size": p.stat().st_size, "sha256": cache.sha256(p)} for n, p in sorted(sources.items())},
    }
    total = sum(path.stat().st_size for path in sources.values())
    done = 0

    def advance(number: int) -> None:
        nonlocal done
        done += number
        progress(done, total)

    with (
        _replaced(file) as out,
        _wrapped(out, engines, wheel) as target,
        tarfile.open(fileobj=target, mode="w|", format=tarfile.USTAR_FORMAT) as archive,
    ):
        written = _encoded(content | {"digest": _digest(content)})
        archive.addfile(plain_tar.member(_MANIFEST, len(written)), io.BytesIO(written))
        for name, path in sorted(sources.items()):
            with path.open("rb") as source:
                if name in _COMPRESSED:
                    with tempfile.TemporaryFile(dir=file.absolute().parent) as packed:
                        for block in _compressed(source, _SMALL if small else _QUICK, advance):
                            packed.write(block)
                        size = packed.tell()
                        packed.seek(0)
                        archive.addfile(plain_tar.member(name + _XZ, size), packed)
                else:
                    archive.addfile(plain_tar.member(name, path.stat().st_size), source)
                    advance(path.stat().st_size)
    return Contents(file, tuple(sorted(engines)), digest, total)


def import_(file: Path, report: Report, progress: Progress, *, as_reference: bool = False) -> Contents:
    """Put what is in `file` into the cache, all of it checked first; with `as_reference` only the reference's lab."""
    try:
        handle = regular_files.opened(file)
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}") from None
    with handle:
        lab_wheel.skip_head(handle)
        archive = plain_tar.members(handle)
        content = _manifest(file, archive)
        _require_ours(file, content)
        total = sum(entry["size"] for entry in content["files"].values())
        try:
            cache.require_room(cache.root(), total + (64 << 20), f"what is in {file}")
            with cache.owned("import") as work:
                _unpack(file, archive, content["files"], work, progress)
                if as_reference:
                    digests = {part: content["files"].get(name, {}).get("sha256") for part, name in _CHECKED.items()}
                    found = image.describe(work / "image")
                    require_reference(file, digests | {"image": found.digest if found else ""})
                digest = _publish(file, work, content["engines"], report)
        except OSError as error:
            if error.errno == errno.ENOSPC:
                raise cache.DiskFullError(f"no room for what is in {file}: {cache.root()} is full") from None
            raise TransferError(f"{file} could not be imported into {cache.root()}: {error}") from None
    return Contents(file, tuple(content["engines"]), digest, total)


def _sources(engines: Sequence[str], report: Report) -> tuple[dict[str, Path], str]:
    """Return the files that go in by their names there, and the image's digest."""
    sources = {f"python/{wheel.name}": wheel for wheel in wheels.ensure(report)}
    if "vm" in engines:
        lab = image.ensure(report)
        sources |= {f"image/{path.name}": path for path in (lab.vmlinuz, lab.initrd)}
    else:
        lab = disks.image_of_root(report)
    if "um" in engines:
        built = kernel.ensure(report)
        sources |= {f"kernel/{path.name}": path for path in (built.file, built.path / kernel.MANIFEST)}
        sources[f"disk/{disks.DISK}"] = disks.root(lab, report)
    return sources | {f"image/{image.MANIFEST}": lab.path / image.MANIFEST}, lab.digest


def _keys(engines: Iterable[str]) -> dict[str, str]:
    """Return the keys of the lab of this version of Xoff. The mirror, which is this machine's, does not matter."""
    keys = {"image": image.recipe_digest(), "python": wheels.key()}
    return keys | {"kernel": kernel.key()} if "um" in engines else keys


def digest_of_keys(engines: Iterable[str]) -> str:
    """Return a digest that differs between versions of Xoff that do not take each other's lab files."""
    return hashlib.sha256(json.dumps(_keys(engines), sort_keys=True).encode()).hexdigest()


def _wrapped(out: IO[bytes], engines: Sequence[str], wheel: bool) -> AbstractContextManager[IO[bytes]]:
    """Return what the lab file is written to: the file itself, or the place for it in a wheel."""
    return lab_wheel.writing(out, digest_of_keys(engines)[:16]) if wheel else nullcontext(out)


def _compressed(source: IO[bytes], preset: int, advance: Callable[[int], None]) -> Iterator[bytes]:
    """Yield the file as streams of xz, one behind the other."""
    cores = len(os.sched_getaffinity(0))
    with ThreadPoolExecutor(cores) as pool:
        while blocks := [block for _ in range(cores) if (block := source.read(_BLOCK))]:
            yield from pool.map(lambda block: lzma.compress(block, check=lzma.CHECK_CRC32, preset=preset), blocks)
            advance(sum(map(len, blocks)))


@contextmanager
def _replaced(file: Path) -> Iterator[IO[bytes]]:
    """Yield a new file beside `file` that takes its place when it is whole, and is removed otherwise."""
    try:
        descriptor, name = tempfile.mkstemp(prefix=f".{file.name}-", dir=file.absolute().parent)
    except OSError as error:
        raise UsageError(f"{file} cannot be written: {error.strerror}") from None
    try:
        with os.fdopen(descriptor, "wb") as out:
            yield out
            os.fchmod(descriptor, 0o666 & ~_umask())
        Path(name).replace(file)
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise cache.DiskFullError(f"no room for {file}: its disk is full; free some, or export elsewhere") from None
        raise TransferError(f"{file} cannot be written: {error.strerror or error}") from None
    finally:
        Path(name).unlink(missing_ok=True)


def _umask() -> int:
    """Return the user's umask, which can only be read by setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _manifest(file: Path, archive: Iterator[TarMember]) -> dict[str, Any]:
    """Return the manifest, which is the first member."""
    try:
        first = next(archive)
        if first.name != _MANIFEST or first.size > _LARGEST_MANIFEST:
            raise MalformedError
        text = b"".join(first.pieces())
    except (MalformedError, StopIteration, OSError):
        raise UsageError(f"{file} is not a lab file: `xoff image export FILE` writes one") from None
    try:
        content: dict[str, Any] = json.loads(text)
        digest = content.pop("digest")
        if digest != _digest(content):
            raise ValueError
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise _damaged(file, _MANIFEST) from None
    return content


def _require_ours(file: Path, content: Mapping[str, Any]) -> None:
    """Refuse a file that this version of Xoff cannot use."""
    if content.get("format") != _FORMAT:
        raise UsageError(
            f"{file} was written by Xoff {str(content.get('xoff'))[:40]} in format {str(content.get('format'))[:40]}, "
            f"and this Xoff {testbed.__version__} reads format {_FORMAT}; export it again with this version of Xoff"
        )
    if not _is_sound(content):
        raise _damaged(file, _MANIFEST)
    theirs, ours = content["keys"], _keys(content["engines"])
    if not theirs["python"] or not ours["python"]:  # one of the two is installed by pip, with its packages
        theirs, ours = theirs | {"python": ""}, ours | {"python": ""}
    if differs := [name for name, key in ours.items() if theirs[name] != key]:
        what = {"image": "image", "kernel": "kernel", "python": "list of Python packages"}
        others = " and another ".join(
            f"{what[name]} ({str(theirs[name])[:_SHOWN]} and not {ours[name][:_SHOWN]})" for name in differs
        )
        raise UsageError(
            f"{file} has the lab of another version of Xoff ({content['xoff'][:40]}; this is {testbed.__version__}), "
            f"with another {others}; export it with the version that is to run"
        )


def require_reference(file: Path, digests: Mapping[str, str | None]) -> None:
    """Refuse a lab whose kernel, disk or image are not those that this version names; what it names not is built.

    A part that the lab does not have is None.
    """
    named = {
        "kernel": kernel.reference_digest(), "disk": disks.reference_digest(), "image": image.reference().get("digest")
    }  # fmt: skip
    for what, theirs in digests.items():
        if theirs not in (None, named[what]):
            raise UsageError(
                f"{file} is not the lab of this version: its {what} has the digest {theirs or 'none'}, and this "
                f"version names {named[what] or 'none, for its sources were changed'}; take the file of this version"
            )


def _is_sound(content: Mapping[str, Any]) -> bool:
    """Return True if a manifest has all its parts; its digest shows damage, but not who wrote it."""
    try:
        engines, files, keys = content["engines"], content["files"], content["keys"]
        wanted = set().union(*(_PARTS[engine] for engine in engines))
        return (
            bool(wanted)
            and isinstance(content["xoff"], str)
            and engines == sorted(set(engines))
            and sum(map(bool, map(_DEB.fullmatch, files))) <= _MOST_DEBS
            and sum(not _DEB.fullmatch(name) for name in files) <= len(wanted) + _MOST_WHEELS
            and {name for name in files if not _WHEEL.fullmatch(name) and not _DEB.fullmatch(name)} == wanted
            and all(
                type(entry["size"]) is int
                and 0 <= entry["size"] <= _LARGEST.get(name, _LARGEST_DEB if _DEB.fullmatch(name) else _LARGEST_WHEEL)
                and entry["sha256"]
                for name, entry in files.items()
            )
            and keys.keys() == _keys(engines).keys()
        )
    except (KeyError, TypeError, AttributeError):
        return False


def _unpack(file: Path, archive: Iterator[TarMember], files: Mapping[str, Any], work: Path, progress: Progress) -> None:
    done, total = 0, sum(entry["size"] for entry in files.values())
    missing = dict(files)
    try:
        for member in archive:
            name = member.name.removesuffix(_XZ)
            entry = missing.pop(name, None)
            if entry is None or (name in _COMPRESSED) is not member.name.endswith(_XZ):
                raise _damaged(file, ascii(member.name)[1:-1])
            target = work / name
            target.parent.mkdir(exist_ok=True)
            taken, digest = 0, hashlib.sha256()
            pieces = _decompressed(member, entry["size"]) if name in _COMPRESSED else member.pieces()
            with target.open("wb") as out:
                for data in pieces:
                    taken += len(data)
                    if taken > entry["size"]:
                        raise _damaged(file, member.name)
                    out.write(data)
                    digest.update(data)
                    progress(done + taken, total)
            if taken != entry["size"]:
                raise _damaged(file, member.name, f"{taken} octets and not {entry['size']}")
            if digest.hexdigest() != entry["sha256"]:
                raise _damaged(file, member.name, f"SHA-256 {digest.hexdigest()} and not {str(entry['sha256'])[:64]}")
            done += taken
    except (MalformedError, lzma.LZMAError) as error:
        raise _damaged(file, next(iter(missing), "its end"), str(error)) from None
    if missing:
        raise _damaged(file, next(iter(missing)))


def _decompressed(member: TarMember, size: int) -> Iterator[bytes]:
    """Yield the `size` octets that `_compressed` has compressed, a step at a time."""
    packed, data = member.pieces(), b""
    for _ in range(size // _BLOCK + 1):
        if not data and not (data := next(packed, b"")):
            return
        stream = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_XZ_MEMORY)
        while not stream.eof:
            if stream.needs_input and not data and not (data := next(packed, b"")):
                raise MalformedError("it ends too early")
            yield stream.decompress(data, _STEP)
            data = b""
        data = stream.unused_data
    if data or next(packed, b""):
        raise MalformedError("it has more than it should")


def _publish(file: Path, work: Path, engines: Sequence[str], report: Report) -> str:
    """Give everything its place in the cache, unless it is there already; return the image's digest."""
    lab = image.describe(work / "image")
    if lab is None:
        raise _damaged(file, f"image/{image.MANIFEST}")
    if wheels.key() and (work / "python").is_dir():
        if not wheels.complete(work / "python"):
            raise _damaged(file, "python")
        with cache.locked("Python packages", report):
            if not wheels.current():
                cache.publish(work / "python", wheels.place())
    _publish_debs(file, work / "debian", report)
    if "um" in engines:
        with cache.locked("lab kernel", report):
            if kernel.current() is None:
                (work / "kernel" / kernel.KERNEL).chmod(0o755)
                cache.publish(work / "kernel", kernel.place())
        disks.put_root(work / "disk", lab, report)
    with cache.locked("lab image", report):  # last: without it nothing else is found
        here = image.described()
        if here is None or here.digest != lab.digest or ("vm" in engines and image.current() is None):
            cache.publish(work / "image", image.place())
    return lab.digest


def _publish_debs(file: Path, folder: Path, report: Report) -> None:
    """Put Debian packages into the cache, each by its SHA-256, which is all that a lock asks for."""
    if folder.is_dir():
        with cache.locked("Debian packages", report):
            for path in sorted(folder.iterdir()):
                if cache.sha256(path) != path.stem:
                    raise _damaged(file, f"debian/{path.name}")
                debs.put(Locked(path.name, "", path.stem, ""), path)


def _damaged(file: Path, what: str, why: str = "") -> UsageError:
    reason = f" ({why})" if why else ""
    return UsageError(
        f"{file} is damaged: {what} is not as it was exported{reason}; copy the file again, or export it anew"
    )


def _encoded(content: Mapping[str, Any]) -> bytes:
    return json.dumps(content, indent=1, sort_keys=True).encode() + b"\n"


def _digest(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(_encoded(content)).hexdigest()
