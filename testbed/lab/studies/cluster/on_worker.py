"""The part of Xoff that runs in the scheduler and the workers of a Dask cluster.

They have no Xoff, so this file is sent to them, under a name with its digest, and imports the standard library and
Dask alone. The scheduler keeps files that workers ask for; a worker takes each once per machine, checks its SHA-256,
and makes a run in a process of its own, which ends when the worker ends or the run is cancelled.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import platform
import shutil
import stat
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

PIECE = 4 << 20
"""The octets of a file in one message."""
WANTS_LAB = 75
"""The exit code of a run's process when the lab is not in the cache."""

_PARTS, _OFFERED, _CODE = "parts", "offered", "code"
_LOOK_S = 0.25
_GRACE_S = 15.0
_UNUSED_S = 14 * 86400.0

Part = Mapping[str, Any]
"""A file, described by `sha256` and `size`."""


class MachineError(Exception):
    """Raised if this machine cannot make a run; the message is the reason."""


# On the scheduler


def has(part: Part) -> bool:
    """True if the scheduler has a file for workers."""
    return _whole(_folder() / _OFFERED / _name(part), part)


def take(part: Part, sender: str, offset: int, data: bytes) -> None:
    """Write the next piece of a file; with the last one the file is checked, and gets its name."""
    place = _folder() / _OFFERED
    place.mkdir(exist_ok=True)
    draft = place / f"{part['sha256']}-{sender}.new"
    with draft.open("ab") as out:
        if out.tell() != offset:
            raise MachineError(f"{draft} has {out.tell()} octets, and the next piece begins at {offset}")
        out.write(data)
        end = out.tell()
    if end == part["size"]:
        _publish(draft, place / _name(part), part)
        _forget_unused()


def piece(part: Part, offset: int) -> bytes:
    """Return a piece of a file."""
    with (_folder() / _OFFERED / _name(part)).open("rb") as source:
        source.seek(offset)
        data: bytes = source.read(PIECE)
    return data


# On a worker


def perform(request: Mapping[str, Any], run: Mapping[str, Any], job: bytes) -> dict[str, Any]:
    """Make one run; in the answer `result` is its folder as a tar, or `error` the reason why there is none.

    With `stopped` none is wanted any more; with `wants` the machine has no lab, and the request names none.
    """
    from distributed import get_worker

    worker = get_worker()
    answer: dict[str, Any] = {"worker": worker.address}
    try:
        _require_machine()
        return answer | _made(request, run, job, lambda: _is_wanted(worker, run["key"]))
    except (MachineError, OSError) as error:
        return answer | {"error": str(error)}


def _require_machine() -> None:
    here = f"{platform.system()} {platform.machine()}"
    if here != "Linux x86_64":
        raise MachineError(f"the lab runs on Linux x86_64, and this is {here}")
    if sys.version_info < (3, 11):  # noqa: UP036
        raise MachineError(f"Python 3.11 or newer is needed, and this is {platform.python_version()}")


def _made(request: Mapping[str, Any], run: Mapping[str, Any], job: bytes, wanted: Callable[[], bool]) -> dict[str, Any]:
    folder = _folder()
    parts = request["parts"]
    code = _unpacked(_file(parts["code"]), parts["code"]["sha256"])
    asked = {**request, **run, "disk": str(_file(parts["disk"])), "lab": ""}
    command = [sys.executable, "-s", "-m", "testbed.lab.studies.cluster.one_run"]
    environment = {**os.environ, "PYTHONPATH": str(code), "PYTHONSAFEPATH": "1", "XOFF_CACHE": str(folder.parent)}
    for _ in range(2):
        status, out, err = _ended(command, environment, json.dumps(asked).encode() + b"\n" + job, wanted)
        if status is None:
            return {"stopped": True}
        if status == 0:
            return {"result": out}
        if status != WANTS_LAB:
            lines = err.decode(errors="replace").strip().splitlines()
            raise MachineError("\n  ".join(lines[-8:]) or f"the run's process ended with exit code {status}")
        if "lab" not in parts:
            return {"wants": "lab"}
        asked["lab"] = str(_shared(Path(request["shared"]), parts["lab"]) if request["shared"] else _file(parts["lab"]))
    raise MachineError(f"the lab is not in {folder} after its import")


