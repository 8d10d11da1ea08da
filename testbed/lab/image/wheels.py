"""The Python packages that Xoff imports on the user's machine, as wheels in the cache.

They are there for `xoff image export` and after `xoff image import`. A machine that has neither pip nor a network
unpacks them: a wheel of pure Python is its files in a zip. Their hashes are those of `requirements/run.lock`.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import testbed
from testbed.errors import XoffError
from testbed.lab.host import cache
from testbed.lab.host.cache import Report
from testbed.lab.image import fetching

LOCK = Path(testbed.__path__[0]).parent / "requirements" / "run.lock"
_PURE = "-none-any.whl"


class WheelError(XoffError):
    """The Python packages cannot be fetched."""

    exit_code = 3


def key() -> str:
    """Return the digest of the list of packages; it is empty for a Xoff that pip installed with its packages."""
    return hashlib.sha256(LOCK.read_bytes()).hexdigest()[:16] if LOCK.is_file() else ""


def place() -> Path:
    """Return the folder of the wheels, which need not be there."""
    return cache.root() / f"python-wheels-{key()}"


def current() -> list[Path]:
    """Return all wheels if each package of the list has one in the cache with one of its hashes, or else none."""
    return [cache.own(wheel) for wheel in complete(cache.own(place()))] if key() else []


def complete(folder: Path) -> list[Path]:
    """Return the wheels in a folder if they are those of the list, or else none."""
    wheels: dict[str, Path] = {}
    for path in sorted(folder.glob(f"*{_PURE}")):
        digest = cache.sha256(path)
        wheels |= {name: path for name, hashes in _listed().items() if digest in hashes}
    return list(wheels.values()) if wheels.keys() == _listed().keys() else []


def ensure(report: Report) -> list[Path]:
    """Return the wheels, from the cache or fetched now; none for a Xoff that pip installed."""
    if not key() or (found := current()):
        return found if key() else []
    with cache.locked("Python packages", report):
        if not current():
            report("fetching the Python packages of run.lock")
            with cache.owned("wheels") as work:
                _fetch(work)
                if not complete(work):
                    raise WheelError(f"not all packages of {LOCK} have a wheel of pure Python")
                cache.publish(work, place())
                cache.prune("python-wheels-*")
    return current()


def unpack(wheels: list[Path], site: Path) -> None:
    """Install wheels of pure Python into a folder of packages."""
    for path in wheels:
        with zipfile.ZipFile(path) as wheel:
            wheel.extractall(site)


def pip_of_python() -> Path | None:
    """Return the wheel of pip that Python carries for `ensurepip`, or None if it carries it in a way of its own."""
    import importlib.util
    import sysconfig

    ensurepip = importlib.util.find_spec("ensurepip")
    folders = [Path(sysconfig.get_config_var("WHEEL_PKG_DIR") or os.devnull)]
    if ensurepip is not None and ensurepip.origin:
        folders.append(Path(ensurepip.origin).parent / "_bundled")
    carried = [path for folder in folders if folder.is_dir() for path in folder.glob(f"pip-*{_PURE}")]
    return max(carried, key=lambda path: path.stat().st_mtime, default=None)


def _fetch(folder: Path) -> None:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q", "download", "--require-hashes",
               "--only-binary", ":all:", "--dest", str(folder), "-r", str(LOCK)]  # fmt: skip
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", check=False,
        env={**os.environ, **fetching.FEW_ATTEMPTS},
    )  # fmt: skip
    if done.returncode:
        raise fetching.failure("fetching the Python packages of run.lock", done.stdout + done.stderr)


def _listed() -> dict[str, set[str]]:
    """Return the hashes that each package of the list may have."""
    listed: dict[str, set[str]] = {}
    for name, rest in re.findall(r"^(\S+)==(.*(?:\n[ \t]+.*)*)", LOCK.read_text(), re.MULTILINE):
        listed[name] = set(re.findall(r"--hash=sha256:([0-9a-f]{64})", rest))
    return listed
