"""The part of Xoff that runs in the scheduler and the workers of a Dask cluster.

They have no Xoff, so this file is sent to them, under a name with its digest, and imports the standard library and
Dask alone. The scheduler keeps files that workers ask for; a worker takes each once per machine, checks its SHA-256,
and makes a run in a process of its own, which ends when the worker ends or the run is cancelled. So it does with parts
of a network that is on several machines, whose process talks to the user's machine meanwhile.
"""

from __future__ import annotations

import asyncio
import fcntl
import functools
import hashlib
import json
import math
import os
import platform
import shutil
import signal
import stat
import subprocess
import sys
import tarfile
import tempfile
import threading
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
_UNASKED_S = 20.0
"""The time in s after which nobody asks for the parts of a network any more: the user's machine has gone."""
_LISTENS_S = 5.0
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

    worker, member = get_worker(), _Member(is_asked=False)
    answer = _answer(worker, member, "one_run", request=request, run=run, job=job)
    return answer if len(answer) > 1 else answer | {"result": member.asked()["said"]}


def _answer(
    worker: Any, member: _Member, module: str, *, request: Mapping[str, Any], run: Mapping[str, Any], job: bytes
) -> dict[str, Any]:
    """Have a process of Xoff do its work; return what there is to say if it did not end well."""
    answer: dict[str, Any] = {"worker": worker.address}
    try:
        _require_machine()
        wanted = functools.partial(_is_wanted, worker, run["key"])
        return answer | _made(member, module, wanted, request=request, run=run, job=job)
    except (MachineError, OSError) as error:
        return answer | {"error": str(error)}


def _require_machine() -> None:
    here = f"{platform.system()} {platform.machine()}"
    if here != "Linux x86_64":
        raise MachineError(f"the lab runs on Linux x86_64, and this is {here}")
    if sys.version_info < (3, 11):  # noqa: UP036
        raise MachineError(f"Python 3.11 or newer is needed, and this is {platform.python_version()}")


def _made(
    member: _Member,
    module: str,
    wanted: Callable[[], bool],
    *,
    request: Mapping[str, Any],
    run: Mapping[str, Any],
    job: bytes,
) -> dict[str, Any]:
    folder = _folder()
    parts = request["parts"]
    code = _unpacked(_file(parts["code"]), parts["code"]["sha256"])
    asked = {**request, **run, "disk": str(_file(parts["disk"])), "lab": ""}
    command = [sys.executable, "-s", "-m", f"testbed.lab.studies.cluster.{module}"]
    environment = {**os.environ, "PYTHONPATH": str(code), "PYTHONSAFEPATH": "1", "XOFF_CACHE": str(folder.parent)}
    for _ in range(2):
        status, err = member.ended(command, environment, json.dumps(asked).encode() + b"\n" + job, wanted)
        if status is None:
            return {"stopped": True}
        if status == 0:
            return {}
        if status != WANTS_LAB:
            lines = err.decode(errors="replace").strip().splitlines()
            raise MachineError("\n  ".join(lines[-8:]) or f"the run's process ended with exit code {status}")
        if "lab" not in parts:
            return {"wants": "lab"}
        asked["lab"] = str(_shared(Path(request["shared"]), parts["lab"]) if request["shared"] else _file(parts["lab"]))
    raise MachineError(f"the lab is not in {folder} after its import")


def _is_wanted(worker: Any, key: str) -> bool:
    """True unless the scheduler has withdrawn the run, because its user has cancelled it or has gone."""
    task = worker.state.tasks.get(key)
    ending = worker.status.name in ("closing", "closed", "failed")
    return not ending and task is not None and task.state in ("executing", "long-running")


