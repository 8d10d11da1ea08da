"""A file that only looks like a lab: little time and memory are spent on it, and it is refused in one line."""

from __future__ import annotations

import json
import lzma
import os
import tarfile
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from testbed.errors import UsageError
from testbed.lab.engines import lab_file
from testbed.lab.host import cache
from testbed.lab.image import plain_tar
from testbed.lab.um import disks
from tests.forked_command import ForkedCommand, forked_command
from tests.unit.lab.image.lab_files import lab, small_list

__all__ = ["lab", "small_list"]
GB = 1 << 30
MANIFEST = lab_file._MANIFEST


def _header(name: str, kind: bytes = tarfile.REGTYPE, size: int = 0, link: str = "") -> bytes:
    member = plain_tar.member(name, size)
    member.type, member.linkname = kind, link
    return member.tobuf(tarfile.GNU_FORMAT)


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 512)


def _manifest(lab: Path, change: Callable[[dict[str, Any]], object] = lambda _: None) -> bytes:
    """A sound one for the engine um, unless it is changed."""
    made = lab.parent / "whole.tar"
    if not made.exists():
        lab_file.export(made, ["um"], cache.quiet, lambda *_: None)
    with tarfile.open(made) as archive:
        source = archive.extractfile(MANIFEST)
        assert source is not None
        content = json.load(source)
    del content["digest"]
    change(content)
    data = lab_file._encoded(content | {"digest": lab_file._digest(content)})
    return _header(MANIFEST, size=len(data)) + _padded(data)


@pytest.fixture(scope="module")
def xoff() -> Iterator[ForkedCommand]:
    with forked_command("testbed.cli.house.lab_file", "testbed.lab.engines.lab_file") as commands:
        yield commands


Refused = Callable[[Path], str]


@pytest.fixture
def refused(xoff: ForkedCommand, lab: Path) -> Refused:
    """Import a file by the command line in little memory; it is refused, and the cache stays. What is said of it."""

    def one(file: Path, memory: int = 300 << 20) -> str:
        before = sorted(path for path in lab.rglob("*") if path.suffix != ".lock")
        lock = ("testbed.lab.image.wheels", "LOCK", file.parent / "run.lock")
        done = xoff.run("image", "import", str(file), memory=memory, seconds=20, replaced=[lock])
        assert (done.returncode, done.stdout) == (2, ""), done.stderr
        said = [line for line in done.stderr.splitlines() if not line.endswith(" %")]
        assert len(said) == 1
        assert sorted(path for path in lab.rglob("*") if path.suffix != ".lock") == before
        return said[0].removeprefix(f"xoff: {file} ")

    return one


LINKS = {"a symbolic link": tarfile.SYMTYPE, "a hard link": tarfile.LNKTYPE}
EXTENSIONS = {
    "a PAX header": tarfile.XHDTYPE,
    "a global PAX header": tarfile.XGLTYPE,
    "a header of Solaris": tarfile.SOLARIS_XHDTYPE,
    "a long name": tarfile.GNUTYPE_LONGNAME,
    "a long link": tarfile.GNUTYPE_LONGLINK,
    "a sparse file": tarfile.GNUTYPE_SPARSE,
}
OTHERS = {
    "a FIFO": tarfile.FIFOTYPE,
    "a device": tarfile.CHRTYPE,
    "a directory": tarfile.DIRTYPE,
    "an unknown one": b"Z",
}


@pytest.mark.parametrize("kind", (LINKS | EXTENSIONS | OTHERS).values(), ids=LINKS | EXTENSIONS | OTHERS)
def test_what_is_no_regular_file_is_refused_wherever_it_is(
    kind: bytes, lab: Path, tmp_path: Path, refused: Refused
) -> None:
    """It is tried as the first member and as the image's manifest; a GB that a header claims to have is not read."""
    size = 0 if kind in (LINKS | OTHERS).values() else GB
    file = tmp_path / "hostile.tar"
    for before, name, said in (
        (b"", MANIFEST, "is not a lab file: "),
        (
            _manifest(lab),
            "image/manifest.json",
            "is damaged: disk/disk is not as it was exported ('image/manifest.json",
        ),
    ):
        file.write_bytes(before + _header(name, kind, size, MANIFEST))
        os.truncate(file, len(before) + 512 + size + 1024)
        assert refused(file).startswith(said)


