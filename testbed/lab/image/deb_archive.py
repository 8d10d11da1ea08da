"""Debian packages (`.deb`), read as what they are: files of strangers.

A package is an `ar` archive with two compressed tars: `control` has its description and its maintainer scripts, `data`
its files. Nothing is written by a name that a package gives: contents stay in one archive file, and names become nodes
of a disk. A package that no Debian tool builds (a name that leaves the root, a link that does, a device, a tar that
claims to be immense) is refused with its name and what is wrong with it. `man 5 deb` has the format.
"""

from __future__ import annotations

import bz2
import io
import lzma
import shutil
import stat
import subprocess
import tarfile
import tempfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, NoReturn

from testbed.errors import XoffError
from testbed.lab.host import prerequisites

_MAGIC, _AR_HEADER, _AR_END = b"!<arch>\n", 60, b"`\n"
_BLOCK, _STEP = 512, 1 << 20
LARGEST_DATA = 2 << 30
"""The most octets of a package, unpacked."""
_LARGEST_CONTROL = 32 << 20
_MOST_MEMBERS = 200_000
_LARGEST_HEADER = 1 << 16
"""The most octets of a header that extends another one, such as a long name."""
_LONGEST_NAME, _LONGEST_PATH = 255, 4096
_XZ_MEMORY = 256 << 20
_EXTENDING = (tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK, tarfile.XHDTYPE, tarfile.XGLTYPE)
_PLAIN = (tarfile.REGTYPE, tarfile.AREGTYPE)
_KINDS = {tarfile.DIRTYPE: stat.S_IFDIR, tarfile.SYMTYPE: stat.S_IFLNK, **dict.fromkeys(_PLAIN, stat.S_IFREG)}
_SPECIAL = {tarfile.CHRTYPE: "device", tarfile.BLKTYPE: "device", tarfile.FIFOTYPE: "pipe"}
_STATIC_IDS = 100
"""The users and groups below this number are the same on each Debian machine; all others are made by scripts."""


class PackageError(XoffError):
    """A Debian package that cannot be used."""

    exit_code = 3


@dataclass(frozen=True)
class PackageMember:
    """A file, a directory or a link in a package."""

    name: str
    mode: int
    uid: int
    gid: int
    size: int = 0
    place: int = 0
    """The place of the content in the archive."""
    target: str = ""
    """The target of a symbolic link; for a hard link, the name of the file that it is."""
    is_hard_link: bool = False


