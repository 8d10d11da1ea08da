"""Time series of a running network: what buffers hold and whom they pause, at an interval of the lab's time.

A process of its own reads the port program's memory, which is mapped, so a sample makes no system call but the one that
waits for its time. A row is written where something differs from the sample before. The file is one of the run's, so
it is part of the digest; `Result.series` reads it back. Only the lab can import this.

    t_ns          since the experiment began; a multiple of the interval after the recording began
    port          of the switch or router by which the frames came in
    priority      local priority
    guaranteed, shared, headroom    cells in use
    xoff          1: the port has paused the priority

The use of a switch's pool is the sum over its ports and priorities. Not here: lengths of queues, which only a request
to the kernel tells.
"""

from __future__ import annotations

import csv
import multiprocessing
import select
import signal
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from testbed.errors import UsageError
from testbed.linux import kernel
from testbed.linux.port_program import GroupCounters
from testbed.net.fabric import Fabric
from testbed.units import Duration

BUFFER, FLOWS = "buffer", "flows"
COLUMNS = ("t_ns", "port", "priority", "guaranteed", "shared", "headroom", "xoff")
_PRIORITIES = range(8)
_IDLE = (0, 0, 0, 0)
Key = tuple[str, int]
"""Port and priority."""


class Recording(Protocol):
    """A `Run`."""

    directory: Path

    @property
    def now_ns(self) -> int: ...


class Sampled(Protocol):
    """A report of a flow whose rate control was sampled."""

    begin_ns: int
    samples: tuple[dict[str, Any], ...]


def file_name(series: str) -> str:
    """The file of a series in a result folder."""
    return f"series-{series}.csv"


@contextmanager
def recording(run: Recording, interval: Duration | str = "1ms") -> Iterator[None]:
    """Record the buffers of the running network for as long as the block lasts."""
    every = Duration(interval)
    if not every.ns:
        raise UsageError("a series has an interval above 0s")
    fabric = Fabric.current()
    groups: list[Key] = [
        (port.name, priority)
        for port in fabric.ports.values()
        if port.node.name in fabric.buffers
        for priority in _PRIORITIES
    ]
    start_ns = time.monotonic_ns() - run.now_ns
    context = multiprocessing.get_context("fork")
    stop, stopped = context.Pipe(duplex=False)
    process = context.Process(
        target=_record,
        args=(fabric, groups, run.directory / file_name(BUFFER), stop),
        kwargs={"every_ns": every.ns, "start_ns": start_ns},
        daemon=True,
    )
    process.start()
    stop.close()
    try:
        yield
    finally:
        stopped.send(None)  # to close it would not do: processes that were forked meanwhile have it too
        process.join()
        stopped.close()


def _record(fabric: Fabric, groups: Sequence[Key], file: Path, stop: Any, *, every_ns: int, start_ns: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    kernel.die_with_parent()
    timer = kernel.Timer()
    due_ns = time.monotonic_ns()
    before: dict[Key, tuple[int, ...]] = dict.fromkeys(groups, _IDLE)
    with file.open("a", newline="", encoding="utf-8") as opened:
        writer = csv.writer(opened, lineterminator="\n")
        if not opened.tell():
            writer.writerow(COLUMNS)
        while True:
            for key in groups:
                found = sample(fabric.group(*key))
                if found != before[key]:
                    before[key] = found
                    writer.writerow((due_ns - start_ns, *key, *found))
            due_ns += every_ns
            timer.set(due_ns)
            if stop in select.select([timer.fd, stop], [], [])[0]:
                return
            timer.clear()


def sample(group: GroupCounters) -> tuple[int, ...]:
    """What a row has of a group."""
    return (*group.used, int(group.xoff))


def flows(run: Recording, reports: Iterable[Sampled], names: Sequence[str] = ()) -> None:
    """Write what flows sampled of their rate controls, `Roce(sample=...)`, as a series: a row for each sample.

    Columns: t_ns, flow (its name, or its place), and the fields of all samples; what a flow does not have is empty.
    """
    start_ns = time.monotonic_ns() - run.now_ns
    rows = [
        {"t_ns": sample["t_ns"] - start_ns, "flow": names[place] if place < len(names) else str(place)}
        | {name: value for name, value in sample.items() if name != "t_ns"}
        for place, report in enumerate(reports)
        for sample in report.samples
    ]
    columns = ["t_ns", "flow", *sorted({name for row in rows for name in row} - {"t_ns", "flow"})]
    with (run.directory / file_name(FLOWS)).open("w", newline="", encoding="utf-8") as opened:
        writer = csv.DictWriter(opened, columns, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
