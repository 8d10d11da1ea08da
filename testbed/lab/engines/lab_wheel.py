"""A lab file in a wheel, which an index of Python packages can have: `xoff-lab`, in a version for each lab.

The wheel is never installed, and nothing of it is executed: it is a zip whose first member is the lab file as it is, so
that reading one needs no more than finding where that begins. pip finds the wheel in the index that this machine has
configured, whatever that is: an address, a folder, a proxy. Standard library only.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import re
import struct
import sys
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

import testbed
from testbed.errors import plain
from testbed.lab.host import cache, process_tree
from testbed.lab.host.cache import Report
from testbed.lab.host.looking import looking

PROJECT = "xoff-lab"
_MEMBER = "xoff_lab/lab.tar"
_HEADER = struct.Struct("<4s22xHH")
"""The head of a member of a zip: its magic number, and the lengths of its name and of what follows the name."""
_MAGIC = b"PK\3\4"
_DIGITS = 12
"""The hexadecimal digits of a lab's digest that its version has, as a number: PEP 440 allows no others."""
_QUICK = {"PIP_RETRIES": "0", "PIP_DEFAULT_TIMEOUT": "8", "PIP_REQUIRE_VIRTUALENV": "0", "PIP_NO_INPUT": "1"}
"""The environment for pip: a machine without an index goes on within seconds."""
_VERBOSE = "-vv"
"""The option with which pip says that an index does not answer; without it, pip says that the index has nothing."""
_SILENT = re.compile(r"connection error|timed out|Max retries exceeded|NewConnectionError", re.IGNORECASE)
_STEP_S = 0.5


def version(digest: str) -> str:
    """Return the version of the wheel that has the lab of this digest, for this version of Xoff."""
    release = re.match(r"\d+(\.\d+)*", testbed.__version__)
    return f"{release[0] if release else 0}.post{int(digest[:_DIGITS], 16)}"


def name(digest: str) -> str:
    """Return the file name of that wheel."""
    return f"{PROJECT.replace('-', '_')}-{version(digest)}-py3-none-any.whl"


@contextmanager
def writing(out: IO[bytes], digest: str) -> Iterator[IO[bytes]]:
    """Write a wheel around the lab file that is written to what this yields; equal labs give equal wheels."""
    with zipfile.ZipFile(out, "w") as archive:
        with archive.open(_entry(_MEMBER), "w", force_zip64=True) as member:
            counted = _Counted(member)
            yield counted  # type: ignore[misc]
        folder = f"{name(digest).removesuffix('-py3-none-any.whl')}.dist-info"
        metadata = (
            f"Metadata-Version: 2.1\nName: {PROJECT}\nVersion: {version(digest)}\n"
            f"Summary: The prebuilt lab of Xoff {testbed.__version__}, xoff-lab-{digest}: a kernel, a disk and wheels\n"
            "Requires-Python: >=3.11\n\n"
            "Xoff downloads this and checks it; it is not to be installed. The kernel is Linux (GPL-2.0), and the disk "
            "has packages of Debian under licences of their own.\n"
        )
        tags = "Wheel-Version: 1.0\nGenerator: xoff\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        record = f"{_MEMBER},{_hash(counted.digest)},{counted.size}\n"
        for part, text in (("METADATA", metadata), ("WHEEL", tags)):
            archive.writestr(_entry(f"{folder}/{part}"), text)
            record += f"{folder}/{part},{_hash(hashlib.sha256(text.encode()))},{len(text.encode())}\n"
        archive.writestr(_entry(f"{folder}/RECORD"), f"{record}{folder}/RECORD,,\n")


def skip_head(file: IO[bytes]) -> None:
    """Go to where the lab file begins, if `file` is a wheel; what comes is checked by whoever reads it."""
    start = file.tell()
    head = file.read(_HEADER.size)
    if len(head) == _HEADER.size and head.startswith(_MAGIC):
        _, name_length, more = _HEADER.unpack(head)
        if file.read(name_length) == _MEMBER.encode():
            file.seek(more, 1)
            return
    file.seek(start)


def can_ask() -> bool:
    """Return True if this Python has pip, which knows the package index of this machine."""
    return importlib.util.find_spec("pip") is not None


class Index:
    """The answer of the package index about a lab; an absence is remembered for a day, so that it is asked once."""

    _REMEMBERED_S = 86400.0

    def __init__(self, digest: str) -> None:
        self.digest = digest
        self._absent = cache.folder() / "lab-not-in-index"

    def is_known_to_have_none(self) -> bool:
        """Return True if the index was asked for this lab within a day, and had none."""
        try:
            age_s = time.time() - self._absent.stat().st_mtime
            return 0 <= age_s < self._REMEMBERED_S and self._absent.read_text() == self.digest
        except (OSError, UnicodeDecodeError):
            return False

    def fetch(self, folder: Path, report: Report) -> Path | None:
        """Download the wheel into a folder; None, with the reason in a report, if it cannot be had."""
        wanted = f"{PROJECT}=={version(self.digest)}"
        report(f"asking the package index for {wanted}, the prebuilt lab of this version")
        command = [
            sys.executable, "-m", "pip", "--disable-pip-version-check", _VERBOSE, "download", "--no-deps",
            "--no-cache-dir", "--only-binary", ":all:", "--progress-bar", "off", "--dest", str(folder / "got"), wanted,
        ]  # fmt: skip
        (folder / "tmp").mkdir()
        with _told_of_growth(folder, report):
            code, said = process_tree.run(command, {**_QUICK, "TMPDIR": str(folder / "tmp")})
        fetched = sorted((folder / "got").glob("*.whl"))
        if not code and fetched:
            return fetched[0]
        if "No matching distribution" not in said:
            errors = [line for line in plain(said).splitlines() if line.startswith("ERROR: ")]
            report(f"the lab is set up here, for pip says: {errors[-1] if errors else f'it ended with {code}'}")
        elif _SILENT.search(said):
            report("no package index answers; the lab is set up here")
        else:
            report("the index has none; the lab is set up here")
            with suppress(OSError):
                self._absent.write_text(self.digest)
        return None


@contextmanager
def _told_of_growth(folder: Path, report: Report) -> Iterator[None]:
    """Report each ten seconds how much a download has brought into a folder so far."""
    told = time.monotonic()

    def tell() -> None:
        nonlocal told
        if time.monotonic() - told >= 10 and (size := _size(folder)):
            told = time.monotonic()
            report(f"fetching the lab from the package index: {size / 1e6:.0f} MB")

    with looking(tell, _STEP_S):
        yield


def _size(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        with suppress(OSError):  # moved meanwhile
            total += path.stat().st_size if path.is_file() else 0
    return total


class _Counted:
    """A member that is written, with the size and SHA-256 of it."""

    def __init__(self, out: IO[bytes]) -> None:
        self._out = out
        self.size, self.digest = 0, hashlib.sha256()

    def write(self, data: bytes) -> int:
        self.size += len(data)
        self.digest.update(data)
        return self._out.write(data)


def _entry(member: str) -> zipfile.ZipInfo:
    """Return an entry of a zip without a date, which is not compressed."""
    entry = zipfile.ZipInfo(member, (1980, 1, 1, 0, 0, 0))
    entry.external_attr = 0o644 << 16
    return entry


def _hash(digest: hashlib._Hash) -> str:
    return "sha256=" + base64.urlsafe_b64encode(digest.digest()).rstrip(b"=").decode()
