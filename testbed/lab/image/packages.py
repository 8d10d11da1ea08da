"""Packages that the lab's image lacks, for experiments that need them: those of Python by `--with numpy`, and those of
Debian by `--with-deb frr` (`debs.py`).

What is installed is decided by a lock file alone: each Python package with its version and the SHA-256 of its wheels.
Xoff comes with locks for some packages (`extras/`), and makes one of any others (`xoff image lock pandas`). They are
installed into the cache once, for the lab's Python whatever this machine's is, and are part of what a job starts from:
of the snapshot in the engine `vm`, of the disk with Xoff's code in `um`. Only wheels are taken, so nothing is built.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from testbed.errors import UsageError, listed
from testbed.lab.host import cache
from testbed.lab.host.cache import Report
from testbed.lab.image import debs, fetching
from testbed.lab.image.debs import LARGEST_LOCK, Debs, Locked
from testbed.lab.image.shipped_locks import FOLDER, of_python
from testbed.strict import regular_files

_SUFFIXES = (".lock", ".txt")
_PLATFORM = (
    "--only-binary", ":all:", "--python-version", "3.11", "--implementation", "cp",
    *(f"--platform=manylinux{tag}_x86_64" for tag in ("_2_28", "_2_17", "2014")),
)  # fmt: skip
"""The options of pip for the lab's Python, which is that of Debian 12."""
_PIP = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
_SITE = "site"
_ROOM = 1 << 30
_PINNED = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)==([^\s;]+)")
_HASH = re.compile(r"--hash=(sha256:[0-9a-f]{64})")


@dataclass(frozen=True)
class Packages:
    """Packages in the cache, beside those of the image."""

    path: Path | None
    """The folder of the installed Python packages; None if there are only Debian's."""
    versions: Mapping[str, str]
    """The versions of the Python packages."""
    digest: str
    """The digest of all locked versions and hashes."""
    debs: Debs | None = None
    """The packages of Debian."""

    def files(self) -> dict[str, bytes]:
        """Return every file of the Python packages by its path, without their own tests and pip's notes."""
        contents: dict[str, bytes] = {}
        if self.path is None:
            return contents
        for path in sorted((self.path / _SITE).rglob("*")):
            name = path.relative_to(self.path / _SITE)
            if not path.is_file() or path.suffix == ".pyc" or "tests" in name.parts or name.parts[0] == "bin":
                continue
            if name.name not in ("RECORD", "direct_url.json", "REQUESTED"):
                contents[str(name)] = path.read_bytes()
        return contents

    def as_json(self) -> dict[str, Any]:
        """Return all but the place of what a machine needs to know that only runs a lab with them."""
        debian = [asdict(one) for one in self.debs.locked] if self.debs else []
        return {"versions": dict(self.versions), "digest": self.digest, "debian": debian}

    @classmethod
    def of_json(cls, content: Mapping[str, Any]) -> Packages:
        debian = tuple(Locked(**one) for one in content["debian"])
        return cls(None, content["versions"], content["digest"], Debs(debian) if debian else None)


def is_file(name: str) -> bool:
    """Return True if it is a lock file, and no name."""
    return name.endswith(_SUFFIXES)


def found_beside(names: Sequence[str], folder: Path) -> list[str]:
    """Return the names, those of lock files as paths in a folder."""
    found = []
    for name in names:
        prefix, plain = (debs.PREFIX, name.removeprefix(debs.PREFIX)) if is_debian(name) else ("", name)
        found.append(f"{prefix}{folder / plain}" if is_file(plain) else name)
    return found


def is_debian(name: str) -> bool:
    """Return True if it is the name of a Debian package among those of all kinds."""
    return name.startswith(debs.PREFIX)


def option(name: str) -> tuple[str, str]:
    """Return the words of a command that ask for a package."""
    return ("--with-deb", name.removeprefix(debs.PREFIX)) if is_debian(name) else ("--with", name)


def ensure(names: Sequence[str], report: Report) -> Packages | None:
    """Return the packages, from the cache or installed now, or None without names of shipped locks or lock files."""
    python = _ensure_python([name for name in names if not is_debian(name)], report)
    debian = debs.ensure([name.removeprefix(debs.PREFIX) for name in names if is_debian(name)], report)
    if debian is None:
        return python
    if python is None:
        return Packages(None, {}, debian.digest, debian)
    both = hashlib.sha256((python.digest + debian.digest).encode()).hexdigest()
    return replace(python, digest=both, debs=debian)


