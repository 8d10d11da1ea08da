"""The sampler of a live view: rows about events, buffers, loads of links, marks, flows and states of a network."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from testbed import subject
from testbed.errors import XoffError
from testbed.linux.port_program import POOLS
from testbed.net.fabric import changes
from testbed.net.fabric.fabric import Fabric
from testbed.net.fabric.ports import FabricError, PortState
from testbed.net.live.controls import Controls
from testbed.net.watch import samplers

if TYPE_CHECKING:
    from testbed.switch.link.counters import LlrReport

_LOADS_NS, _STATE_NS = 20_000_000, 200_000_000
_SETTLED_NS = 1_000_000
"""The time within which agents have written events into their logs."""


_SHARED, _HEADROOM = 1, 2
_PRIORITIES = range(8)


class CounterSampler:
    """Samples the counters of all ports and pools. It makes no system call, but in networks with LLR or credits."""

    def __init__(self, fabric: Fabric) -> None:
        self._fabric = fabric
        self._trims = fabric.core.running_program().trimming
        self._lines = fabric.core.cabling.own_reports()
        self._credits = fabric.core.cabling.credits
        self._before: dict[str, dict[str, Any]] = {}

    def changes(self) -> list[dict[str, Any]]:
        """Return a row for each port, and for each pool of a switch, whose values are not those of the last call."""
        reports = self._lines()
        rows = [self._port(port) | self._link(port, reports.get(port.name)) for port in self._fabric.ports.values()]
        for name in self._fabric.buffers:
            rows += self._pools(name)
        changed = [row for row in rows if self._before.get(row["of"]) != row]
        self._before |= {row["of"]: row for row in changed}
        return changed

    def _port(self, port: PortState) -> dict[str, Any]:
        sent = self._fabric.sent(port.name)
        row: dict[str, Any] = {
            "of": port.name,
            "sent_frames": list(sent.sent_frames),
            "sent_bytes": list(sent.sent_bytes),
            "blocked_frames": list(sent.blocked_frames),
            "queued_bytes": list(sent.queued_bytes),
            "most_queued_bytes": list(sent.most_queued_bytes),
        }
        settings = self._fabric.buffers.get(port.node.name)
        if settings is not None:
            cell, groups = settings.cell_bytes, [self._fabric.group(port.name, number) for number in _PRIORITIES]
            row |= {
                "admitted_frames": [one.admitted_frames for one in groups],
                "dropped_frames": [sum(one.dropped_frames) for one in groups],
                "shared_bytes": [one.used[_SHARED] * cell for one in groups],
                "headroom_bytes": [one.used[_HEADROOM] * cell for one in groups],
                "most_shared_bytes": [one.high_water[_SHARED] * cell for one in groups],
                "most_headroom_bytes": [one.high_water[_HEADROOM] * cell for one in groups],
                "queue_dropped_frames": [self._fabric.queue(port.name, one).dropped_frames for one in _PRIORITIES],
            }
        if self._trims and settings is not None:
            trimmed = self._fabric.trimmed_by_queue(port.name)
            row |= {
                "trimmed_frames": [one.frames for one in trimmed],
                "rests_sent_frames": [one.sent_frames for one in trimmed],
                "rests_dropped_frames": [one.dropped_frames for one in trimmed],
            }
        return row

    def _link(self, port: PortState, report: LlrReport | None) -> dict[str, Any]:
        """Return what the link layer of a port has counted: LLR and credits."""
        row: dict[str, Any] = {}
        if report is not None:
            counters = {name.removeprefix("LLR_"): count for name, count in report.counters.items()}
            row["llr"] = {"counters": counters if port.lab_cable.llr else {}, "flushes": report.flushes,
                          "lost": report.lost + report.damaged}  # fmt: skip
        if self._credits is not None and port.settings and port.settings.credits:
            try:
                row["credits"] = self._credits.counters(port).as_json()
            except FabricError:  # the far end has none
                return row
            for one in row["credits"]["vcs"].values():
                one["stalled_ns"] = round(one["stalled_ns"] * port.units.k)  # all times of a lab are its own
        return row

    def _pools(self, node: str) -> list[dict[str, Any]]:
        settings, pools = self._fabric.buffers[node], self._fabric.pools(node)
        places = [*range(len(settings.pools)), *(POOLS + number for number in range(len(settings.egress_pools)))]
        return [
            {
                "of": f"{node} pool {place}",
                "node": node,
                "pool": f"{'ingress' if place < POOLS else 'egress'}_pool_{place % POOLS}",
                "shared_bytes": pools[place].used[_SHARED] * settings.cell_bytes,
                "most_shared_bytes": pools[place].high_water[_SHARED] * settings.cell_bytes,
            }
            for place in places
        ]


class Sampler:
    """The sampler of one network. Times in its rows are counted from `start_ns`."""

    def __init__(self, net: Any, controls: Controls, start_ns: int) -> None:
        self._fabric, self._controls, self._start_ns = net.fabric, controls, start_ns
        fabric = self._fabric
        self._buffered = [(port.slot, port.name) for port in samplers.buffered_ports(fabric)]
        self._groups = samplers.GroupSampler(fabric.core)
        sockets = samplers.own_sockets(fabric)
        self._loads = samplers.LoadSampler(fabric, sockets)
        self._marks = samplers.MarkSampler(fabric, sockets)
        self._counters = CounterSampler(fabric)
        self._loads_ns = self._state_ns = self._counters_ns = 0
        self._log_marks: list[int] = []
        self._records: list[Any] = []
        self._flows: dict[int, tuple[int, int]] = {}
        self._state: dict[str, Any] = {}
        self._rows: dict[str, list[Any]] = {}
        self._clear()

    def look(self, now_ns: int) -> None:
        """Add rows for all that has changed since the last call."""
        t_ns = now_ns - self._start_ns
        for slot, name in self._buffered:
            self._rows["buffers"] += [(t_ns, name, *change[:4]) for change in self._groups.changes(slot)]
        if now_ns - self._loads_ns >= _LOADS_NS:
            self._rows["loads"] += [(t_ns, *change) for change in self._loads.changes(now_ns - self._loads_ns)]
            self._loads_ns = now_ns
        for number, counted in self._controls.counted().items():
            if counted != self._flows.get(number):
                self._flows[number] = counted
                self._rows["flows"].append((t_ns, number, *counted))

    def window(self) -> dict[str, Any]:
        """Return the rows and events since the last window, and begin the next one."""
        now_ns = time.monotonic_ns()
        self._records += self._fabric.core.running_agents().records_after(self._log_marks)
        self._records.sort()
        settled_ns = now_ns - _SETTLED_NS
        ready = [record for record in self._records if record[0] <= settled_ns]
        del self._records[: len(ready)]
        events = [
            (one.lab_ns - self._start_ns, one.kind, one.port, one.priorities, one.detail)
            for one in self._fabric.core.log.decoded(ready)
        ]
        found = {"live": "window", "t_ns": settled_ns - self._start_ns, "events": events, **self._rows}
        self._clear()
        return found

    def changed_state(self) -> dict[str, Any] | None:
        """Return settings and states if they have changed, or None; they are read a few times a second."""
        now_ns = time.monotonic_ns()
        if now_ns - self._state_ns < _STATE_NS and self._controls.version == self._state.get("version"):
            return None
        self._state_ns = now_ns
        self._rows["marks"] += [(now_ns - self._start_ns, *change) for change in self._marks.changes()]
        state = self._settings()
        if state == self._state:
            return None
        self._state = state
        return {"live": "state", "t_ns": now_ns - self._start_ns, "state": state}

    def counters(self) -> dict[str, Any] | None:
        """Return the counters that have changed, or None; they are read a few times a second."""
        now_ns = time.monotonic_ns()
        if now_ns - self._counters_ns < _STATE_NS:
            return None
        self._counters_ns = now_ns
        rows = self._counters.changes()
        return {"live": "counters", "t_ns": now_ns - self._start_ns, "rows": rows} if rows else None

    def _settings(self) -> dict[str, Any]:
        fabric, agents = self._fabric, self._fabric.core.running_agents()
        return {
            "version": self._controls.version,
            "ports": {port.name: self._port(port) for port in fabric.ports.values()},
            "agents": {
                node: {"agent": agents.pid(node), "speaker": agents.pid(node, True)} for node in fabric.core.numbers
            },
            "thresholds": {node: self._controls.threshold(node) for node in fabric.buffers},
            "undo": self._controls.next_undone,
            "flows": self._controls.listed(),
            "states": {about: words for of in subject.loaded("states") for about, words in of(fabric).items()},
        }

    def _port(self, port: PortState) -> dict[str, Any]:
        try:
            pfc = changes.enabled(self._fabric, port)
        except XoffError:
            pfc = 0
        return {
            "pfc": [priority for priority in range(8) if pfc >> priority & 1],
            "can_ecn": sorted(port.settings.ecn) if port.settings else [],
            "ecn": self._controls.marking(port.name),
            "delay_lab_ns": port.lab_cable.delay.ns,
            "cable": self._controls.is_in(port.name),
            "storms": self._controls.storming(port.name),
            "can_delay": not port.lab_cable.is_plain,
        }

    def _clear(self) -> None:
        self._rows = {"buffers": [], "loads": [], "flows": [], "marks": []}
