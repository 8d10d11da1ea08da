"""The captures of a result: which files they are, and all of them in one file."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO

from testbed.errors import UsageError
from testbed.frames import capture_file
from testbed.lab.result import RESULT
from testbed.net.notebook import CAPTURES


def captures_of(folder: Path) -> list[Path]:
    """The capture files of a result, those of its first network first."""
    if not (folder / RESULT).is_file():
        raise UsageError(f"{folder} is not a result folder: it has no {RESULT}")
    found = sorted((folder / CAPTURES).rglob("*.pcapng"), key=lambda path: (len(path.parent.name), path))
    if not found:
        raise UsageError(f"{folder} has no captures; xoff run --capture makes them")
    return found


def write_merged(folder: Path, out: BinaryIO) -> None:
    """All captures of a result as one file with an interface for each direction of a cable."""
    with ExitStack() as stack:
        files: list[BinaryIO] = [stack.enter_context(path.open("rb")) for path in captures_of(folder)]
        try:
            name = json.loads((folder / RESULT).read_text(encoding="utf-8")).get("experiment")
        except (OSError, ValueError, AttributeError):
            name = None
        try:
            capture_file.merge(files, out, str(name or ""))
        except capture_file.CaptureError as error:
            raise UsageError(f"a capture of {folder}: {error}") from None
