"""Python for the browser: Pyodide, fetched once by npm, verified, and kept in the cache.

`xoff docs --calculators` fetches it; it is the only thing of the site that comes from a network, and only then. The
version is pinned by the digest that npm's registry has for it. What the site needs of the package is copied beside the
pages with its licence; nothing is fetched when the page is used but these files.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import io
import shutil
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path

from testbed.errors import UsageError, XoffError, plain
from testbed.lab.host import cache

VERSION = "314.0.7"
INTEGRITY = "sha512-0YvXxEhfEdpLfb/XkM2BFAeMROq0iMUX2bzzH9pOttyMcWkwq+HbE5uyuGD82LN7y2q+SNvi/6V5JEsOlD2R1A=="
PACKAGE = f"pyodide@{VERSION}"
ARCHIVE = f"pyodide-{VERSION}.tgz"
FILES = ("pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm", "python_stdlib.zip", "pyodide-lock.json")
"""The files of the package that the page loads."""
LICENCE = """Pyodide 314.0.7, https://pyodide.org, is under the Mozilla Public License 2.0, https://mozilla.org/MPL/2.0/.
It contains CPython, under the PSF licence, https://docs.python.org/3/license.html. These files are those of the npm
package `pyodide` of this version, unchanged, where their sources are named.
"""
_LARGEST = 64 << 20
_FEW_LINES = 6


class RuntimeMissing(XoffError):
    """Pyodide is not in the cache and cannot be fetched."""

    exit_code = 3


def kept() -> Path | None:
    """Return the folder of the cache that has the runtime, if it is there whole."""
    place = _place()
    return place if all((place / name).is_file() for name in FILES) else None


def take(archive: Path | None, report: Callable[[str], None]) -> Path:
    """Return the folder of the runtime; it is taken from the archive, or fetched by npm, if it is not there yet."""
    if archive is None and (found := kept()) is not None:
        return found
    with cache.locked("Python for browsers", report):
        if archive is None and (found := kept()) is not None:
            return found
        if archive is not None:
            try:
                octets = archive.read_bytes()
            except OSError as error:
                raise UsageError(f"{archive} cannot be read: {error.strerror}") from None
        else:
            report(f"fetching {PACKAGE} by npm, 6.5 MB")
            octets = _fetched()
        verify(octets, str(archive or ARCHIVE))
        _unpack(octets)
    return _place()


def verify(octets: bytes, name: str) -> None:
    """Raise an error if the archive is not the one of the pinned version."""
    kind, _, expected = INTEGRITY.partition("-")
    digest = base64.b64encode(hashlib.new(kind, octets).digest()).decode()
    if not hmac.compare_digest(digest, expected):
        raise UsageError(
            f"{name} is not {PACKAGE}: its digest is {kind}-{digest[:16]}..., and {INTEGRITY[:23]}... is expected"
        )


def copy(to: Path) -> int:
    """Put the runtime and its licence into a folder, and return its octets; 0 if there is none in the cache."""
    place = kept()
    if place is None:
        return 0
    to.mkdir(parents=True, exist_ok=True)
    for name in FILES:
        shutil.copyfile(place / name, to / name)
    (to / "LICENCE.txt").write_text(LICENCE, encoding="utf-8")
    return sum((to / name).stat().st_size for name in FILES)


def _place() -> Path:
    return cache.root() / f"pyodide-{VERSION}"


def _fetched() -> bytes:
    npm = shutil.which("npm")
    way_out = f"give the archive of {PACKAGE} from another machine: ./xoff docs --calculators {ARCHIVE}"
    if npm is None:
        raise RuntimeMissing(f"npm is missing, which fetches {PACKAGE}: apt install npm, or {way_out}")
    with cache.owned("pyodide") as work:
        command = [npm, "pack", PACKAGE, "--loglevel=error", "--ignore-scripts", "--pack-destination", str(work)]
        try:
            done = subprocess.run(
                command, check=False, cwd=work, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=600
            )
        except subprocess.TimeoutExpired:
            raise RuntimeMissing(f"npm has not fetched {PACKAGE} in 10 minutes; {way_out}") from None
        if done.returncode or not (work / ARCHIVE).is_file():
            said = [line for line in plain(done.stderr or done.stdout).splitlines() if line.strip()][:_FEW_LINES]
            raise RuntimeMissing("\n  ".join([f"npm cannot fetch {PACKAGE}; {way_out}. It said:", *said]))
        return (work / ARCHIVE).read_bytes()


def _unpack(octets: bytes) -> None:
    """Put the files of the archive into the cache, all at once."""
    with cache.owned("pyodide") as work, tarfile.open(fileobj=io.BytesIO(octets), mode="r:gz") as archive:
        folder = work / "files"
        folder.mkdir()
        for name in FILES:
            member = archive.extractfile(f"package/{name}")
            assert member is not None  # the digest says so
            (folder / name).write_bytes(member.read(_LARGEST))
        place = _place()
        shutil.rmtree(place, ignore_errors=True)
        folder.rename(place)
