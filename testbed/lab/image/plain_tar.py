"""Tars that hold regular files and nothing else, read in little memory, whatever the file really is.

Python's `tarfile` reads headers that extend others into memory, as large as they claim to be, and follows links between
members. Here each member is one header of 512 octets and its data; all else is refused. Such a header cannot hold all
names of files, so those of a packed folder are in a list, its first member.
"""

from __future__ import annotations

import io
import json
import os
import tarfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO

_BLOCK = 512
_STEP = 1 << 20
_NAMES = "names.json"
_LONGEST_NAMES = 64 << 20
_LARGEST = 1 << 50
"""The limit of a member's size in octets: files can be read so far, and a header can hold a larger number."""


class MalformedError(Exception):
    """A tar that cannot be read; the message is the reason, as a part of a sentence."""


class TarMember:
    """A file in the tar."""

    def __init__(self, name: str, size: int, source: IO[bytes]) -> None:
        self.name, self.size = name, size
        self._source, self._left = source, size

    def pieces(self) -> Iterator[bytes]:
        """Yield the content of the file, a piece at a time."""
        while self._left:
            data = self._source.read(min(_STEP, self._left))
            if not data:
                raise MalformedError("it ends too early")
            self._left -= len(data)
            yield data


def member(name: str, size: int) -> tarfile.TarInfo:
    """Return the header of a file, undated and owned by root, so that equal contents give equal tars."""
    header = tarfile.TarInfo(name)
    header.size = size
    return header


def members(source: IO[bytes]) -> Iterator[TarMember]:
    """Yield the members of a tar, in order; each is read before the next one is taken."""
    while header := source.read(_BLOCK):
        if header == bytes(_BLOCK):
            return
        try:
            member = tarfile.TarInfo.frombuf(header, "utf-8", "strict")
        except (tarfile.TarError, ValueError):
            raise MalformedError("there is no header of a file where one should be") from None
        if member.type not in (tarfile.REGTYPE, tarfile.AREGTYPE) or not 0 <= member.size < _LARGEST:
            raise MalformedError(f"{member.name!a} in it is no regular file")
        start = source.tell()
        yield TarMember(member.name, member.size, source)
        source.seek(start + member.size + -member.size % _BLOCK)
    raise MalformedError("it ends too early")


def pack_folder(folder: Path, out: IO[bytes]) -> None:
    """Write all files of a folder, also of those in it."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    names = json.dumps([str(path.relative_to(folder)) for path in files]).encode()
    with tarfile.open(fileobj=out, mode="w|", format=tarfile.USTAR_FORMAT) as archive:
        archive.addfile(member(_NAMES, len(names)), io.BytesIO(names))
        for number, path in enumerate(files):
            with path.open("rb") as source:
                archive.addfile(member(str(number), os.fstat(source.fileno()).st_size), source)


def unpack_folder(source: IO[bytes], folder: Path, most_files: int) -> None:
    """Write what `pack_folder` has packed into a folder; MalformedError if it is something else."""
    found = members(source)
    first = next(found, None)
    if first is None or first.name != _NAMES or first.size > _LONGEST_NAMES:
        raise MalformedError("it does not begin with a list of names")
    names = json.loads(b"".join(first.pieces()))
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise MalformedError("its list of names is none")
    if len(names) > most_files:
        raise MalformedError(f"it has more than {most_files} files")
    for number, one in enumerate(found):
        name = names[number] if number < len(names) else ""
        inside = PurePosixPath(name)
        if one.name != str(number) or not name or inside.is_absolute() or ".." in inside.parts:
            raise MalformedError(f"{(name or one.name)[:200]!r} in it is not a file of a result")
        (folder / inside).parent.mkdir(parents=True, exist_ok=True)
        with (folder / inside).open("wb") as target:
            for data in one.pieces():
                target.write(data)
