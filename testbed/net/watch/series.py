"""Time series of a running network: what buffers hold and whom they pause, and how long queues are, at an interval of
the modelled time.

A process of its own reads the port program's memory, which is mapped, so a sample makes no system call but the one that
waits for its time. A row is written where something differs from the sample before. The files are of the run, so they
are part of the digest; `Result.series` reads them back.

`buffer`: the groups, that is the priorities of a port of a switch or router by which frames come in

    t_ns          modelled time since the experiment began; a multiple of the interval after the recording began
    lab_ns        the same moment in the lab, which has the scale times as many
    port
    priority      local priority
    guaranteed, shared, headroom    cells in use
    xoff          1: the port has paused the priority

`queue`: the queues by which they leave; without ETS the number of a queue is that of its local priority

    t_ns, lab_ns, port
    priority      the queue's number
    queued_bytes  octets that wait, as frames without FCS

The use of a switch's pool is the sum over its ports and priorities.
"""

from __future__ import annotations

import csv
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import product
from multiprocessing.connection import Pipe
from pathlib import Path
from typing import Any, Protocol

from testbed.errors import UsageError
from testbed.linux.port_program import GroupCounters
from testbed.linux.process import kernel
from testbed.linux.process.child import Child
from testbed.net.fabric.fabric import Fabric
from testbed.units import Duration, Scale, real_ns

BUFFER, QUEUE, FLOWS = "buffer", "queue", "flows"
COLUMNS = {
    BUFFER: ("t_ns", "lab_ns", "port", "priority", "guaranteed", "shared", "headroom", "xoff"),
    QUEUE: ("t_ns", "lab_ns", "port", "priority", "queued_bytes"),
}
_PRIORITIES = range(8)
_LAB_INTERVAL = Duration("1ms")
_IDLE: tuple[int, ...] = (0, 0, 0, 0)


class Recording(Protocol):
    """A `Run`."""

    directory: Path
    series_ns: int

    @property
    def lab_ns(self) -> int: ...


class Sampled(Protocol):
    """A report of a flow whose rate control was sampled."""

    scale: Scale
    samples: tuple[dict[str, Any], ...]


def file_name(series: str) -> str:
    """The file of a series in a result folder."""
    return f"series-{series}.csv"


@contextmanager
def recording(run: Recording, interval: Duration | str | None = None, *, asked_for: bool = False) -> Iterator[None]:
    """Record the buffers and queues of the running network for as long as the block lasts, each `interval`, which is
    1 ms of the lab by default. In a run with `--series`, which records all the time, only that recording (`asked_for`)
    does something.
    """
    if run.series_ns and not asked_for:
        yield
        return
    fabric = Fabric.current()
    every = _LAB_INTERVAL if interval is None else fabric.units.lab(Duration(interval))
    if not every.ns:
        raise UsageError("a series has an interval above 0s")
    ports = [port.name for port in fabric.ports.values() if port.node.name in fabric.buffers]
    start_ns = time.monotonic_ns() - run.lab_ns
    stop, stopped = Pipe(duplex=False)
    process = Child(partial(_record, fabric, ports, run.directory, stop, every_ns=every.ns, start_ns=start_ns))
    stop.close()
    try:
        yield
    finally:
        stopped.send(None)  # to close it would not do: processes that were forked meanwhile have it too
        process.wait()
        stopped.close()


def _record(fabric: Fabric, ports: Sequence[str], folder: Path, stop: Any, *, every_ns: int, start_ns: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    timer = kernel.Timer()
    due_ns = time.monotonic_ns()
    with ExitStack() as files:
        groups, queues = (_writer(files, folder, series) for series in (BUFFER, QUEUE))
        before = Before(ports)
        while True:
            for port in ports:
                at = moment(due_ns - start_ns, fabric.units)
                if rows := before.changed_groups(port, fabric.groups_of(port), partial(fabric.group, port)):
                    groups.writerows((*at, port, *row) for row in rows)
                if rows := before.changed_queues(port, fabric.queued(port)):
                    queues.writerows((*at, port, *row) for row in rows)
            due_ns += every_ns
            timer.set(due_ns)
            if stop.fileno() in kernel.wait_readable([timer.fd, stop]):
                return
            timer.clear()


def moment(lab_ns: int, units: Scale) -> tuple[int | float, int]:
    """Return the columns of a moment: in modelled time and in the lab's."""
    return real_ns(lab_ns, units), lab_ns


def _writer(files: ExitStack, folder: Path, series: str) -> Any:
    opened = files.enter_context((folder / file_name(series)).open("a", newline="", encoding="utf-8"))
    writer = csv.writer(opened, lineterminator="\n")
    if not opened.tell():
        writer.writerow(COLUMNS[series])
    return writer


class Before:
    """The sample before, of each port."""

    def __init__(self, ports: Iterable[str]) -> None:
        self._memory = dict.fromkeys(ports, b"")
        self._groups = dict.fromkeys(product(self._memory, _PRIORITIES), _IDLE)
        self._queues = dict.fromkeys(self._memory, (0,) * len(_PRIORITIES))

    def changed_groups(self, port: str, memory: bytes, group: Callable[[int], GroupCounters]) -> list[tuple[int, ...]]:
        """Priority, cells and XOFF of the groups that changed. Most samples of most ports are as the one before: their
        memory alone is compared."""
        if memory == self._memory[port]:
            return []
        self._memory[port] = memory
        found = {priority: sample(group(priority)) for priority in _PRIORITIES}
        changed = [(priority, *now) for priority, now in found.items() if now != self._groups[port, priority]]
        self._groups.update({(port, priority): now for priority, now in found.items()})
        return changed

    def changed_queues(self, port: str, queued: tuple[int, ...]) -> list[tuple[int, ...]]:
        """Number and octets of the queues that changed."""
        old = self._queues[port]
        if queued == old:
            return []
        self._queues[port] = queued
        return [(number, queued[number]) for number in _PRIORITIES if queued[number] != old[number]]


def sample(group: GroupCounters) -> tuple[int, ...]:
    """What a row has of a group."""
    return (*group.used, int(group.xoff))


def flows(run: Recording, reports: Iterable[Sampled], names: Sequence[str] = ()) -> None:
    """Write what flows sampled of their rate controls, `Roce(sample=...)`, as a series: a row for each sample.

    Columns: t_ns, lab_ns, flow (its name, or its place), and the fields of all samples, empty where a flow lacks one.
    """
    start_ns = time.monotonic_ns() - run.lab_ns
    rows = [
        dict(zip(("t_ns", "lab_ns"), moment(sample["lab_ns"] - start_ns, report.scale), strict=True))
        | {"flow": names[place] if place < len(names) else str(place)}
        | {name: value for name, value in sample.items() if name != "lab_ns"}
        for place, report in enumerate(reports)
        for sample in report.samples
    ]
    first = ["t_ns", "lab_ns", "flow"]
    columns = [*first, *sorted({name for row in rows for name in row} - {*first})]
    with (run.directory / file_name(FLOWS)).open("w", newline="", encoding="utf-8") as opened:
        writer = csv.DictWriter(opened, columns, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
