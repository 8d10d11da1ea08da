"""A prebuilt lab: a lab file that is taken without being asked for when a part of the lab is missing here.

`XOFF_LAB` names it: a file, a folder that has it by its name, the address of either, or the cache in which a lab was
made ready, as a container has one (`installed.py`). Where it names nothing, the package index of this machine is asked
(`lab_wheel.py`). Nothing of it is used before it is known to be the lab of this version: it is made by the same
recipes, and its kernel, disk and image have the digests that `reference.json` names. Standard library only, because it
comes before there is a Python environment (`testbed/cli/bootstrap.py`).
"""

from __future__ import annotations

import http.client
import os
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from testbed.errors import UsageError
from testbed.lab.engines import installed, lab_file, lab_wheel
from testbed.lab.engines.lab_file import Contents, Progress, TransferError
from testbed.lab.host import cache
from testbed.lab.host.cache import Report
from testbed.lab.image import image
from testbed.lab.um import disks, kernel

VARIABLE = "XOFF_LAB"
NONE = "none"
"""The value of `XOFF_LAB` with which the lab is built here, and nobody is asked for one."""
_ENGINE = "um"
_TIMEOUT_S = 30
_LARGEST = 4 << 30
_STEP = 1 << 20


def is_named() -> bool:
    """Return True if the user names a prebuilt lab."""
    return os.environ.get(VARIABLE, "") not in ("", NONE)


def digest() -> str:
    """Return the digest in the names of this version's prebuilt lab; it differs between versions with other labs."""
    return lab_file.digest_of_keys([_ENGINE])[:16]


def name() -> str:
    """Return the name of this version's prebuilt lab in a folder."""
    return f"xoff-lab-{digest()}.tar"


def wheel_name() -> str:
    """Return the name of the wheel that has it."""
    return lab_wheel.name(digest())


def take(report: Report, progress: Progress) -> Contents:
    """Put the lab that `XOFF_LAB` names into the cache, if it is the one of this version."""
    if (used := installed.use(Path(os.environ[VARIABLE]).expanduser(), report)) is not None:
        return used
    with _found(os.environ[VARIABLE], report, progress) as file:
        return lab_file.import_(file, report, progress, as_reference=True)


def take_from_index(report: Report, progress: Progress) -> Contents | None:
    """Put the lab that the package index has into the cache; None if it has none, or another one than it should be.

    It is not asked for a lab that it cannot have: one of changed sources.
    """
    is_reference = kernel.reference_digest() and disks.reference_digest()
    if os.environ.get(VARIABLE) == NONE or not is_reference or not lab_wheel.can_ask():
        return None
    if image.recipe_digest() != image.reference().get("recipe"):
        return None
    index = lab_wheel.Index(digest())
    if index.is_known_to_have_none():
        return None
    with cache.owned("lab") as work:
        if (wheel := index.fetch(work, report)) is None:
            return None
        try:
            return lab_file.import_(wheel, report, progress, as_reference=True)
        except UsageError as error:
            report(f"what the package index has is refused, and the lab is set up here: {error}")
            return None


@contextmanager
def _found(where: str, report: Report, progress: Progress) -> Iterator[Path]:
    """Yield the file on this machine, fetched if it is elsewhere."""
    if urllib.parse.urlsplit(where).scheme in ("http", "https"):
        address = where + name() if where.endswith("/") else where
        report(f"fetching the lab from {address}")
        with cache.owned("lab") as work:
            _fetch(address, work / name(), progress)
            yield work / name()
        return
    file = Path(where).expanduser()
    if file.is_dir():
        names = [one for one in (name(), wheel_name()) if (file / one).exists()]
        if not names:
            raise UsageError(
                f"{VARIABLE}={where}: the folder has no {name()}, which is the lab of this version, nor {wheel_name()}"
            )
        file /= names[0]
    elif not file.exists():
        raise UsageError(f"{VARIABLE}={where}: there is no such file, folder or address; unset it to build the lab")
    yield file


def _fetch(address: str, file: Path, progress: Progress) -> None:
    try:
        with urllib.request.urlopen(address, timeout=_TIMEOUT_S) as answer, file.open("wb") as out:
            total = int(answer.headers.get("Content-Length") or 0)
            if total > _LARGEST:
                raise UsageError(f"{VARIABLE}={address}: {total} octets are more than a lab has")
            cache.require_room(file.parent, total, "the prebuilt lab")
            done = 0
            while data := answer.read(_STEP):
                done += len(data)
                if done > _LARGEST:
                    raise UsageError(f"{VARIABLE}={address}: it has more octets than a lab has")
                out.write(data)
                progress(done, max(total, done))
            if done < total:
                raise TransferError(f"{VARIABLE}={address}: it ended after {done} of {total} octets; try again")
    except urllib.error.HTTPError as error:
        raise TransferError(f"{VARIABLE}={address}: the server answers {error.code} {error.reason}") from None
    except (OSError, ValueError, http.client.HTTPException) as error:
        cause = getattr(error, "reason", "") or error
        raise TransferError(f"{VARIABLE}={address} cannot be fetched: {cause}") from None
