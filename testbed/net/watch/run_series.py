"""Time series of a run with `--series`: buffers and queues, loads of links, ECN marks and rates of flows.

Buffers and queues are those of `series.recording`. A thread of the experiment's own
process, in which running flows are known, samples the rest; it lists interfaces and queueing disciplines, so each
sample makes some system calls.

    series-links.csv   t_ns, lab_ns, port, load_bps   the load of the port's line since the last sample
    series-marks.csv   t_ns, lab_ns, port, marked     the packets that ECN has marked so far at the port
    series-rates.csv   t_ns, lab_ns, flow, rate_bps   the rate on the wire at which a flow arrived since the last sample

Loads and rates count all octets on the wire. Flows with one source, target and priority are one. A row is written where
a value differs from the one before.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from testbed.experiment.run import Run
from testbed.net.fabric.fabric import Fabric
from testbed.net.watch import samplers, series
from testbed.net.watch.series_files import SeriesFiles
from testbed.units import Duration

_COLUMNS = {
    "links": "t_ns,lab_ns,port,load_bps",
    "marks": "t_ns,lab_ns,port,marked",
    "rates": "t_ns,lab_ns,flow,rate_bps",
}
_LONG = Duration("1s")
"""An interval of the lab beyond which it was most likely not meant so."""
_FLUSH = 1 << 16


@contextmanager
def recorded(fabric: Fabric, run: Run) -> Iterator[None]:
    """Record the time series of a run while the block runs, if the run has `--series`."""
    if not run.series_ns or not fabric.ports:
        yield
        return
    units, every = fabric.units, Duration.from_ns(run.series_ns)
    every_ns = units.lab(every).ns
    files = SeriesFiles(run, _COLUMNS, every_ns)
    recorder = _Recorder(fabric, files, every_ns)
    with series.recording(run, every, of_run=True):
        recorder.start()
        try:
            yield
            time.sleep(2 * every_ns / 1e9)  # what the last flow left, and the end of it
            files.wait_for_end()
        finally:
            recorder.stop()
        files.gather()


class _Recorder:
    """The thread that samples links, marks and flows, and its files."""

    def __init__(self, fabric: Fabric, files: SeriesFiles, every_ns: int) -> None:
        self._fabric, self._units = fabric, fabric.units
        self._files, self._every_ns = files, every_ns
        self._texts = {name: _Text(files.path(name)) for name in _COLUMNS}
        self._sockets = samplers.own_sockets(fabric)
        self._loads = samplers.LoadSampler(fabric, self._sockets)
        self._marks = samplers.MarkSampler(fabric, self._sockets)
        self._received: dict[Any, list[int]] = {}
        """The frames that each flow had received at the last sample, of the `Flows` that ran then."""
        self._rates: dict[str, int] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._ended.set()
        self._thread.join()
        for text in self._texts.values():
            text.write()
        for socket in self._sockets.values():
            socket.close()

    def _run(self) -> None:
        for due_ns in samplers.ticks(self._every_ns, self._ended, self._files.first_ns):
            self._sample(due_ns - self._files.start_ns)

    def _sample(self, t_ns: int) -> None:
        for port, load in self._loads.changes(self._every_ns):
            self._row("links", t_ns, port, load)
        for port, marked in self._marks.changes():
            self._row("marks", t_ns, port, marked)
        came: Counter[str] = Counter()  # several flows may have one name, and share a row
        running = list(self._fabric.core.flows)
        for flows in dict.fromkeys([*self._received, *running]):  # those that have ended since the last sample, too
            counted = flows.progress()
            before = self._received.pop(flows, [0] * len(counted))
            for (name, octets, received), earlier in zip(counted, before, strict=True):
                came[name] += max(0, (received - earlier) * octets)
            if flows in running:
                self._received[flows] = [received for _, _, received in counted]
        ended = [name for name, rate in self._rates.items() if rate and name not in came]
        for name in (*came, *ended):
            rate = came[name] * 8 * 10**9 // self._every_ns * self._units.k
            if rate != self._rates.get(name, 0):
                self._rates[name] = rate
                self._row("rates", t_ns, name, rate)

    def _row(self, series_name: str, t_ns: int, subject: str, value: int) -> None:
        real_ns, lab_ns = series.moment(t_ns, self._units)
        self._texts[series_name].add(f"{real_ns},{lab_ns},{subject},{value}\n")


class _Text:
    """The rows of a file that are not written yet; they are written in large pieces."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._rows: list[str] = []
        self._size = 0

    def add(self, row: str) -> None:
        self._rows.append(row)
        self._size += len(row)
        if self._size > _FLUSH:
            self.write()

    def write(self) -> None:
        with self._path.open("a", encoding="utf-8") as out:
            out.write("".join(self._rows))
        self._rows, self._size = [], 0
