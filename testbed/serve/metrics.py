"""The metrics of a running lab, made of the lines that it writes for its viewers.

Values are those of the last line; what the lab has counted since comes with its next one, at most 200 ms of its time
later. They have no timestamps, as is usual for a target that is scraped: the lab's time can go slower or faster than
the scraper's, or stand, and is a metric of its own.
"""

from __future__ import annotations

from typing import Any

from testbed.lab.results.folder import LATEST_NS, Event, network_of
from testbed.metrics import names
from testbed.metrics.names import Exported, Exposition
from testbed.metrics.openmetrics import render
from testbed.report.timeline.pfc_counts import PfcCounts

_OF_QUEUES: dict[str, Exported] = {
    "sent_frames": names.QUEUE_FRAMES,
    "sent_bytes": names.QUEUE_BYTES,
    "queue_dropped_frames": names.QUEUE_DROPPED,
    "queued_bytes": names.QUEUE_OCCUPANCY,
    "most_queued_bytes": names.QUEUE_WATERMARK,
    "blocked_frames": names.BLOCKED,
}
_OF_GROUPS: dict[str, Exported] = {
    "admitted_frames": names.GROUP_FRAMES,
    "dropped_frames": names.GROUP_DROPPED,
    "shared_bytes": names.GROUP_SHARED,
    "headroom_bytes": names.GROUP_HEADROOM,
    "most_shared_bytes": names.GROUP_SHARED_WATERMARK,
    "most_headroom_bytes": names.GROUP_HEADROOM_WATERMARK,
}
_OF_POOLS: dict[str, Exported] = {"shared_bytes": names.POOL_OCCUPANCY, "most_shared_bytes": names.POOL_WATERMARK}


class LabMetrics:
    """The counters of one network that runs."""

    def __init__(self, described: dict[str, Any]) -> None:
        """`described` is the lab's line about the network."""
        self._network = network_of(described, 1, LATEST_NS)
        self._pfc = PfcCounts()
        self._rows: dict[str, dict[str, Any]] = {}
        self._marks: dict[str, int] = {}
        self._t_ns = 0
        self._shown = {
            (port, priority)
            for port, settings in self._network.ports.items()
            for priority in settings.get("lossless", [])
        }
        """The ports and priorities that have metrics: the lossless ones, and any whose values were not 0 once."""

    def update(self, lines: list[dict[str, Any]]) -> None:
        """Take some lines of the lab."""
        for line in lines:
            kind = line.get("live")
            if kind == "window":
                for t_ns, name, port, priorities, fields in line["events"]:
                    self._pfc.add(Event(t_ns, name, port, tuple(priorities), fields))
                self._marks |= {port: marked for _, port, marked in line["marks"]}
            elif kind == "counters":
                self._rows |= {row["of"]: row for row in line["rows"]}
            if kind in ("window", "counters"):
                self._t_ns = max(self._t_ns, int(line["t_ns"]))

    def text(self) -> str:
        """Return the exposition of all counters as they are now."""
        into = Exposition()
        self._add_network(into)
        self._shown |= set(self._pfc.seen())
        for row in self._rows.values():
            if "pool" not in row:
                values = [one for key in (*_OF_QUEUES, *_OF_GROUPS) for one in enumerate(row.get(key, []))]
                self._shown |= {(row["of"], priority) for priority, value in values if value}
        for port, priority in sorted(self._shown):
            self._pfc.put(into, (port, priority), self._t_ns, {"node": self._network.node_of(port)})
        for row in self._rows.values():
            if "pool" in row:
                for key, family in _OF_POOLS.items():
                    into.add(family, row[key], None, {"node": row["node"], "pool": row["pool"]})
            else:
                self._add_port(into, row)
        for port, marked in self._marks.items():
            into.add(names.ECN_MARKED, marked, None, {"node": self._network.node_of(port), "port": port})
        return render(into.families)

    def _add_network(self, into: Exposition) -> None:
        into.add(names.NETWORK, 1, None, {"topology": self._network.topology})
        into.add(names.LAB_TIME, self._t_ns / 1e9, None, {})
        scales = {cable.get("scale") for cable in self._network.cables}
        if len(scales) == 1 and isinstance(scale := scales.pop(), int):
            into.add(names.LAB_SCALE, scale, None, {})

    def _add_port(self, into: Exposition, row: dict[str, Any]) -> None:
        port = str(row["of"])
        for place, families in (("queue", _OF_QUEUES), ("group", _OF_GROUPS)):
            for key, family in families.items():
                for number, value in enumerate(row.get(key, [])):
                    if (port, number) in self._shown:
                        labels = {"node": self._network.node_of(port), "port": port, place: str(number)}
                        into.add(family, value, None, labels)