def test_a_manifest_that_is_large_or_deep_is_refused(tmp_path: Path, refused: Refused) -> None:
    file = tmp_path / "hostile.tar"
    file.write_bytes(_header(MANIFEST, size=GB))
    os.truncate(file, 20 * GB)
    assert refused(file).startswith("is not a lab file: ")
    for data in (b"[" * (1 << 20), b'{"digest": ' + b"9" * 10_000 + b"}", b"7", b"null"):
        file.write_bytes(_header(MANIFEST, size=len(data)) + _padded(data))
        assert refused(file).startswith("is damaged: xoff-lab.json")


CHANGES: dict[str, Callable[[dict[str, Any]], object]] = {
    "a disk of a petabyte": lambda content: content["files"]["disk/disk"].update(size=1 << 50),
    "a large manifest": lambda content: content["files"]["image/manifest.json"].update(size=2 << 20),
    "a large wheel": lambda content: content["files"].update({"python/a.whl": {"size": GB, "sha256": "0"}}),
    "many wheels": lambda content: content["files"].update(
        {f"python/a{number}.whl": {"size": 1, "sha256": "0"} for number in range(1000)}
    ),
    "an engine twice": lambda content: content.update(engines=["um"] * 1000),
    "no version": lambda content: content.pop("xoff"),
    "a version of another kind": lambda content: content.update(xoff=[1]),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_manifest_with_what_no_lab_has_is_refused(
    change: Callable[[dict[str, Any]], object], lab: Path, tmp_path: Path, refused: Refused
) -> None:
    file = tmp_path / "hostile.tar"
    file.write_bytes(_manifest(lab, change))
    assert refused(file).startswith("is damaged: xoff-lab.json")


def _with_dictionary(exponent: int) -> bytes:
    """A stream of xz with a large dictionary; 40 is 4 GB."""
    made = bytearray(lzma.compress(bytes(1000), preset=0))
    end = 12 + (made[12] + 1) * 4
    made[16] = exponent
    made[end - 4 : end] = zlib.crc32(made[12 : end - 4]).to_bytes(4, "little")
    return bytes(made)


def _bomb(size: int) -> bytes:
    block = lzma.compress(bytes(1 << 24), preset=0)
    return block * (size >> 24)


DISKS = {
    "a dictionary of 4 GB": lambda: _with_dictionary(40),
    "more than is declared": lambda: _bomb(4 * GB),
    "streams without content": lambda: lzma.compress(b"") * 2_000_000,
    "an older format": lambda: lzma.compress(bytes(1000), lzma.FORMAT_ALONE),
    "padding": lambda: bytes(1 << 20),
    "nothing": lambda: b"",
}


@pytest.mark.slow
@pytest.mark.parametrize("disk", DISKS.values(), ids=DISKS)
def test_a_compressed_file_takes_what_it_declares_and_no_more(
    disk: Callable[[], bytes], lab: Path, tmp_path: Path, refused: Refused
) -> None:
    packed = disk()
    file = tmp_path / "hostile.tar"
    file.write_bytes(_manifest(lab) + _header("disk/disk.xz", size=len(packed)) + _padded(packed) + bytes(1024))
    assert refused(file).startswith("is damaged: ")


def test_what_is_no_regular_file_is_refused_at_once(lab: Path, tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    (tmp_path / "link").symlink_to(fifo)
    for file in (fifo, tmp_path / "link", Path("/dev/zero"), Path("/dev/tty")):
        began = time.monotonic()
        with pytest.raises(UsageError, match=f"^{file} cannot be read: it is a pipe, socket or device"):
            lab_file.import_(file, cache.quiet, lambda *_: None)
        assert time.monotonic() - began < 5


def test_the_limits_leave_room_for_a_lab_as_it_is() -> None:
    """The largest part, as docs/lab.md has it, is a disk of 443 MB."""
    assert lab_file._LARGEST[f"disk/{disks.DISK}"] > 8 * 443_000_000
    assert lab_file._LARGEST.keys() == set().union(*lab_file._PARTS.values())
