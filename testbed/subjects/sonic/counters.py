"""PFC's counters of a real switch: what `show pfc counters` printed, from a file or an archive of `show techsupport`.

The numbers are the switch's own, since it started or since they were cleared. Two readings of one archive show how much
they grew in between.

The text files in an archive of `show techsupport`: a tar of a switch's command outputs, packed by gzip, bzip2 or xz.

An archive is from elsewhere. Nothing of it is written to disk, and no name in it is used as a path. It is read once,
from front to back, a header and a part of a file at a time, with limits on what is unpacked; links, devices and all
else that is no regular file are passed over. Not here: what the texts mean.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import re
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from testbed.errors import UsageError

LARGEST_TEXT = 8 << 20
"""The most octets of a file in the archive that is read; larger ones are passed over."""
MOST_OCTETS = 8 << 30
"""The most octets that are unpacked in all."""
MOST_MEMBERS = 200_000
_BLOCK = 512
_PIECE = 1 << 16
_LONGEST_NAME = 1 << 16
_USTAR = b"ustar\0"
_LONG_NAME, _PAX, _PAX_GLOBAL = b"L", b"x", b"g"
_MAGIC: dict[bytes, Callable[..., Any]] = {b"\x1f\x8b": gzip.GzipFile, b"BZ": bz2.BZ2File, b"\xfd7": lzma.LZMAFile}
"""The program that unpacks a file that begins with these octets."""


class ArchiveError(UsageError):
    """An archive that is damaged, is none, or unpacks to more than any switch leaves."""


def is_archive(path: Path) -> bool:
    """Return True if a file begins as a packed file does, or is a tar by its header."""
    try:
        with path.open("rb") as file:
            head = file.read(_BLOCK)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    return head[:2] in _MAGIC or head[257:262] == b"ustar"


def texts(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each file of an archive; one that is packed by gzip itself is unpacked, too."""
    with path.open("rb") as file:
        yield from texts_in(file, path)


def texts_in(file: BinaryIO, path: Path) -> Iterator[tuple[str, str]]:
    """Yield what `texts` does, of an open file; `path` is its name in messages."""
    try:
        opener = _MAGIC.get(file.read(2))
        file.seek(0)
        with opener(fileobj=file) if opener is gzip.GzipFile else opener(file) if opener else file as unpacked:
            for name, octets in _members(_Limited(unpacked, path)):
                yield name, _unpacked(octets).decode(errors="replace")
    except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        reason = getattr(error, "strerror", None) or " ".join(str(error).split()) or "it ends too early"
        raise ArchiveError(f"{path} cannot be unpacked: {reason}") from None


