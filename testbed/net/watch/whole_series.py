"""Time series of a whole network, for a run with `--series`: buffers and queues, load of links, ECN marks and rates of
flows.

Buffers and queues are those of `series.recording`. The rest is taken by a thread of the experiment's own process, where
running flows are known; it lists interfaces and queueing disciplines, so each sample makes some system calls.

    series-links.csv   t_ns, lab_ns, port, load_bps   what the port sent since the sample before, with preamble and gap
    series-marks.csv   t_ns, lab_ns, port, marked     packets that ECN has marked so far at the port
    series-rates.csv   t_ns, lab_ns, flow, rate_bps   what has arrived of a flow since the sample before, on the wire

A row is written where a value differs from the one before.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from testbed.experiment.current import Notebook, warn
from testbed.linux.netlink import link_counters
from testbed.linux.netlink.link_counters import Sent
from testbed.linux.netlink.netlink import Socket
from testbed.linux.netlink.qdiscs import WIRE_OVERHEAD
from testbed.linux.process import kernel
from testbed.net.fabric.fabric import Fabric
from testbed.net.watch import readings, series
from testbed.units import Duration

_COLUMNS = {
    "links": "t_ns,lab_ns,port,load_bps",
    "marks": "t_ns,lab_ns,port,marked",
    "rates": "t_ns,lab_ns,flow,rate_bps",
}
_LONG = Duration("1s")
"""An interval of the lab that is longer was most likely not meant so."""
_FLUSH = 1 << 16


@contextmanager
def recorded(fabric: Fabric, run: Notebook) -> Iterator[None]:
    """Record for as long as the block lasts, if the run asks for it."""
    if not run.series_ns or not fabric.ports:
        yield
        return
    units, every = fabric.units, Duration.from_ns(run.series_ns)
    if units.k > 1 and units.lab(every) > _LONG:
        warn(
            f"--series {every} is an interval of the modelled time, {units.lab(every)} in the lab; if it was meant for "
            f"the lab, as before Xoff 0.1, it is now --series {units.nearest_real(every)}"
        )
    recorder = _Recorder(fabric, run)
    with series.recording(run, every, asked_for=True):
        recorder.start()
        try:
            yield
        finally:
            recorder.stop()


class _Recorder:
    def __init__(self, fabric: Fabric, run: Notebook) -> None:
        self._fabric, self._units = fabric, fabric.units
        self._every_ns = self._units.lab(Duration.from_ns(run.series_ns)).ns
        self._start_ns = time.monotonic_ns() - run.lab_ns
        self._files = {name: _File(run.directory / series.file_name(name), _COLUMNS[name]) for name in _COLUMNS}
        self._sockets = {name: _socket_in(ports[0].node) for name, ports in fabric.by_node().items()}
        self._sent: dict[str, Sent] = {}
        self._received: dict[tuple[int, int], int] = {}
        self._before: dict[tuple[str, str], int] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._ended.set()
        self._thread.join()
        for file in self._files.values():
            file.close()
        for socket in self._sockets.values():
            socket.close()

    def _run(self) -> None:
        due_ns = time.monotonic_ns()
        while not self._ended.is_set():
            self._look(due_ns - self._start_ns)
            due_ns += self._every_ns
            time.sleep(max(0, due_ns - time.monotonic_ns()) / 1e9)

    def _look(self, t_ns: int) -> None:
        for node, ports in self._fabric.by_node().items():
            counted = link_counters.sent(self._sockets[node])
            for port in ports:
                now = counted.get(port.interface)
                if now is None:
                    continue
                before = self._sent.get(port.name, now)
                octets = now.octets - before.octets + WIRE_OVERHEAD * (now.frames - before.frames)
                self._sent[port.name] = now
                self._row("links", t_ns, port.name, self._rate(octets))
        for name, priorities in readings.ecn_by(self._fabric, self._sockets).items():
            self._row("marks", t_ns, name, sum(one["marked"] for one in priorities.values()))
        for flows in list(self._fabric.flows):
            for place, (name, octets, received) in enumerate(flows.progress()):
                before_count = self._received.get((id(flows), place), 0)
                self._received[id(flows), place] = received
                self._row("rates", t_ns, name, self._rate((received - before_count) * octets))

    def _rate(self, octets: int) -> int:
        return max(0, octets) * 8 * 10**9 // self._every_ns * self._units.k

    def _row(self, series_name: str, t_ns: int, subject: str, value: int) -> None:
        if self._before.get((series_name, subject), 0) != value:
            self._before[series_name, subject] = value
            real, lab = series.moment(t_ns, self._units)
            self._files[series_name].add(f"{real},{lab},{subject},{value}\n")


class _File:
    """A table that grows; networks of one run share it."""

    def __init__(self, path: Path, columns: str) -> None:
        self._path = path
        self._text = [] if path.exists() else [f"{columns}\n"]
        self._size = 0

    def add(self, row: str) -> None:
        self._text.append(row)
        self._size += len(row)
        if self._size > _FLUSH:
            self.close()

    def close(self) -> None:
        with self._path.open("a", encoding="utf-8") as out:
            out.write("".join(self._text))
        self._text, self._size = [], 0


def _socket_in(node: Any) -> Socket:
    """A socket of our own: those of the fabric are used by the experiment at the same time."""
    with kernel.in_network_of(node.pid):
        return Socket()