def _ended(
    command: list[str], environment: Mapping[str, str], given: bytes | None, wanted: Callable[[], bool]
) -> tuple[int | None, bytes, bytes]:
    """Run a program to its end, or until it is cancelled: then there is no exit code."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, env=dict(environment), start_new_session=True, **pipes) as process:  # type: ignore[call-overload]
        try:
            while True:
                try:
                    out, err = process.communicate(given, timeout=_LOOK_S)
                    return process.returncode, out, err
                except subprocess.TimeoutExpired:
                    given = None  # it has been taken over, and goes on being written
                    if not wanted():
                        process.terminate()
                        with suppress(subprocess.TimeoutExpired):
                            process.communicate(timeout=_GRACE_S)
                        return None, b"", b""
        finally:
            process.kill()


def _is_wanted(worker: Any, key: str) -> bool:
    """True unless the scheduler has withdrawn the run, because its user has cancelled it or has gone."""
    task = worker.state.tasks.get(key)
    ending = worker.status.name in ("closing", "closed", "failed")
    return not ending and task is not None and task.state in ("executing", "long-running")


def _file(part: Part) -> Path:
    """Return a file, which the machine gets from the scheduler if it does not have it yet."""
    folder = _folder()
    place = folder / _PARTS / _name(part)
    if found := _found(folder, part):
        return found
    with _locked(place):
        if found := _found(folder, part):
            return found
        free, needed = shutil.disk_usage(folder).free, part["size"] + (64 << 20)
        if free < needed:
            raise MachineError(
                f"no room: {folder} has {free >> 20} MB free, and {needed >> 20} MB are needed; free some, or set "
                "XOFF_CACHE of the worker to a folder on another disk"
            )
        draft = place.with_suffix(".new")
        with draft.open("wb") as out:
            while out.tell() < part["size"]:
                out.write(_from_scheduler(part, out.tell()))
        _publish(draft, place, part)
        _forget_unused()
    return place


def _from_scheduler(part: Part, offset: int) -> bytes:
    from distributed import get_client

    data = get_client().run_on_scheduler(piece, dict(part), offset)
    if not isinstance(data, bytes) or not data:
        raise MachineError(f"the scheduler's file {part['sha256'][:16]} is too short")
    return data


def _shared(file: Path, part: Part) -> Path:
    """Return a file in a folder that the user's machine and this one share."""
    if not file.is_file():
        raise MachineError(f"{file} is not on this machine; name a file that all workers see")
    if not _whole(file, part) or _sha256(file) != _name(part):
        raise MachineError(f"{file} is not the lab that the sweep was started with; was it changed since?")
    return file


def _found(folder: Path, part: Part) -> Path | None:
    """Return a file that is here already: from before, or on the scheduler's disk if that is this machine's too."""
    for kind in (_PARTS, _OFFERED):
        path = folder / kind / _name(part)
        if _whole(path, part):
            with suppress(OSError):
                os.utime(path)
            return path
    return None


def _unpacked(archive: Path, sha256: str) -> Path:
    """Return the folder with Xoff's own code, unpacked."""
    place = _folder() / f"{_CODE}-{sha256[:16]}"
    if not place.is_dir():
        with _locked(place):
            if not place.is_dir():
                draft = Path(tempfile.mkdtemp(prefix="new-", dir=place.parent))
                with tarfile.open(archive) as content:
                    content.extraction_filter = getattr(tarfile, "data_filter", None)
                    content.extractall(draft)
                (draft / "code").rename(place)
                draft.rmdir()
    with suppress(OSError):
        os.utime(place)
    return place


# Both


def _folder() -> Path:
    """Return the folder for files: in Xoff's cache, or a temporary one if that cannot be written to."""
    home = os.environ.get("HOME", "")
    places = [os.environ.get("XOFF_CACHE", ""), os.environ.get("XDG_CACHE_HOME", ""), home]
    for place, below in zip(places, ("", "xoff", ".cache/xoff"), strict=True):
        if place.startswith("/"):
            folder = Path(place, below, "cluster")
            with suppress(OSError):
                _make(folder)
                if os.access(folder, os.W_OK):
                    return _own(folder)
    own = Path(tempfile.gettempdir(), f"xoff-{os.geteuid()}")
    own.mkdir(mode=0o700, exist_ok=True)
    if own.is_symlink() or own.stat().st_uid != os.geteuid():
        raise MachineError(f"{own} is another user's; set XOFF_CACHE to a folder that the worker can write to")
    _make(own / "cluster")
    return _own(own / "cluster")


def _make(folder: Path) -> None:
    """Make a folder for files that others cannot write to, whatever our umask is."""
    for one in (*reversed(folder.parents), folder, folder / _PARTS):
        one.mkdir(mode=0o755, exist_ok=True)


def _own(folder: Path) -> Path:
    """Return a folder if no other user but root can change what is in it, as it runs as the user.

    `testbed.lab.host.ownership` is the rule in full, and is not here.
    """
    real = folder.resolve()
    for one in (real, *real.parents):
        found = one.stat()
        allowed = stat.S_ISVTX if one != real else 0
        if found.st_uid not in (0, os.geteuid()):
            why = f"belongs to user {found.st_uid}"
        elif found.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not found.st_mode & allowed:
            why = "can be written to by others"
        else:
            continue
        raise MachineError(f"{one} {why}, and runs are made from what is in it; set XOFF_CACHE of the worker to a "
                           "folder of its own")  # fmt: skip
    return folder


def _name(part: Part) -> str:
    return str(part["sha256"])


def _whole(path: Path, part: Part) -> bool:
    try:
        return path.stat().st_size == int(part["size"])
    except OSError:
        return False


def _publish(draft: Path, place: Path, part: Part) -> None:
    """Give a file its name, if it has its digest."""
    if not _whole(draft, part) or _sha256(draft) != _name(part):
        draft.unlink(missing_ok=True)
        raise MachineError(f"the file {part['sha256'][:16]} was damaged on its way")
    draft.replace(place)


def _sha256(path: Path) -> str:
    with path.open("rb") as source:
        return hashlib.file_digest(source, "sha256").hexdigest()


@contextmanager
def _locked(place: Path) -> Iterator[None]:
    """Lock a file, so that the other workers of this machine wait."""
    with place.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _forget_unused() -> None:
    """Remove what has not been used for two weeks."""
    for path in [*_folder().glob(f"{_PARTS}/*"), *_folder().glob(f"{_OFFERED}/*"), *_folder().glob("*-*")]:
        with suppress(OSError):
            if time.time() - path.stat().st_mtime > _UNUSED_S:
                shutil.rmtree(path) if path.is_dir() else path.unlink()