class _Limited:
    """Reads an unpacked stream in pieces, up to a limit."""

    def __init__(self, stream: Any, path: Path) -> None:
        self._stream, self.path, self._left = stream, path, MOST_OCTETS

    def read(self, size: int) -> bytes:
        """Return so many octets, or as many as there are."""
        self._take(size)
        octets = bytearray()
        while len(octets) < size and (piece := self._stream.read(min(_PIECE, size - len(octets)))):
            octets += piece
        return bytes(octets)

    def skip(self, size: int) -> None:
        self._take(size)
        while size and (piece := self._stream.read(min(_PIECE, size))):
            size -= len(piece)
        if size:
            raise ArchiveError(f"{self.path} ends within a file; it is not the whole archive")

    def _take(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            raise ArchiveError(
                f"{self.path} unpacks to more than {MOST_OCTETS >> 30} GiB, and no switch leaves so much; take the "
                "file with the counters out of it"
            )


def _members(stream: _Limited) -> Iterator[tuple[str, bytes]]:
    """Yield the name and the content of each regular file that is not too large."""
    longer = ""
    for _ in range(MOST_MEMBERS):
        header = stream.read(_BLOCK)
        if not header.strip(b"\0"):
            return  # the end, or the zeros before it
        if len(header) < _BLOCK or not _is_right(header):
            raise ArchiveError(f"{stream.path} is not a tar archive, or is damaged")
        size, kind = _number(header[124:136]), header[156:157]
        if size < 0:
            raise ArchiveError(f"{stream.path} is damaged: a file has a size below 0")
        padding = -size % _BLOCK
        if kind in (_LONG_NAME, _PAX):
            if size > _LONGEST_NAME:
                raise ArchiveError(f"{stream.path} is damaged: a name has {size} octets")
            content = stream.read(size + padding)[:size]
            longer = _name(content) if kind == _LONG_NAME else _pax_path(content) or longer
            continue
        folder = _name(header[345:500]) if header[257:263] == _USTAR else ""
        name = longer or f"{folder}{'/' if folder else ''}{_name(header[:100])}"
        if kind != _PAX_GLOBAL:
            longer = ""
        if kind in (b"0", b"\0") and size <= LARGEST_TEXT:
            content = stream.read(size + padding)
            if len(content) < size:
                raise ArchiveError(f"{stream.path} ends within a file; it is not the whole archive")
            yield name, content[:size]
        else:
            stream.skip(size + padding)
    raise ArchiveError(f"{stream.path} has more than {MOST_MEMBERS} files, and no switch leaves so many")


def _is_right(header: bytes) -> bool:
    """Return True if a header has the sum that it says."""
    told = _number(header[148:156])
    return sum(header) - sum(header[148:156]) + 8 * ord(" ") == told


def _number(field: bytes) -> int:
    """Return a number of a header, octal or, if it is large, binary; -1 if it is none."""
    if field[0] & 0x80:
        return int.from_bytes(field[1:]) if field[0] == 0x80 else -1
    text = field.strip(b"\0 ")
    try:
        return int(text or b"0", 8)
    except ValueError:
        return -1


def _name(octets: bytes) -> str:
    return octets.partition(b"\0")[0].decode(errors="replace")


def _pax_path(content: bytes) -> str:
    """Return the path of an extended header, or an empty text if it has none."""
    for line in content.split(b"\n"):
        _, _, record = line.partition(b" ")
        if record.startswith(b"path="):
            return record[5:].decode(errors="replace")
    return ""


def _unpacked(octets: bytes) -> bytes:
    """Return the content of a file that is packed by gzip, up to the size that is read; of any other, the file's."""
    if octets[:2] != b"\x1f\x8b":
        return octets
    try:
        return zlib.decompressobj(31).decompress(octets, LARGEST_TEXT)
    except zlib.error:
        return b""


MOST_PORTS = 4096
_HEAD = re.compile(r"^\s*Port\s+(Rx|Tx)(?:\s+PFC[0-7]){8}\s*$", re.ASCII)
_ROW = re.compile(r"^\s*([A-Za-z][A-Za-z0-9_./-]{0,31})((?:\s+(?:[0-9][0-9,]{0,30}|N/A)){8})\s*$", re.ASCII)
CONFIG = "config_db.json"
Counts = tuple[int | None, ...]
"""The frames of each priority; None where the switch has no counter."""


@dataclass(frozen=True)
class ShownCounters:
    """The output of one `show pfc counters`, by port."""

    source: str
    received: Mapping[str, Counts] = field(default_factory=dict)
    sent: Mapping[str, Counts] = field(default_factory=dict)

    @property
    def ports(self) -> list[str]:
        return list(dict.fromkeys([*self.received, *self.sent]))

    def used(self) -> Iterator[tuple[str, int]]:
        """Yield each port and priority with a frame in either direction."""
        for port in self.ports:
            for priority in range(8):
                if any(counts.get(port, ())[priority : priority + 1] > (0,) for counts in self._both()):
                    yield port, priority

    def _both(self) -> tuple[dict[str, tuple[int, ...]], ...]:
        return tuple(
            {port: tuple(one or 0 for one in row) for port, row in rows.items()} for rows in (self.received, self.sent)
        )


def parse(text: str, source: str) -> ShownCounters | None:
    """Return the counters in a text, or None if there are none. Other lines may be around the tables."""
    counts: dict[str, dict[str, Counts]] = {"Rx": {}, "Tx": {}}
    rows: dict[str, Counts] | None = None
    for line in text.splitlines():
        if head := _HEAD.match(line):
            rows = counts[head[1]]
        elif rows is not None and (row := _ROW.match(line)):
            rows[row[1]] = tuple(None if one == "N/A" else int(one.replace(",", "")) for one in row[2].split())
            if len(rows) > MOST_PORTS:
                raise UsageError(f"{source} has more than {MOST_PORTS} ports, and no switch has so many")
        elif rows is not None and line.strip() and not set(line) <= {"-", " "}:
            rows = None
    return ShownCounters(source, counts["Rx"], counts["Tx"]) if counts["Rx"] or counts["Tx"] else None


def read(path: Path) -> tuple[list[ShownCounters], bytes | None]:
    """Return the readings in a file or an archive, by the names of files, and the config_db.json if the archive
    has it.
    """
    if path.is_dir():
        raise UsageError(
            f"{path} is a folder; the output of show pfc counters or an archive of show techsupport is expected"
        )
    if not is_archive(path):
        with path.open("rb") as file:
            octets = file.read(LARGEST_TEXT + 1)
        if len(octets) > LARGEST_TEXT:
            raise UsageError(f"{path} has more than {LARGEST_TEXT >> 20} MiB; show pfc counters prints some kB")
        one = parse(octets.decode(errors="replace"), str(path))
        if one is None:
            raise UsageError(
                f"{path} has no table of `show pfc counters`, whose first line is: Port Rx  PFC0  PFC1 ... PFC7"
            )
        return [one], None
    readings, config = [], None
    for name, text in texts(path):
        if name.rpartition("/")[2] == CONFIG and config is None:
            config = text.encode()
        elif "PFC0" in text and (reading := parse(text, name)) is not None:
            readings.append(reading)
    if not readings:
        raise UsageError(
            f"{path} has no output of `show pfc counters`; give a file that `show pfc counters > FILE` makes"
        )
    return sorted(readings, key=lambda reading: (reading.source.rpartition("/")[2], reading.source)), config


def grown(first: Counts | None, last: Counts | None, priority: int) -> int | None:
    """Return by how much a counter grew; None if it was cleared in between, or there is none."""
    before, after = (None if row is None else row[priority] for row in (first, last))
    return None if before is None or after is None or after < before else after - before
