"""The lab that viewers see: it reads the lab's lines, sends messages to all viewers, and passes their commands on.

The viewers of a lab: each has a queue of its own, so that one that stops reading holds up no other.

The metrics of a running lab, made of the lines that it writes for its viewers.

Values are those of the last line; what the lab has counted since comes with its next one, at most 200 ms of its time
later. They have no timestamps, as is usual for a target that is scraped: the lab's time can go slower or faster than
the scraper's, or stand, and is a metric of its own.
"""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

from testbed.errors import UsageError
from testbed.lab.results.folder import LATEST_NS, Event, network_of
from testbed.metrics import names
from testbed.metrics.names import Exported, Exposition
from testbed.metrics.openmetrics import render
from testbed.report.timeline.pfc_counts import PfcCounts
from testbed.serve import commands
from testbed.serve.commands import Session
from testbed.serve.feed import Feed
from testbed.serve.running import RunningLab

_OF_QUEUES: dict[str, Exported] = {
    "sent_frames": names.QUEUE_FRAMES,
    "sent_bytes": names.QUEUE_BYTES,
    "queue_dropped_frames": names.QUEUE_DROPPED,
    "trimmed_frames": names.QUEUE_TRIMMED,
    "rests_sent_frames": names.RESTS_SENT,
    "rests_dropped_frames": names.RESTS_DROPPED,
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
_OF_CREDITS: dict[str, Exported] = {
    "sender_credits_consumed": names.CREDITS_CONSUMED,
    "sender_credits_freed": names.CREDITS_FREED,
    "sender_credits_used": names.CREDITS_USED,
    "sender_credits_used_watermark": names.CREDITS_WATERMARK,
    "stalls": names.CREDITS_STALLS,
    "lost": names.CREDITS_LOST,
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
        self._add_link(into, {"node": self._network.node_of(port), "port": port}, row)

    @staticmethod
    def _add_link(into: Exposition, labels: dict[str, str], row: dict[str, Any]) -> None:
        """Add what the link layer of a port has counted: LLR and credits."""
        if llr := row.get("llr"):
            for name, count in llr["counters"].items():
                into.add(names.LLR_COUNTER, count, None, labels | {"counter": name})
            if llr["counters"]:
                into.add(names.LLR_FLUSHES, llr["flushes"], None, labels)
            into.add(names.LINE_LOST, llr["lost"], None, labels)
        if credits := row.get("credits"):
            for vc, counted in credits["vcs"].items():
                for key, family in _OF_CREDITS.items():
                    into.add(family, counted[key], None, labels | {"vc": vc})
                into.add(names.CREDITS_STALLED, counted["stalled_ns"] / 1e9, None, labels | {"vc": vc})
            for kind in ("cf_update", "cc_update"):
                for direction in ("tx", "rx"):
                    count = credits[f"num_{kind}_messages_{direction}"]
                    into.add(names.CREDIT_MESSAGES, count, None, labels | {"message": kind, "direction": direction})


MOST = 64
_MOST_WAITING = 100
"""The most messages that wait for a viewer; one that is behind by more starts anew, with a snapshot."""


class Viewer:
    """The messages for one viewer, in order."""

    def __init__(self) -> None:
        self._waiting: asyncio.Queue[str] = asyncio.Queue(_MOST_WAITING)
        self.is_behind = asyncio.Event()

    def put(self, message: str) -> None:
        try:
            self._waiting.put_nowait(message)
        except asyncio.QueueFull:
            self.is_behind.set()

    async def get(self) -> str:
        return await self._waiting.get()


class Viewers:
    """All viewers of a lab."""

    def __init__(self) -> None:
        self._all: set[Viewer] = set()

    def __len__(self) -> int:
        return len(self._all)

    def join(self) -> Viewer:
        viewer = Viewer()
        self._all.add(viewer)
        return viewer

    def leave(self, viewer: Viewer) -> None:
        self._all.discard(viewer)

    def tell(self, message: str) -> None:
        """Put a message into every queue."""
        for viewer in self._all:
            viewer.put(message)


_LOOK_S = 0.01
_MOST_PENDING = 100


class LiveLab:
    """One lab and its viewers; all of it in one event loop."""

    def __init__(self, lab: RunningLab, described: dict[str, Any]) -> None:
        self.lab, self.feed, self.viewers = lab, Feed(described), Viewers()
        self.metrics = LabMetrics(described)
        self.session = Session(lab.topology)
        self._numbers = 0
        self._waiting: dict[int, tuple[Viewer, dict[str, Any]]] = {}
        """The viewer that gets the answer to each command, and the command."""

    async def run(self) -> None:
        """Serve viewers until the lab ends."""
        while self.lab.ended is None:
            lines = self.lab.lines(time.monotonic())
            for line in lines:
                if line.get("live") == "answer" and (waiting := self._waiting.pop(line.get("id", 0), None)):
                    self._answered(line, *waiting)
            self.metrics.update(lines)
            if lines and (message := self.feed.update(lines)) is not None:
                self.viewers.tell(_encoded(message))
            await asyncio.sleep(0 if lines else _LOOK_S)
        self.viewers.tell(_encoded({"type": "ended", "text": self.lab.ended}))

    def _answered(self, line: dict[str, Any], viewer: Viewer, command: dict[str, Any]) -> None:
        """Pass an answer on to the viewer that asked; all viewers get what was carried out as an action."""
        done, text = bool(line.get("ok")), str(line.get("text"))
        viewer.put(_encoded({"type": "answer", "ok": done, "text": text}))
        t_ns = line.get("t_ns")
        if done and type(t_ns) is int and 0 <= t_ns <= LATEST_NS:
            self.feed.act(self.session.add(t_ns, command, text))

    def join(self) -> Viewer:
        """Add a viewer, whose first message is a snapshot."""
        viewer = self.viewers.join()
        viewer.put(_encoded(self.feed.snapshot()))
        viewer.put(_encoded(self._pace()))
        if self.lab.ended is not None:
            viewer.put(_encoded({"type": "ended", "text": self.lab.ended}))
        return viewer

    def perform(self, viewer: Viewer, text: str) -> None:
        """Perform a viewer's command; an error goes back to that viewer alone."""
        try:
            self._perform(viewer, commands.read(text))
        except UsageError as error:
            viewer.put(_encoded({"type": "answer", "ok": False, "text": str(error)}))

    def _perform(self, viewer: Viewer, command: dict[str, Any]) -> None:
        match command:
            case {"do": "pace", "speed": speed}:
                self.lab.pace(speed=float(speed))
            case {"do": "pause", "on": on}:
                self.lab.pace(paused=on)
            case {"do": "step"}:
                self.lab.step()
            case _:
                if len(self._waiting) >= _MOST_PENDING:
                    raise UsageError(f"{_MOST_PENDING} commands wait for the lab already; let its time go on")
                self._numbers += 1
                self._waiting[self._numbers] = viewer, dict(command)
                self.lab.send({"id": self._numbers, **command})
                return
        self.viewers.tell(_encoded(self._pace()))

    def _pace(self) -> dict[str, Any]:
        return {
            "type": "pace", "speed": self.lab.speed, "paused": self.lab.paused, "has_pace": self.lab.has_pace,
            "viewers": len(self.viewers),
        }  # fmt: skip


def _encoded(message: dict[str, Any]) -> str:
    return json.dumps(message, separators=(",", ":"))
