"""Messages for viewers: rows of the tracks that a report has too, made of the lines that a running lab writes.

No clock and no socket: lines of the lab go in, messages for viewers come out. A viewer that comes later gets a snapshot
of what is kept, and from then on the same messages as the others.
"""

from __future__ import annotations

from collections import Counter, deque
from fractions import Fraction
from pathlib import Path
from typing import Any

from testbed.lab.results.folder import LATEST_NS, Event, Folder, Network, network_of
from testbed.report.pages.markup import readable
from testbed.report.pages.panels import first, panels
from testbed.report.timeline.series import LOAD, PREFIX
from testbed.report.timeline.tracks import LARGEST, OCCUPANCY, Reader, Shape, Track, Tracks
from testbed.serve.commands import Action

KEPT_NS = 60 * 10**9
_MOST_ROWS, _MOST_TRACKS, _MOST_WORDS = 20_000, 4_000, 100
_MOST_ACTIONS, _FIRST = 1000, 4
_HEADROOM, _MARKS, _FLOWS = f"{PREFIX}headroom in use", f"{PREFIX}ECN marks", f"{PREFIX}rates of flows"
_WIRE_OCTETS = 24


class _Words:
    """Words about subjects, as rows with the times of their changes; empty words end a subject."""

    def __init__(self) -> None:
        self.rows: deque[list[Any]] = deque(maxlen=2000)
        self._now: dict[str, str] = {}

    def changed(self, t_ns: int, now: dict[str, str]) -> list[list[Any]]:
        """Return the rows that differ from the last time, and keep them."""
        rows: list[list[Any]] = [[t_ns, name, words] for name, words in now.items() if self._now.get(name) != words]
        rows += [[t_ns, name, ""] for name in self._now if name not in now]
        self._now = now
        self.rows.extend(rows)
        return rows


