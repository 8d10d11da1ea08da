"""A job that is root in the lab does not reach the supervisor: not its records, not its memory, not its CPU."""

from __future__ import annotations

import ctypes
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from testbed.experiment.output import Record, RecordKind
from testbed.lab import Run, Status, experiment
from testbed.lab.job.job import Limits

if TYPE_CHECKING:
    from testbed.lab.engines.engine import PreparedEngine
    from tests.lab.conftest import Runner

CASES = {"test_a_job_finds_no_way_to_the_supervisors_records": [{"payload": "END"}, {"payload": "stray data"}]}
MARKS = {"*": [("engines", "vm", "um")]}


PAYLOADS = {
    "END": Record.of(RecordKind.END, {"virtual_ns": 1, "status": "ok", "reason": ""}).encode(),
    "stray data": b"stray data that is not a record",
}
_MNT_DETACH = 2
_CLONE_NEWPID = 0x2000_0000
_libc = ctypes.CDLL(None, use_errno=True)


@experiment(_in_lab_time=True)
def forges(run: Run, payload: str = "END") -> None:
    """Write a payload wherever the records' device may be found, and then fail, which the result has to show."""
    run.figure("begun", 1)
    data = PAYLOADS[payload]
    run.figure("descriptors beyond the job's own", _further_descriptors())
    run.figure("written to descriptors of processes", _write_all(_device_descriptors(), data))
    run.figure("written to names in /dev", _write_all(_devices_in("/dev"), data))
    run.figure("written to names in a new devtmpfs", _write_all(_devices_in_new_devtmpfs(), data))
    run.figure("written to new nodes", _write_all(_new_nodes(), data))
    # Below the sandbox's /proc is that of the whole lab. From here on it is the one in use.
    run.figure("file systems taken from /proc", _uncover_proc())
    run.figure("processes outside the sandbox", len(_outer_processes()))
    run.figure("written to descriptors of outer processes", _write_all(_device_descriptors(), data))
    run.figure("memory of outer processes", _readable_memory())
    run.figure("namespaces of outer processes", _joined_namespaces())
    run.claim("a claim that does not hold", 1, equals=2)
    raise ValueError("the job failed")


@experiment(_in_lab_time=True, timeout="3s")
def spins_at_the_highest_priority(run: Run) -> None:
    """Start two processes that never give up the CPU, before every other SCHED_FIFO one."""
    run.figure("begun", 1)
    Path("kept.txt").write_text("kept")
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(99))
    os.fork()
    while True:
        pass


def _write_all(places: Iterator[Path], data: bytes) -> list[str]:
    written = []
    for place in places:
        with suppress(OSError):
            descriptor = os.open(place, os.O_WRONLY | os.O_NONBLOCK)
            os.write(descriptor, data)
            written.append(str(place))
    return written


def _numbers() -> set[int]:
    """The device numbers of the device of the records, and that of commands."""
    found = set()
    for pattern in ("misc/xoff/dev", "virtio-ports/*/dev"):
        for path in Path("/sys/class").glob(pattern):
            major, minor = path.read_text().split(":")
            found.add(os.makedev(int(major), int(minor)))
    return found


def _is_record_device(path: Path) -> bool:
    try:
        status = path.stat()
    except OSError:
        return False
    return stat.S_ISCHR(status.st_mode) and status.st_rdev in _numbers()


def _further_descriptors() -> list[str]:
    """Yield the open files of this process and its parents that are neither pipes, the console nor the event log."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            found += [str(link.readlink()) for link in (process / "fd").iterdir() if link.is_symlink()]
    expected = ("pipe:", "/dev/null", "/dev/console", "/proc/")
    return [target for target in found if not target.startswith(expected) and Path(target).name != "events.jsonl"]


def _device_descriptors() -> Iterator[Path]:
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            yield from (link for link in (process / "fd").iterdir() if _is_record_device(link))


def _devices_in(folder: str) -> Iterator[Path]:
    return (path for path in Path(folder).rglob("*") if _is_record_device(path))


def _devices_in_new_devtmpfs() -> Iterator[Path]:
    Path("/run/devices").mkdir()
    if _libc.mount(b"devtmpfs", b"/run/devices", b"devtmpfs", 0, None):
        raise OSError(ctypes.get_errno(), "mounting devtmpfs")
    return _devices_in("/run/devices")


def _new_nodes() -> Iterator[Path]:
    for number in _numbers():
        with suppress(OSError):
            path = Path(f"/run/node-{number}")
            os.mknod(path, 0o600 | stat.S_IFCHR, number)
            yield path


def _uncover_proc() -> int:
    count = 0
    while len(list(Path("/proc").glob("[0-9]*"))) < 20 and not _libc.umount2(b"/proc", _MNT_DETACH):
        count += 1
    return count


def _outer_processes() -> list[Path]:
    """Yield the processes of which this one is not part; /proc/self is none where the process is not seen."""
    own = Path("/proc/self/ns/pid").readlink() if Path("/proc/self").exists() else None
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            inner = (process / "ns/pid").readlink() == own
        except OSError:
            inner = False
        if not inner:
            found.append(process)
    return found


def _readable_memory() -> list[str]:
    found = []
    for process in _outer_processes():
        with suppress(OSError), (process / "mem").open("r+b"):
            found.append(process.name)
    return found


def _joined_namespaces() -> list[str]:
    found = []
    for process in _outer_processes():
        with suppress(OSError), (process / "ns/pid").open("rb") as namespace:
            if not _libc.setns(namespace.fileno(), _CLONE_NEWPID):
                found.append(process.name)
    return found


def test_a_job_finds_no_way_to_the_supervisors_records(run: Runner, case: Mapping[str, Any]) -> None:
    result = run(forges, **case)
    assert (result.status, result.reason) == (Status.ERROR, "ValueError: the job failed")
    assert result.figure("processes outside the sandbox") > 0, "the job did not see whom it attacks"
    reached = {figure.name: figure.value for figure in result.figures if isinstance(figure.value, list)}
    assert len(reached) == 8
    assert not any(reached.values()), reached


def test_a_job_that_spins_at_the_highest_priority_is_ended_by_a_limit(run: Runner, ready: PreparedEngine) -> None:
    """It is the limit of wall time where a spinning process stops virtual time; what the job left is kept."""
    um = ready.engine.name == "um"
    result = run(spins_at_the_highest_priority, limits=Limits(virtual_s=3, wall_s=6 if um else 120))
    assert result.status is (Status.WALL_TIMEOUT if um else Status.TIMEOUT), result.reason
    assert result.figure("begun") == 1
    assert result.folder is not None
    assert (result.folder / "kept.txt").read_text() == "kept"