class Package:
    """An opened package."""

    def __init__(self, path: Path, shown: str) -> None:
        """Read the directory of the archive; `shown` is the package's name in messages."""
        self._path, self._shown = path, shown
        self._parts = dict(self._ar_members())
        for part in ("control.tar", "data.tar"):
            if sum(name.startswith(part) for name in self._parts) != 1:
                self._refuse(f"it has not one {part}, as each package has")

    def control(self) -> dict[str, bytes]:
        """Return the description and the maintainer scripts, by their names."""
        with tempfile.TemporaryFile() as archive:
            self._unpack("control.tar", archive, _LARGEST_CONTROL)
            found = {}
            for member in self._members(archive, 0):
                if stat.S_ISREG(member.mode) and not member.is_hard_link:
                    archive.seek(member.place)
                    found[member.name] = archive.read(member.size)
            return found

    def data(self, archive: IO[bytes]) -> list[PackageMember]:
        """Put the contents behind what `archive` has, and return all members, the places of which are in it."""
        base = archive.seek(0, io.SEEK_END)
        self._unpack("data.tar", archive, LARGEST_DATA)
        return list(self._members(archive, base))

    def _ar_members(self) -> Iterator[tuple[str, tuple[int, int]]]:
        """Yield the name of each member of the `ar` archive, with its place and size."""
        end = self._path.stat().st_size
        with self._path.open("rb") as source:
            if source.read(len(_MAGIC)) != _MAGIC:
                self._refuse("it is no Debian package")
            at = len(_MAGIC)
            while at < end:
                source.seek(at)
                header = source.read(_AR_HEADER)
                digits = header[48:58].strip()
                if len(header) < _AR_HEADER or header[58:] != _AR_END or not digits.isdigit():
                    self._refuse("its archive is damaged")
                size = int(digits)
                at += _AR_HEADER
                if size > end - at:
                    self._refuse("it ends too early")
                yield header[:16].decode("ascii", "replace").strip().rstrip("/"), (at, size)
                at += size + size % 2

    def _unpack(self, part: str, out: IO[bytes], most: int) -> None:
        name = next(name for name in self._parts if name.startswith(part))
        begin, size = self._parts[name]
        taken = 0
        with self._path.open("rb") as source:
            source.seek(begin)
            try:
                for data in self._decompressed(name, source, size):
                    taken += len(data)
                    if taken > most:
                        self._refuse(f"its {part} has more than {most >> 20} MB, and no package has so much")
                    out.write(data)
            except (lzma.LZMAError, zlib.error, OSError, EOFError, ValueError) as error:
                self._refuse(f"its {name} cannot be decompressed ({error})")

    def _decompressed(self, name: str, source: IO[bytes], size: int) -> Iterator[bytes]:
        suffix = Path(name).suffix
        if suffix == ".zst":
            yield from self._by_zstd(source, size)
            return
        made: dict[str, Callable[[], Decompressor]] = {
            ".xz": lambda: _Lzma(lzma.LZMADecompressor(memlimit=_XZ_MEMORY)),
            ".gz": _Zlib,
            ".bz2": lambda: _Lzma(bz2.BZ2Decompressor()),
            ".tar": _Plain,
        }
        if suffix not in made:
            self._refuse(f"its {name} is compressed in a way that Xoff does not know")
        stream = made[suffix]()
        left = size
        while left and not stream.eof:
            packed = source.read(min(_STEP, left))
            if not packed:
                self._refuse("it ends too early")
            left -= len(packed)
            yield from stream.feed(packed)
        if not stream.eof and suffix != ".tar":
            self._refuse(f"its {name} ends too early")

    def _by_zstd(self, source: IO[bytes], size: int) -> Iterator[bytes]:
        """Decompress by the program `zstd`, as Python 3.11 has no such module."""
        program = prerequisites.find_program("zstd")
        if program is None:
            self._refuse("it is compressed by zstd, which this machine lacks: apt-get install zstd")
        with tempfile.TemporaryFile() as packed:
            shutil.copyfileobj(io.BytesIO(source.read(size)), packed)
            packed.seek(0)
            with subprocess.Popen(
                [program, "-d", "-q", "-c"], stdin=packed, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            ) as zstd:
                assert zstd.stdout is not None
                try:
                    while data := zstd.stdout.read(_STEP):
                        yield data
                finally:
                    zstd.kill()
            if zstd.returncode not in (0, -9):
                raise OSError(f"zstd ended with {zstd.returncode}")

    def _members(self, archive: IO[bytes], base: int) -> Iterator[PackageMember]:
        """Yield the members of the tar that begins at `base`, all of them checked."""
        checked = self._checked_headers(archive, base)
        end = archive.seek(0, io.SEEK_END)
        archive.seek(base)
        try:
            with tarfile.open(fileobj=_From(archive, base), mode="r:", encoding="utf-8") as members:
                for one in members:
                    if one.offset_data not in checked:
                        self._refuse("a header in it has others elsewhere than they are")
                    if (name := self._inside(one.name, "name")) or one.isdir():
                        yield self._member(one, name, base, end)
        except (tarfile.TarError, ValueError) as error:
            self._refuse(f"a tar in it is damaged ({error})")

    def _member(self, one: tarfile.TarInfo, name: str, base: int, end: int) -> PackageMember:
        uid, gid = (number if 0 <= number < _STATIC_IDS else 0 for number in (one.uid, one.gid))
        mode = one.mode & 0o7777
        if one.islnk():
            target = self._inside(one.linkname, "hard link")
            return PackageMember(name, stat.S_IFREG | mode, uid, gid, target=target, is_hard_link=True)
        if one.issym():
            self._require_link_inside(name, one.linkname)
            return PackageMember(name, stat.S_IFLNK | 0o777, uid, gid, target=one.linkname)
        kind = _KINDS[one.type]
        size = one.size if kind == stat.S_IFREG else 0
        if one.issparse() or one.offset_data + size > end - base:  # what a header that extends another one can claim
            self._refuse(f"{ascii(name)[1:-1][:200]} in it claims {size} octets, more than there are")
        return PackageMember(name, kind | mode, uid, gid, size, base + one.offset_data)

    def _checked_headers(self, archive: IO[bytes], base: int) -> set[int]:
        """Refuse what `tarfile` would read into memory whatever its size is, and what is no file, folder or link.

        Return where the data of all others begin: a header that extends another one can have `tarfile` find further
        ones.
        """
        end = archive.seek(0, io.SEEK_END)
        at, count = base, 0
        found_at = set[int]()
        while at < end:
            archive.seek(at)
            header = archive.read(_BLOCK)
            if header == bytes(len(header)):
                break
            try:
                member = tarfile.TarInfo.frombuf(header, "utf-8", "surrogateescape")
            except tarfile.TarError as error:
                self._refuse(f"a tar in it is damaged ({error})")
            count += 1
            shown = ascii(member.name)[1:-1][:200]
            if member.type in _SPECIAL:
                self._refuse(f"{shown} in it is a {_SPECIAL[member.type]}, which no disk of packages has")
            is_extension = member.type in _EXTENDING
            if not is_extension and member.type not in (*_KINDS, tarfile.LNKTYPE):
                self._refuse(f"{shown} in it is of the unknown type {member.type!a}")
            if is_extension and member.size > _LARGEST_HEADER:
                self._refuse(f"a header in it claims {member.size} octets")
            if count > _MOST_MEMBERS:
                self._refuse(f"it has more than {_MOST_MEMBERS} files")
            has_data = is_extension or member.type in _PLAIN
            if member.size < 0 or (has_data and member.size > end - at - _BLOCK):
                self._refuse(f"{shown} in it claims {member.size} octets, more than there are")
            if not is_extension:
                found_at.add(at + _BLOCK - base)
            at += _BLOCK + (member.size + -member.size % _BLOCK if has_data else 0)
        return found_at

    def _inside(self, name: str, what: str) -> str:
        """Return a path below the root without its beginning; refuse one that leaves the root."""
        plain = name.removeprefix("./").rstrip("/")
        plain = "" if plain == "." else plain
        parts = plain.split("/")
        shown = ascii(name)[1:-1][:200]
        if name.startswith("/") or ".." in parts:
            self._refuse(f"the {what} {shown} in it leads out of the disk")
        if plain and ("" in parts or "." in parts):
            self._refuse(f"the {what} {shown} in it is no path that a package has")
        try:
            longest = max(len(part.encode()) for part in parts)
        except UnicodeEncodeError:
            self._refuse(f"the {what} {shown} in it is not in UTF-8")
        if longest > _LONGEST_NAME or len(plain) > _LONGEST_PATH or "\0" in plain:
            self._refuse(f"the {what} {shown} in it is too long for a file system")
        return plain

    def _require_link_inside(self, name: str, target: str) -> None:
        """Refuse a symbolic link that climbs above the root. An absolute one is of the lab's root, where it is read."""
        depth = 0 if target.startswith("/") else name.count("/")
        for part in target.split("/"):
            depth += {"..": -1, ".": 0, "": 0}.get(part, 1)
            if depth < 0:
                self._refuse(f"the link {ascii(name)[1:-1][:200]} in it leads out of the disk")
        if not target or "\0" in target or len(target) > _LONGEST_PATH:
            self._refuse(f"the link {ascii(name)[1:-1][:200]} in it has no target that a file system takes")
        try:
            target.encode()
        except UnicodeEncodeError:
            self._refuse(f"the link {ascii(name)[1:-1][:200]} in it is not in UTF-8")

    def _refuse(self, why: str) -> NoReturn:
        raise PackageError(f"the Debian package {self._shown} is not used: {why}")


