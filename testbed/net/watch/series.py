"""Time series of a running network: the use of buffers and the lengths of queues, at an interval of modelled time.

An observer (`linux/process/observing.py`) reads the port program's memory, which is mapped. A row is written where a
value differs from the sample before. The files belong to the run, so they are part of its digest; `Result.series` reads
them back.

`buffer` has the groups; a group is a priority of the port of a switch or router by which frames arrive:

    t_ns          the modelled time since the experiment began; a multiple of the interval after the recording began
    lab_ns        the same moment in the lab, which has the scale times as many
    port
    priority      the local priority
    guaranteed, shared, headroom    the cells in use
    xoff          1 if the port has paused the priority

`queue` has the queues by which frames leave; without ETS the number of a queue is that of its local priority:

    t_ns, lab_ns, port
    priority      the number of the queue
    queued_bytes  the octets of the waiting frames, without FCS

The use of a switch's pool is the sum over its ports and priorities.
"""

from __future__ import annotations

import csv
import signal
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, Protocol

from testbed.errors import UsageError
from testbed.experiment.run import Run
from testbed.linux.process.forked_helper import READY, PacketPipe
from testbed.linux.process.observing import Observer, moments
from testbed.net.fabric.fabric import Fabric
from testbed.net.watch.samplers import GroupSampler, QueueSampler, buffered_ports
from testbed.net.watch.series_files import SeriesFiles, file_name
from testbed.units import Duration, Scale, real_ns

BUFFER, QUEUE, FLOWS = "buffer", "queue", "flows"
COLUMNS = {
    BUFFER: ("t_ns", "lab_ns", "port", "priority", "guaranteed", "shared", "headroom", "xoff"),
    QUEUE: ("t_ns", "lab_ns", "port", "priority", "queued_bytes"),
}
PROCESS = "xoff-series"
_LAB_INTERVAL = Duration("1ms")


class Sampled(Protocol):
    """The report of a flow whose rate control was sampled."""

    @property
    def scale(self) -> Scale: ...
    @property
    def samples(self) -> tuple[dict[str, Any], ...]: ...


@contextmanager
def recording(run: Run, interval: Duration | str | None = None, *, of_run: bool = False) -> Iterator[None]:
    """Record the buffers and queues of the running network while the block runs, by default each 1 ms of the lab.

    In a run with `--series`, which records all the time, only the recording of the run itself (`of_run`) has rows. The
    parts of a divided network meet here all the same, as they do without `--series`.
    """
    fabric = Fabric.current()
    every = _LAB_INTERVAL if interval is None else fabric.units.lab(Duration(interval))
    if not every.ns:
        raise UsageError("a series has an interval above 0s")
    records = of_run or not run.series_ns
    columns = {name: ",".join(columns) for name, columns in COLUMNS.items()} if records else {}
    files = SeriesFiles(run, columns, every.ns, of_run=of_run)
    observer = (
        Observer("recording series", partial(_record, fabric, files, every.ns), name=PROCESS) if records else None
    )
    try:
        yield
        files.wait_for_end()
    finally:
        if observer is not None:
            observer.stop()
    files.gather()


def _record(fabric: Fabric, files: SeriesFiles, every_ns: int, pipe: PacketPipe) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    pipe.send(READY)
    ports = [(port.name, port.slot) for port in buffered_ports(fabric)]
    units = fabric.units
    with ExitStack() as opened:
        groups, queues = (
            csv.writer(
                opened.enter_context(files.path(name).open("a", newline="", encoding="utf-8")), lineterminator="\n"
            )
            for name in (BUFFER, QUEUE)
        )
        group_sampler, queue_sampler = GroupSampler(fabric.core), QueueSampler(fabric.core)
        for due_ns in moments(pipe, files.first_ns, every_ns):
            at = moment(due_ns - files.start_ns, units)
            for port, slot in ports:
                if rows := group_sampler.changes(slot):
                    groups.writerows((*at, port, *row) for row in rows)
                if queued := queue_sampler.changes(slot):
                    queues.writerows((*at, port, *row) for row in queued)


def moment(lab_ns: int, units: Scale) -> tuple[int | float, int]:
    """Return the columns of a moment: in modelled time and in the lab's."""
    return real_ns(lab_ns, units), lab_ns


def flows(run: Run, reports: Iterable[Sampled], names: Sequence[str] = ()) -> None:
    """Write the samples of flows' rate controls, `Roce(sample=...)`, as a series with a row for each sample.

    The columns are t_ns, lab_ns, flow (its name, or its place), and the fields of all samples; a field that a flow does
    not have is empty.
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