def _ensure_python(names: Sequence[str], report: Report) -> Packages | None:
    if not names:
        return None
    pinned = _merged([(name, _lock(name)) for name in names])
    text = "".join(
        f"{name}=={version} {' '.join(f'--hash={one}' for one in sorted(hashes))}\n"
        for name, (version, hashes) in sorted(pinned.items())
    )
    digest = hashlib.sha256(text.encode() + "\n".join(_PLATFORM).encode()).hexdigest()
    place = cache.root() / f"packages-{digest[:16]}"
    if not cache.own(place, _SITE).is_dir():
        with cache.locked("Python packages", report):
            if not place.is_dir():
                _install(text, place, report, listed(f"{name} {version}" for name, (version, _) in pinned.items()))
    return Packages(cache.used(place), {name: version for name, (version, _) in sorted(pinned.items())}, digest)


def lock(wanted: Sequence[str]) -> str:
    """Return a lock file for packages, as in "pandas" or "pandas==2.3.3", and for all that they need."""
    with tempfile.TemporaryDirectory() as work:
        report = Path(work) / "report.json"
        _run(
            ["install", "--dry-run", "--ignore-installed", "--report", str(report), "--target", f"{work}/none",
             *_PLATFORM, "--", *wanted],
            f"finding wheels of {listed(wanted)} for the lab's Python 3.11",
        )  # fmt: skip
        found = json.loads(report.read_text())["install"]
    lines = []
    for entry in sorted(found, key=lambda entry: _normal(entry["metadata"]["name"])):
        about, hashes = entry["metadata"], entry["download_info"]["archive_info"]["hashes"]
        lines.append(f"{_normal(about['name'])}=={about['version']} \\\n    --hash=sha256:{hashes['sha256']}\n")
    return f"# xoff image lock {' '.join(wanted)}\n" + "".join(lines)


def _lock(name: str) -> str:
    if name in of_python():
        return (FOLDER / f"{name}.lock").read_text()
    if not is_file(name):
        raise UsageError(
            f"--with {name}: Xoff has locked versions of {listed(of_python())}; for another package make a lock file, "
            f"xoff image lock {name} > {name}.lock, and use --with {name}.lock"
        )
    try:
        return regular_files.text(Path(name), LARGEST_LOCK)
    except OSError as error:
        raise UsageError(f"--with {name}: it cannot be read: {error.strerror}") from None


def _merged(locks: Sequence[tuple[str, str]]) -> dict[str, tuple[str, frozenset[str]]]:
    """Return the version and hashes of every package of some lock files."""
    by_name: dict[str, tuple[str, frozenset[str]]] = {}
    for source, text in locks:
        lines = [re.sub(r"(^|\s)#.*", "", line) for line in text.replace("\\\n", " ").splitlines()]
        for line in filter(None, map(str.strip, lines)):
            pinned, hashes = _PINNED.match(line), frozenset(_HASH.findall(line))
            if pinned is None or not hashes:
                raise UsageError(
                    f"--with {source}: {line[:60]!r} is not locked; each line is NAME==VERSION --hash=sha256:..., as "
                    "`xoff image lock NAME` writes it"
                )
            name, version = _normal(pinned[1]), pinned[2]
            other = by_name.setdefault(name, (version, hashes))
            if other[0] != version:
                raise UsageError(f"--with {source}: {name} {version} is requested, and another lock has {other[0]}")
            by_name[name] = version, other[1] | hashes
    return by_name


def _install(requirements: str, place: Path, report: Report, what: str) -> None:
    report(f"installing {what} for the lab, once")
    cache.require_room(cache.root(), _ROOM, "Python packages")
    with cache.owned("packages") as work:
        (work / "lock").write_text(requirements)
        _run(
            ["install", "--no-compile", "--no-deps", "--require-hashes", "--target", str(work / _SITE), *_PLATFORM,
             "-r", str(work / "lock")],
            f"installing {what}",
        )  # fmt: skip
        cache.leave_only(work, _SITE)
        cache.publish(work, place)
        cache.prune("packages-*")


def _run(arguments: list[str], what: str) -> None:
    done = subprocess.run(
        [*_PIP, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", check=False,
        env={**os.environ, **fetching.FEW_ATTEMPTS},
    )  # fmt: skip
    if done.returncode:
        raise fetching.failure(what, done.stdout + done.stderr)


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
