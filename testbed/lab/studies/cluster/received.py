"""Results from workers: a result folder is made, in limited room, of data that may be anything.

Data that cannot be used is the failure of one run. Only a full disk of this machine ends the sweep.
"""

from __future__ import annotations

import errno
import io
import shutil
from pathlib import Path

from testbed.lab.image import plain_tar
from testbed.lab.results.result import Result, Status
from testbed.lab.results.result_folder import new_folder
from testbed.lab.runs import api
from testbed.lab.runs.api import Silent

LARGEST, MOST_FILES = 4 << 30, 100_000
"""The most octets and files of a result, many times what a job's limits allow."""
_OF_THIS_MACHINE = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM}


class UnusableError(Exception):
    """Raised if data from a worker is no usable result; the message is the reason."""


def result(packed: object, out: Path, experiment: str, seed: int) -> Result:
    """Return the result of a run that is in a tar, in a new folder.

    Raises UnusableError if there is none in it, and OSError if this machine's disk does not take it.
    """
    folder = new_folder(out, experiment)
    try:
        _unpack(packed, folder)
        found = Result.read(folder)
        _require_usable(found, experiment, seed)
        api.write_parquet(folder, Silent())
    except BaseException as error:
        shutil.rmtree(folder, ignore_errors=True)
        is_ours = isinstance(error, OSError) and error.errno in _OF_THIS_MACHINE
        if is_ours or not isinstance(error, Exception):
            raise
        raise UnusableError(f"{type(error).__name__}: {error}"[:500]) from error
    return found


def _unpack(packed: object, folder: Path) -> None:
    if not isinstance(packed, bytes) or len(packed) > LARGEST:
        raise ValueError(f"it is no tar of at most {LARGEST >> 20} MB")
    plain_tar.unpack_folder(io.BytesIO(packed), folder, MOST_FILES)


def _require_usable(found: Result, experiment: str, seed: int) -> None:
    """Refuse a result of another run, and one that tables could not be made of or that would end the sweep."""
    if (found.experiment, found.seed) != (experiment, seed):
        raise ValueError(f"it is of {found.experiment!r} with seed {found.seed!r}, and not of the run that was given")
    if not isinstance(found.reason, str):
        raise ValueError("the reason in it is no text")
    if found.status is Status.DISK_FULL:
        raise ValueError("the worker's disk was full")  # of which its process reports an error
