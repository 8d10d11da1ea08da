"""Time series of a run with `--series`: buffers and queues, loads of links, ECN marks and rates of flows.

Buffers and queues are those of `series.recording`. Another observer (`linux/process/observing.py`) samples the rest: it
lists interfaces and queueing disciplines, and reads the counters of running flows in the memory of the experiment's
process, which tells it what flows there are.

    series-links.csv   t_ns, lab_ns, port, load_bps   the load of the port's line since the last sample
    series-marks.csv   t_ns, lab_ns, port, marked     the packets that ECN has marked so far at the port
    series-rates.csv   t_ns, lab_ns, flow, rate_bps   the rate on the wire at which a flow arrived since the last sample

Loads and rates count all octets on the wire. Flows with one source, target and priority are one. A row is written where
a value differs from the one before.
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from multiprocessing import connection
from pathlib import Path
from typing import Any

from testbed.experiment.run import Run
from testbed.linux.process import kernel
from testbed.linux.process.forked_helper import READY, PacketPipe
from testbed.linux.process.observing import Clock, Observer, observing
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
_AT_ONCE = 256
"""The flows in one message, which has to find room in a pipe."""


@contextmanager
def recorded(fabric: Fabric, run: Run) -> Iterator[None]:
    """Record the time series of a run while the block runs, if the run has `--series`."""
    if not run.series_ns or not fabric.ports:
        yield
        return
    units, every = fabric.units, Duration.from_ns(run.series_ns)
    every_ns = units.lab(every).ns
    files = SeriesFiles(run, _COLUMNS, every_ns, of_run=True)
    with series.recording(run, every, of_run=True):
        with observing():
            told, tells = connection.Pipe(duplex=False)
            observer = Observer(
                "recording series", partial(_record, fabric, files, every_ns, told), name=series.PROCESS
            )
            told.close()
        fabric.core.flows.observer = partial(_tell, tells)
        try:
            yield
        finally:
            fabric.core.flows.observer = None
            observer.stop()
            with observing():
                tells.close()
        files.gather()


@dataclass
class _Counted:
    """A flow whose packets arrive in this kernel."""

    name: str
    octets: int
    """The octets of a full frame on the wire."""
    addresses: Sequence[int]
    """The places of its counters in the memory of the experiment's process."""
    received: int = 0
    """The frames that had arrived at the last sample."""


def _tell(tells: connection.Connection, flows: Any, begins: bool) -> None:
    """Tell the observer of `Flows` that begin to run, or no longer do; their counters are there for a moment yet."""
    with observing():
        counted = [_Counted(*one) for one in flows.counters()] if begins else []
        for place in range(0, max(1, len(counted)), _AT_ONCE):
            tells.send((id(flows), counted[place : place + _AT_ONCE]))


class _Rates:
    """The sampler of the rates at which flows arrive, in the process of the observer."""

    def __init__(self, every_ns: int, scale_k: int) -> None:
        self._every_ns, self._k = every_ns, scale_k
        self._memory = os.open(f"/proc/{os.getppid()}/mem", os.O_RDONLY)
        self._running: dict[int, list[_Counted]] = {}
        self._ended: Counter[str] = Counter()
        """The octets since the last sample of flows that have ended; several may have one name, and share a row."""
        self._rates: dict[str, int] = {}

    def take(self, key: int, counted: list[_Counted]) -> None:
        """Take a message of the experiment's process; without flows those of this key have ended."""
        if counted:
            self._running.setdefault(key, []).extend(counted)
        else:
            self._ended += self._arrived(self._running.pop(key, []))

    def changes(self) -> Iterator[tuple[str, int]]:
        """Yield (flow, rate) where the rate since the last sample differs from the one before."""
        came, self._ended = self._ended, Counter()
        for counted in self._running.values():
            came.update(self._arrived(counted))
        for name in dict.fromkeys([*came, *self._rates]):
            rate = came[name] * 8 * 10**9 // self._every_ns * self._k
            if rate != self._rates.get(name, 0):
                self._rates[name] = rate
                yield name, rate

    def _arrived(self, counted: list[_Counted]) -> Counter[str]:
        """Return the octets by name of what has arrived since the last sample."""
        came: Counter[str] = Counter()
        for one in counted:
            words = (os.pread(self._memory, 8, address) for address in one.addresses)
            now = sum(int.from_bytes(word, "little") for word in words)
            came[one.name] += max(0, now - one.received) * one.octets
            one.received = now
        return came


def _record(fabric: Fabric, files: SeriesFiles, every_ns: int, told: connection.Connection, pipe: PacketPipe) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    units, sockets = fabric.units, samplers.own_sockets(fabric)
    loads, marks = samplers.LoadSampler(fabric, sockets), samplers.MarkSampler(fabric, sockets)
    rates = _Rates(every_ns, units.k)
    with ExitStack() as opened:
        links, marked, arrived = (opened.enter_context(_Text(files.path(name))) for name in _COLUMNS)

        def sample(due_ns: int) -> None:
            at = ",".join(map(str, series.moment(due_ns - files.start_ns, units)))
            for text, changes in (
                (links, loads.changes(every_ns)),
                (marked, marks.changes()),
                (arrived, rates.changes()),
            ):
                for subject, value in changes:
                    text.add(f"{at},{subject},{value}\n")

        clock, due_ns, ended = Clock(), files.first_ns, False
        pipe.send(READY)
        while not ended:
            clock.set(due_ns)
            ready = kernel.wait_readable([clock.fd, pipe, told])
            if told.fileno() in ready:
                rates.take(*told.recv())
            elif not (ended := pipe.fileno() in ready):
                clock.clear()
                sample(due_ns)
                due_ns += every_ns
        # Nothing happens any more until the next two: one has what is left, the other the end of it.
        sample(due_ns)
        sample(due_ns + every_ns)


class _Text:
    """The rows of a file that are not written yet; they are written in large pieces."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._rows: list[str] = []
        self._size = 0

    def __enter__(self) -> _Text:
        return self

    def __exit__(self, *failure: object) -> None:
        self._write()

    def add(self, row: str) -> None:
        self._rows.append(row)
        self._size += len(row)
        if self._size > _FLUSH:
            self._write()

    def _write(self) -> None:
        with self._path.open("a", encoding="utf-8") as out:
            out.write("".join(self._rows))
        self._rows, self._size = [], 0
