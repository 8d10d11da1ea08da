"""The metrics of a result: the history of its counters, with the lab's time as timestamps.

`promtool tsdb create-blocks-from openmetrics` makes blocks of it that Prometheus serves like what it has scraped. PFC
is counted from the event log, which every run has; the use of buffers and queues and ECN's marks come from the time
series of a run with `--series`. A counter begins with each network of the run at 0. Not here: what a run counts and
writes nowhere, such as the frames of each queue.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from testbed.errors import UsageError
from testbed.lab.results import series as results_series
from testbed.lab.results.folder import LATEST_NS, Event, Folder, Network, read
from testbed.metrics import names
from testbed.metrics.names import Exported, Exposition
from testbed.metrics.openmetrics import render
from testbed.report.timeline.pfc_counts import PfcCounts
from testbed.report.timeline.series import table_rows
from testbed.units import Duration

EVERY_NS = 10**6
"""The default and the least distance of points: Prometheus has milliseconds."""
MOST_POINTS = 1_000_000
_REPEATED_NS = 60 * 10**9
"""The time after which a value that stays comes again: Prometheus forgets one after five minutes."""
_BUFFER: dict[str, Exported] = {"shared": names.GROUP_SHARED, "headroom": names.GROUP_HEADROOM}
_COLUMNS: dict[str, tuple[str, Exported]] = {
    "queue": ("queued_bytes", names.QUEUE_OCCUPANCY),
    "marks": ("marked", names.ECN_MARKED),
}
_LARGEST = 1 << 53


def exposition(path: Path, every_ns: int = EVERY_NS, start_ns: int = 0) -> str:
    """Return the history of a result's counters. Its times are `start_ns` and the lab's time since the run began; of
    the values within `every_ns` the last one counts.
    """
    folder = read(path)
    history = _History(folder, max(EVERY_NS, every_ns), start_ns)
    history.add_pfc()
    history.add_series()
    return render(history.into.families)


def asked(query: Mapping[str, str]) -> tuple[int, int]:
    """Return the distance of points and the start that a request asks for, as in ?every=10ms&start=1700000000."""
    if unknown := sorted(set(query) - {"every", "start"}):
        raise UsageError(f"{unknown[0][:40]!r} is no word of this address; there are every=10ms and start=1700000000")
    start = query.get("start", "0")
    if not (start.isascii() and start.isdecimal() and len(start) <= 10):
        raise UsageError(f"start={start[:40]} is no time; it is in whole seconds since 1970, as in start=1700000000")
    every_ns = Duration(query["every"]).ns if "every" in query else EVERY_NS
    if every_ns < EVERY_NS:
        raise UsageError(f"every={query['every']} is less than 1ms, and Prometheus has no finer times")
    return every_ns, int(start) * 10**9


class _History:
    def __init__(self, folder: Folder, every_ns: int, start_ns: int) -> None:
        self.into = Exposition({"result": folder.name}, _REPEATED_NS)
        self._folder, self._every_ns, self._start_ns = folder, every_ns, start_ns
        self._points = 0

    def add_pfc(self) -> None:
        """Add the counters of PFC, network by network."""
        for network in self._folder.networks:
            labels = self._labels(network) | {"case": network.case, "topology": network.topology}
            self.into.add(names.NETWORK, 1, self._time(network.start_ns), labels)
        left = iter(self._folder.networks)
        current: _NetworkPfc | None = None
        for event in self._folder.events():
            while current is None or event.t_ns > current.network.end_ns:
                if current is not None:
                    current.end()
                following = next(left, None)
                if following is None:
                    return
                current = _NetworkPfc(self, following)
            if event.t_ns >= current.network.start_ns:
                current.take(event)
        if current is not None:
            current.end()
        for network in left:
            _NetworkPfc(self, network).end()

    def add_series(self) -> None:
        """Add what the time series of the run have."""
        there = results_series.names(self._folder.files)
        for name in ("buffer", *_COLUMNS):
            if name in there:
                self._add_table(name)

    def put_pfc(
        self, counts: PfcCounts, network: Network, key: tuple[str, int], t_ns: int, *, is_last: bool = False
    ) -> None:
        labels = self._labels(network) | {"node": network.node_of(key[0])}
        self._count(counts.put(self.into, key, t_ns, labels, t_ns=self._time(t_ns), is_last=is_last))

    def moment(self, t_ns: int) -> int:
        """Return the first multiple of the distance of points that is not before a time."""
        return -(-t_ns // self._every_ns) * self._every_ns

    def _add_table(self, name: str) -> None:
        file, waiting = (
            results_series.file_of(name),
            dict[tuple[str, str, str], tuple[int, list[tuple[Exported, int]]]](),
        )
        for line, row in table_rows(self._folder, file):
            t_ns = _whole(row.get("lab_ns"))
            network = None if t_ns is None else self._network_at(t_ns)
            if t_ns is None or network is None:
                self._folder.damage.add(file, line, "has no time in which a network ran")
                continue
            key = str(network.number), row.get("port", ""), row.get("priority", "")
            if name == "buffer":
                cell = network.buffers.get(network.node_of(key[1]), {}).get("cell_bytes")
                counted = [(family, _whole(row.get(column))) for column, family in _BUFFER.items()]
                unit = cell if isinstance(cell, int) and 0 < cell < _LARGEST else None
            else:
                column, family = _COLUMNS[name]
                counted, unit = [(family, _whole(row.get(column)))], 1
            if unit is None or any(value is None for _, value in counted):
                self._folder.damage.add(file, line, "has no number, or its switch no size of cells")
                continue
            values = [(family, value * unit) for family, value in counted if value is not None]
            at_ns = self.moment(t_ns)
            before = waiting.get(key)
            if before is not None and at_ns > before[0]:
                self._put_row(key, *before)
            if before is None or at_ns >= before[0]:
                waiting[key] = at_ns, values
        for key, last in waiting.items():
            self._put_row(key, *last)

    def _put_row(self, key: tuple[str, str, str], at_ns: int, values: list[tuple[Exported, int]]) -> None:
        number, port, priority = key
        network = self._folder.networks[int(number) - 1]
        labels = self._labels(network) | {"node": network.node_of(port), "port": port}
        for family, value in values:
            place = {}
            if family is names.QUEUE_OCCUPANCY:
                place = {"queue": priority}
            elif family is not names.ECN_MARKED:
                place = {"group": priority}
            self._count(self.into.add(family, value, self._time(at_ns), labels | place))

    def _network_at(self, t_ns: int) -> Network | None:
        return next((one for one in self._folder.networks if one.start_ns <= t_ns <= one.end_ns), None)

    def _labels(self, network: Network) -> dict[str, str]:
        return {"network": str(network.number)}

    def _time(self, t_ns: int) -> int:
        return self._start_ns + self.moment(t_ns)

    def _count(self, points: int) -> None:
        self._points += points
        if self._points > MOST_POINTS:
            raise UsageError(
                f"{self._folder.path}: with a point every {self._every_ns / 1e6:g} ms its metrics have more than "
                f"{MOST_POINTS} points; ask for fewer, as in ?every={self._every_ns * 10 // 10**6}ms"
            )


class _NetworkPfc:
    """PFC of one network: a point for each moment at which a counter of a priority has changed."""

    def __init__(self, history: _History, network: Network) -> None:
        self.network = network
        self._history, self._counts = history, PfcCounts()
        begin_ns = history.moment(network.start_ns)
        self._due = {
            (port, priority): begin_ns
            for port, settings in network.ports.items()
            for priority in _priorities(settings.get("lossless"))
        }
        """The time of the point of each priority that is not written yet."""

    def take(self, event: Event) -> None:
        """Count an event, after writing the points of the moment before it."""
        at_ns = self._history.moment(event.t_ns)
        for priority in PfcCounts.concerned(event):
            key = event.port, priority
            due_ns = self._due.get(key)
            if due_ns is not None and at_ns > due_ns:
                self._history.put_pfc(self._counts, self.network, key, due_ns)
            self._due[key] = at_ns if due_ns is None else max(at_ns, due_ns)
        self._counts.add(event)

    def end(self) -> None:
        """Write what is left, and a last point at the end of the network."""
        end_ns = self._history.moment(self.network.end_ns)
        for key, due_ns in sorted(self._due.items()):
            if due_ns < end_ns:
                self._history.put_pfc(self._counts, self.network, key, due_ns)
            self._history.put_pfc(self._counts, self.network, key, max(due_ns, end_ns), is_last=True)


def _priorities(found: object) -> list[int]:
    return [one for one in found if type(one) is int and 0 <= one < 8] if isinstance(found, list) else []


def _whole(text: str | None) -> int | None:
    if text is None or not text.isascii() or not text.isdecimal() or len(text) > 19:
        return None
    value = int(text)
    return value if value <= max(_LARGEST, LATEST_NS) else None