class _Member:
    """The process of this machine that makes a run, or has parts of a network; `look` talks to it meanwhile."""

    def __init__(self, *, is_asked: bool) -> None:
        self.answer: dict[str, Any] | None = None
        """The task's answer, when the process has ended."""
        self.was_answered = False
        self.asked_s = time.monotonic() if is_asked else math.inf
        self._process: subprocess.Popen[bytes] | None = None
        self._said = bytearray()
        self._lock = threading.Lock()

    def has_news(self) -> bool:
        return bool(self._said) or self.answer is not None

    def asked(self) -> dict[str, Any]:
        """Return what the process has said since the last call of this, and how it is."""
        with self._lock:
            said = bytes(self._said)
            self._said.clear()
        process = self._process
        return {"said": said, "answer": self.answer, "stopped": process.pid if process and _is_stopped(process) else 0}

    def tell(self, commands: bytes) -> None:
        process = self._process
        if commands and process is not None and process.stdin is not None:
            with suppress(OSError, ValueError):
                process.stdin.write(commands)
                process.stdin.flush()

    def ended(
        self, command: list[str], environment: Mapping[str, str], given: bytes, wanted: Callable[[], bool]
    ) -> tuple[int | None, bytes]:
        """Run the process to its end, or until it is not wanted: then there is no exit code. Return its errors too."""
        with tempfile.TemporaryFile() as errors:
            pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": errors}
            with subprocess.Popen(command, env=dict(environment), start_new_session=True, **pipes) as process:
                reader = threading.Thread(target=self._read, args=(process,), daemon=True)
                try:
                    reader.start()
                    threading.Thread(target=self._give, args=(process, given), daemon=True).start()
                    self._process = process
                    stopped = self._wait(process, wanted)
                finally:
                    self._process = None
                    process.kill()
                    process.wait()
                    reader.join(_GRACE_S)
            if process.returncode < 0:  # it was killed, and has left its files
                sweep = [*command[:-1], f"{command[-1].rpartition('.')[0]}.one_machine", "sweep"]
                subprocess.run(sweep, env=dict(environment), check=False, stdin=subprocess.DEVNULL)
            errors.seek(0)
            return None if stopped else process.returncode, errors.read()

    def _wait(self, process: subprocess.Popen[bytes], wanted: Callable[[], bool]) -> bool:
        """Return True if the process was stopped, False if it ended by itself."""
        while True:
            with suppress(subprocess.TimeoutExpired):
                process.wait(_LOOK_S)
                return False
            if not wanted() or time.monotonic() - self.asked_s > _UNASKED_S:
                process.send_signal(signal.SIGCONT)
                process.terminate()
                with suppress(subprocess.TimeoutExpired):
                    process.wait(_GRACE_S)
                return True

    def _give(self, process: subprocess.Popen[bytes], given: bytes) -> None:
        assert process.stdin is not None
        with suppress(OSError, ValueError):
            process.stdin.write(given)
            process.stdin.close() if math.isinf(self.asked_s) else process.stdin.flush()

    def _read(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        while data := os.read(process.stdout.fileno(), 1 << 16):
            with self._lock:
                self._said += data


def _is_stopped(process: subprocess.Popen[bytes]) -> bool:
    try:
        return Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
    except (OSError, IndexError):
        return False


_members: dict[str, _Member] = {}
"""The processes that have parts of networks, by the keys of their tasks."""


def take_part(request: Mapping[str, Any], run: Mapping[str, Any], job: bytes) -> dict[str, Any]:
    """Have parts of a network until they are not wanted any more; the answer is as that of `perform`, without a result.

    `look` is how the user's machine talks to the process meanwhile.
    """
    from distributed import get_worker

    worker = get_worker()
    member = _members[run["key"]] = _Member(is_asked=True)
    host = worker.address.partition("://")[2].rpartition(":")[0].strip("[]")
    asked = {**run, "host": host, "octets": len(job)}
    answer = member.answer = _answer(worker, member, "one_machine", request=request, run=asked, job=job)
    end_s = time.monotonic() + _LISTENS_S
    while time.monotonic() < end_s and not member.was_answered and _is_wanted(worker, run["key"]):
        time.sleep(_LOOK_S / 10)
    del _members[run["key"]]
    return answer


async def look(key: str, commands: bytes) -> dict[str, Any] | None:
    """Give a process with parts of a network commands, and return what it has said, as soon as it has said anything.

    None if the task has not begun here, or is over.
    """
    member = _members.get(key)
    if member is None:
        return None
    member.asked_s = time.monotonic()
    member.tell(commands)
    for _ in range(25):
        if member.has_news():
            break
        await asyncio.sleep(0.01)
    found = member.asked()
    member.was_answered = found["answer"] is not None
    return found


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
        status = one.stat()
        allowed = stat.S_ISVTX if one != real else 0
        if status.st_uid not in (0, os.geteuid()):
            why = f"belongs to user {status.st_uid}"
        elif status.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not status.st_mode & allowed:
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
