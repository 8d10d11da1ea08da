"""The captures of a result: the list of its files, and all of them merged into one."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO

from testbed.errors import UsageError
from testbed.experiment.output import CAPTURES
from testbed.frames import capture_file
from testbed.lab.results.folder import Folder
from testbed.lab.results.foreign import ForeignFolder
from testbed.lab.results.result import RESULT

LARGEST = 1 << 30
"""The most octets of one capture; the lab writes 384 MB of a network."""
_ENDING = ".pcapng"


def open_captures(folder: Path, stack: ExitStack) -> list[BinaryIO]:
    """Open the captures of a result, those of its first network first."""
    files = ForeignFolder(folder)
    if not files.has(RESULT):
        raise UsageError(f"{folder} is not a result folder: it has no {RESULT}")
    names: list[str] = []
    for name in sorted(files.listing(CAPTURES), key=lambda name: (len(name), name)):
        place = f"{CAPTURES}/{name}"
        inside = [place] if files.is_file(place) else [f"{place}/{one}" for one in files.listing(place)]
        names += [one for one in inside if one.endswith(_ENDING)]
    if not names:
        raise UsageError(f"{folder} has no captures; xoff run --capture makes them")
    return [stack.enter_context(files.open(name, LARGEST)) for name in names]


def write_merged(folder: Folder, out: BinaryIO) -> None:
    """Write all captures of a result as one file with an interface for each direction of a cable."""
    with ExitStack() as stack:
        files = open_captures(folder.path, stack)
        try:
            capture_file.merge(files, out, folder.result["experiment"])
        except capture_file.CaptureError as error:
            raise UsageError(f"a capture of {folder.path}: {error}") from None
