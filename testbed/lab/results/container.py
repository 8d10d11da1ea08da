"""Xoff's own container: whether what is left in a folder is there when the container has ended.

Other containers, in which people work for months, are like any machine.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

_VARIABLE = "XOFF_CONTAINER"
"""The variable that is set in the container that `Containerfile` makes."""
_MOUNTS = Path("/proc/self/mountinfo")
_ANONYMOUS = re.compile(r"/volumes/[0-9a-f]{64}/_data$")
"""The folder of a volume that nobody named, which `podman run --rm` removes."""
_FLEETING = ("tmpfs", "ramfs")


def is_here() -> bool:
    """Return True if Xoff runs in its own container."""
    return bool(os.environ.get(_VARIABLE))


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