class Feed:
    """The history of one network that runs."""

    def __init__(self, described: dict[str, Any]) -> None:
        """`described` is the lab's line about the network."""
        self.network: Network = network_of(described, 1, LATEST_NS)
        hosts = described.get("hosts")
        self.hosts = [str(one) for one in hosts] if isinstance(hosts, list) else []
        self._folder = Folder(Path("live"), {}, networks=[self.network])
        self._reader = Reader()
        self._done: list[int] = []
        """The number of rows of each track that viewers have."""
        self.t_ns = 0
        self._thresholds: dict[str, str] = {}
        self._is_arranged = False
        self._panels: list[dict[str, Any]] = []
        self._marks = 0
        self.state: dict[str, Any] = {}
        self._states, self._cables = _Words(), _Words()
        self._words: deque[list[Any]] = deque(maxlen=_MOST_WORDS)
        self._received: dict[int, tuple[int, int]] = {}
        self._actions: deque[list[Any]] = deque(maxlen=_MOST_ACTIONS)
        self._new_actions: list[list[Any]] = []

    def act(self, action: Action) -> None:
        """Take an action that the lab has carried out; viewers have it on the axis of time, with the next message."""
        row = [action.t_ns, readable(action.text, 200)]
        self._actions.append(row)
        self._new_actions.append(row)

    def update(self, lines: list[dict[str, Any]]) -> dict[str, Any] | None:
        """Return the message for all viewers about some lines of the lab, or None if there is nothing new."""
        message: dict[str, Any] = {}
        for line in lines:
            kind = line.get("live")
            if kind == "window":
                self._take_window(line)
                message["t_ns"] = self.t_ns
            elif kind == "state" and isinstance(line.get("state"), dict):
                self.state = line["state"]
                self._take_thresholds(self.state.get("thresholds", {}))
                message["state"] = self.state
                for kind, new in self._changed_states(int(line["t_ns"])).items():
                    message[kind] = message.get(kind, []) + new
            elif "text" in line:
                words = [self.t_ns, readable(line["text"], 400), line.get("ok") is not False]
                self._words.append(words)
                message.setdefault("words", []).append(words)
        if self._new_actions:
            message["actions"], self._new_actions = self._new_actions, []
        if not message:
            return None
        return {"type": "update", **message, **self._news()}

    def snapshot(self) -> dict[str, Any]:
        """Return the message with all that a new viewer needs."""
        found = self._tracks()
        return {
            "type": "snapshot",
            "t_ns": self.t_ns,
            "scale": self._folder.scale.k,
            "tracks": [
                _described(track) | {"t": list(track.t_ns[:done]), "v": list(track.values[:done])}
                for track, done in zip(found, self._done, strict=False)
            ],
            "open": self._open(found[: len(self._done)]),
            "marks": list(self._reader.marks),
            "panels": self._panels,
            "state": self.state,
            "states": list(self._states.rows),
            "cables": list(self._cables.rows),
            "words": list(self._words),
            "actions": list(self._actions),
        }

    def _take_window(self, line: dict[str, Any]) -> None:
        reader = self._reader
        for t_ns, name, port, priorities, fields in line["events"]:
            reader.take(Event(t_ns, name, port, tuple(priorities), fields))
        for t_ns, port, priority, _, shared, headroom in line["buffers"]:
            reader.track(OCCUPANCY, port, f"priority {priority}, shared", Shape.STEPS, "cells").add(t_ns, shared)
            if headroom or (_HEADROOM, port, f"priority {priority}") in reader.found:
                reader.track(_HEADROOM, port, f"priority {priority}", Shape.STEPS, "cells").add(t_ns, headroom)
        for t_ns, port, rate in line["loads"]:
            reader.track(LOAD, port, "", Shape.STEPS, "b/s").add(t_ns, min(rate, LARGEST))
        for t_ns, port, marked in line["marks"]:
            reader.track(_MARKS, port, "", Shape.STEPS, "packets").add(t_ns, marked)
        self._take_flows(line["flows"])
        self.t_ns = max(self.t_ns, int(line["t_ns"]))
        self._end_flows()

    def _take_flows(self, rows: list[list[int]]) -> None:
        """Compute rates of flows from frames received; a receiver counts every 20 ms."""
        named = {flow["flow"]: flow for flow in self.state.get("flows", [])}
        for t_ns, number, _, received in rows:
            before_ns, before = self._received.get(number, (t_ns, received))
            flow = named.get(number)
            if number not in self._received or received < before:
                self._received[number] = t_ns, received
            elif flow is not None and received > before and t_ns > before_ns:
                octets = (received - before) * (int(flow["frame"]) + _WIRE_OCTETS)
                name = f"{flow['source']} to {flow['target']} ({number})"
                track = self._reader.track(_FLOWS, "", name, Shape.STEPS, "b/s")
                track.add(t_ns, octets * 8 * 10**9 // (t_ns - before_ns) * self._folder.scale.k)
                self._received[number] = t_ns, received

    def _end_flows(self) -> None:
        """Set the rate of each flow to 0 from which nothing has come for a while."""
        for (panel, _, _), track in self._reader.found.items():
            if panel == _FLOWS and track.values and track.values[-1] and self.t_ns - track.t_ns[-1] > 10**8:
                track.add(track.t_ns[-1] + 10**8, 0)

    def _changed_states(self, t_ns: int) -> dict[str, list[list[Any]]]:
        """Return the rows of protocols, and of pulled cables, that differ from the last time."""
        rows = self.state.get("states")
        now = {str(name): readable(words, 400) for name, words in rows.items()} if isinstance(rows, dict) else {}
        ports = self.state.get("ports")
        found = ports.items() if isinstance(ports, dict) else ()
        pulled = {str(name): "pulled" for name, port in found if isinstance(port, dict) and port.get("cable") is False}
        return {"states": self._states.changed(t_ns, now), "cables": self._cables.changed(t_ns, pulled)}

    def _take_thresholds(self, thresholds: dict[str, str]) -> None:
        """Take the thresholds of switches, which a control can change, into what panels say of them."""
        for node, xoff in thresholds.items():
            if self._thresholds.setdefault(node, xoff) == xoff:
                continue
            self._thresholds[node], self._is_arranged = xoff, False
            for port, settings in self.network.ports.items():
                for group in settings.get("groups", {}).values() if self.network.node_of(port) == node else ():
                    if group.get("lossless"):
                        for key in ("alpha", "xoff_cells"):
                            group.pop(key, None)
                        if xoff.endswith("%"):
                            group["alpha"] = str(Fraction(xoff.removesuffix("%")) / 100)
                        elif xoff.isdecimal():
                            group["xoff_cells"] = int(xoff)

    def _tracks(self) -> list[Track]:
        return list(self._reader.found.values())[:_MOST_TRACKS]

    def _news(self) -> dict[str, Any]:
        """Return rows that viewers do not have yet, new tracks and panels, and intervals that have not ended."""
        for panel, port, priority in self._reader.open:
            self._reader.track(panel, port, f"priority {priority}", Shape.INTERVALS)  # its rows come when it ends
        tracks = self._tracks()
        rows: list[list[int]] = []
        is_new = len(tracks) > len(self._done)
        first = len(self._done)
        self._done += [0] * (len(tracks) - first)
        for number, track in enumerate(tracks):
            done = self._done[number]
            rows += [[number, track.t_ns[row], track.values[row]] for row in range(done, len(track.t_ns))]
            self._done[number] = self._forget_old(track)
        news: dict[str, Any] = {"rows": rows, "open": self._open(tracks)}
        if is_new:
            news["tracks"] = [_described(track) for track in tracks[first:]]
        if is_new or not self._is_arranged:
            self._is_arranged = True
            self._panels = self._arranged(tracks)
            news["panels"] = self._panels
        if len(self._reader.marks) > self._marks:
            self._marks = len(self._reader.marks)
            news["marks"] = list(self._reader.marks)
        return news

    def _forget_old(self, track: Track) -> int:
        """Keep the last minute, and of each value the last row before it."""
        old = 0
        if len(track.t_ns) > _MOST_ROWS or (track.t_ns and track.t_ns[0] < self.t_ns - 2 * KEPT_NS):
            old = max(0, len(track.t_ns) - _MOST_ROWS)
            while old < len(track.t_ns) - 1 and track.t_ns[old + 1] < self.t_ns - KEPT_NS:
                old += 1
        del track.t_ns[:old], track.values[:old]
        return len(track.t_ns)

    def _open(self, found: list[Track]) -> list[list[int]]:
        number_of = {key: number for number, key in enumerate(self._reader.found)}
        rows = []
        for (panel, port, priority), start in self._reader.open.items():
            number = number_of.get((panel, port, f"priority {priority}"), len(found))
            if number < len(found):
                rows.append([number, start])
        return rows

    def _arranged(self, found: list[Track]) -> list[dict[str, Any]]:
        shown = Tracks(found, Counter(), self._reader.dropped, list(self._reader.marks), self._reader.pauses, [])
        made = panels(0, self._folder, shown)
        at_first = {panel.identity for panel in first(made, _FIRST)}
        return [panel.described() | {"first": panel.identity in at_first} for panel in made]


def _described(track: Track) -> dict[str, Any]:
    return {
        "panel": track.panel,
        "port": readable(track.port, 80),
        "label": readable(track.label, 80),
        "shape": str(track.shape),
        "unit": track.unit,
    }
