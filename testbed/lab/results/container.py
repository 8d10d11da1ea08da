"""The container that Xoff runs in, if any: whether what is left in a folder is there when the container has ended."""

from __future__ import annotations

import os
import re
from pathlib import Path

_MARKS = (Path("/run/.containerenv"), Path("/.dockerenv"))
"""The files by which podman and Docker mark a container."""
_MOUNTS = Path("/proc/self/mountinfo")
_ANONYMOUS = re.compile(r"/volumes/[0-9a-f]{64}/_data$")
"""The folder of a volume that nobody named, which `podman run --rm` removes."""
_FLEETING = ("tmpfs", "ramfs")


def is_here() -> bool:
    """Return True if Xoff runs in a container of podman or Docker."""
    return any(mark.exists() for mark in _MARKS)


def whose() -> str:
    """Return the end of a message about a folder that cannot be written to; an empty text outside of a container."""
    if not is_here():
        return ""
    return f"; in this container Xoff is user {os.geteuid()}, and docs/start/container.md says how it becomes you"


def keeps(folder: Path) -> bool:
    """Return False if a folder is gone with this container; True where that is not known."""
    if not is_here():
        return True
    try:
        mounts = [line.split() for line in _MOUNTS.read_text().splitlines()]
        path = folder.resolve()
        # Of mounts at one place the last is on top; blanks in a path are octal there.
        place, source, kind = max(
            (
                (_plain(line[4]), line[3], line[line.index("-") + 1])
                for line in mounts
                if path.is_relative_to(_plain(line[4]))
            ),
            key=lambda mount: len(mount[0].parts),
        )
    except (OSError, ValueError, IndexError):
        return True
    return place != Path("/") and kind not in _FLEETING and _ANONYMOUS.search(source) is None


def _plain(text: str) -> Path:
    return Path(re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), text))