class Decompressor:
    """A stream that is decompressed a step at a time, whatever its data would become at once."""

    eof = False

    def feed(self, packed: bytes) -> Iterator[bytes]:
        raise NotImplementedError


class _Lzma(Decompressor):
    """That of xz and bzip2, the interfaces of which are the same; further streams behind the first are taken too."""

    def __init__(self, stream: lzma.LZMADecompressor | bz2.BZ2Decompressor) -> None:
        self._stream = stream

    @property
    def eof(self) -> bool:  # type: ignore[override]
        return self._stream.eof

    def feed(self, packed: bytes) -> Iterator[bytes]:
        yield self._stream.decompress(packed, _STEP)
        while not self._stream.eof and not self._stream.needs_input:
            yield self._stream.decompress(b"", _STEP)


class _Zlib(Decompressor):
    def __init__(self) -> None:
        self._stream = zlib.decompressobj(wbits=31)  # gzip

    @property
    def eof(self) -> bool:  # type: ignore[override]
        return self._stream.eof

    def feed(self, packed: bytes) -> Iterator[bytes]:
        while packed and not self._stream.eof:
            yield self._stream.decompress(packed, _STEP)
            packed = self._stream.unconsumed_tail


class _Plain(Decompressor):
    """No compression: whatever comes, until no more does."""

    eof = False

    def feed(self, packed: bytes) -> Iterator[bytes]:
        yield packed


class _From(io.RawIOBase):
    """The part of a file from one place on, as a file of its own."""

    def __init__(self, whole: IO[bytes], base: int) -> None:
        self._whole, self._base = whole, base

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._whole.tell() - self._base

    def seek(self, at: int, whence: int = io.SEEK_SET) -> int:
        return self._whole.seek(at + self._base if whence == io.SEEK_SET else at, whence) - self._base

    def read(self, size: int = -1) -> bytes:
        return self._whole.read(size)
