"""The errors of programs that fetch or install packages: the cause in one sentence, with the way out.

pip writes a line about each attempt to connect, and `venv`, of a full disk, only that a program ended with 1.
"""

from __future__ import annotations

import errno
import os
import re
import tempfile
from pathlib import Path

from testbed.errors import XoffError, plain
from testbed.lab.host import cache

OTHER_MACHINE = "bring the lab from another machine: ./xoff image export FILE there, ./xoff image import FILE here"
FEW_ATTEMPTS = {"PIP_RETRIES": os.environ.get("PIP_RETRIES", "2")}
"""The environment for pip: its own five attempts take half a minute where there is no network."""

_FULL = re.compile(r"No space left on device|Disk quota exceeded", re.IGNORECASE)
_NO_ANSWER = re.compile(
    r"NewConnectionError|NameResolutionError|ConnectTimeoutError|ProxyError|Max retries exceeded|Connection refused|"
    r"ConnectionResetError|Network is unreachable|No route to host"
)
_CAUSE = re.compile(r"\[Errno -?\d+\] ([A-Z][\w ]+)|(timed out)|(Tunnel connection failed[\w: ]*)")
_PROBE = 16 << 20
FEW_LINES = 6


class FetchError(XoffError):
    """Packages cannot be fetched or installed."""

    exit_code = 3


def failure(what: str, said: str, way_out: str = "") -> XoffError:
    """Return the error for a program that failed at `what`, made of its output; `way_out` is one without a network."""
    for folder in (cache.root(), Path(tempfile.gettempdir())):
        if _is_full(folder):
            return cache.DiskFullError(f"{what} failed: the disk of {folder} is full; free some, {_another(folder)}")
    if _FULL.search(said):  # and what was written is gone again
        return cache.DiskFullError(
            f"{what} failed, as a disk became full: that of {cache.root()}, or of {tempfile.gettempdir()} for "
            "temporary files; free some, or set XOFF_CACHE or TMPDIR to a folder on another disk"
        )
    if _NO_ANSWER.search(said):
        found = _CAUSE.search(said)
        cause = f" ({next(filter(None, found.groups())).strip()})" if found else ""
        others = f"; or {way_out}" if way_out else ""
        return FetchError(
            f"{what} failed: no index of Python packages answers{cause}. Connect this machine, or name a proxy in "
            f"HTTPS_PROXY or an index of your own in PIP_INDEX_URL{others}"
        )
    lines = [line for line in plain(said).splitlines() if line.strip()]
    return FetchError("\n  ".join([f"{what} failed:", *lines[-FEW_LINES:]]))


def _is_full(folder: Path) -> bool:
    """Return True if a file of some MB has no room there; free space would not show a quota or a limit on files."""
    try:
        with tempfile.TemporaryFile(dir=folder) as probe:
            os.posix_fallocate(probe.fileno(), 0, _PROBE)
    except OSError as error:
        return error.errno in (errno.ENOSPC, errno.EDQUOT)
    return False


def _another(folder: Path) -> str:
    name = "XOFF_CACHE" if folder == cache.root() else "TMPDIR"
    return f"or set {name} to a folder on another disk"
