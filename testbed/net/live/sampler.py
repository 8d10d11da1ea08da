"""The sampler of a live view: rows about events, buffers, loads of links, marks, flows and states of a network."""

from __future__ import annotations

import time
from typing import Any

from testbed.errors import XoffError
from testbed.linux.netlink import link_counters
from testbed.linux.netlink.link_counters import Sent
from testbed.linux.netlink.netlink import Socket
from testbed.linux.netlink.qdiscs import WIRE_OVERHEAD
from testbed.linux.process import kernel
from testbed.net.fabric import changes
from testbed.net.fabric.ports import PortState
from testbed.net.live.controls import Controls
from testbed.net.live.states import dcbx_rows, sr_rows
from testbed.net.watch import readings, series

_LOADS_NS, _STATE_NS = 20_000_000, 200_000_000
_SETTLED_NS = 1_000_000
"""The time within which agents have written events into their logs."""
_IDLE = (0, 0, 0, 0)


class Sampler:
    """The sampler of one network. Times in its rows are counted from `start_ns`."""

    def __init__(self, net: Any, controls: Controls, start_ns: int) -> None:
        self._fabric, self._controls, self._start_ns = net.fabric, controls, start_ns
        fabric = self._fabric
        self._names = {port.slot: port.name for port in fabric.ports.values()}
        self._groups = [
            (port.slot, port.name, priority)
            for port in fabric.ports.values()
            if port.node.name in fabric.buffers
            for priority in range(8)
        ]
        self._before: dict[tuple[str, int], tuple[int, ...]] = {}
        self._sockets = {name: _socket_in(ports[0].node) for name, ports in fabric.by_node().items()}
        self._sent: dict[str, Sent] = {}
        self._rates: dict[str, int] = {}
        self._loads_ns = self._state_ns = 0
        self._log_marks: list[int] = []
        self._records: list[Any] = []
        self._marked: dict[str, int] = {}
        self._flows: dict[int, tuple[int, int]] = {}
        self._state: dict[str, Any] = {}
        self._rows: dict[str, list[Any]] = {}
        self._clear()

    def look(self, now_ns: int) -> None:
        """Add rows for all that has changed since the last call."""
        t_ns = now_ns - self._start_ns
        program = self._fabric.running_program()
        for slot, name, priority in self._groups:
            found = series.sample(program.buffers.group(slot, priority))
            if found != self._before.get((name, priority), _IDLE):
                self._before[name, priority] = found
                self._rows["buffers"].append((t_ns, name, priority, *found[:3]))
        if now_ns - self._loads_ns >= _LOADS_NS:
            self._look_at_links(t_ns, now_ns - self._loads_ns)
            self._loads_ns = now_ns
        for number, counted in self._controls.counted().items():
            if counted != self._flows.get(number):
                self._flows[number] = counted
                self._rows["flows"].append((t_ns, number, *counted))

    def window(self) -> dict[str, Any]:
        """Return the rows and events since the last window, and begin the next one."""
        now_ns = time.monotonic_ns()
        self._records += self._fabric.running_agents().records_after(self._log_marks)
        self._records.sort()
        settled_ns = now_ns - _SETTLED_NS
        ready = [record for record in self._records if record[0] <= settled_ns]
        del self._records[: len(ready)]
        events = [
            (one.lab_ns - self._start_ns, one.kind, one.port, one.priorities, one.detail)
            for one in self._fabric.decoded(ready)
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
        self._count_marks(now_ns - self._start_ns)
        state = self._settings()
        if state == self._state:
            return None
        self._state = state
        return {"live": "state", "t_ns": now_ns - self._start_ns, "state": state}

    def _look_at_links(self, t_ns: int, passed_ns: int) -> None:
        for node, ports in self._fabric.by_node().items():
            counted = link_counters.sent(self._sockets[node])
            for port in ports:
                now = counted.get(port.interface)
                before = self._sent.get(port.name)
                if now is None:
                    continue
                self._sent[port.name] = now
                if before is None:
                    continue
                octets = now.octets - before.octets + WIRE_OVERHEAD * (now.frames - before.frames)
                rate = max(0, octets) * 8 * 10**9 // max(1, passed_ns)
                if rate != self._rates.get(port.name, 0):
                    self._rates[port.name] = rate
                    self._rows["loads"].append((t_ns, port.name, rate))

    def _count_marks(self, t_ns: int) -> None:
        for port, priorities in readings.ecn(self._fabric).items():
            marked = sum(one["marked"] for one in priorities.values())
            if marked != self._marked.get(port, 0):
                self._marked[port] = marked
                self._rows["marks"].append((t_ns, port, marked))

    def _settings(self) -> dict[str, Any]:
        fabric = self._fabric
        return {
            "version": self._controls.version,
            "ports": {port.name: self._port(port) for port in fabric.ports.values()},
            "agents": {
                node: {"agent": fabric.running_agents().pid(node), "speaker": fabric.running_agents().pid(node, True)}
                for node in fabric.nodes
            },
            "flows": self._controls.listed(),
            "dcbx": dcbx_rows(readings.dcbx(fabric)),
            "sr": sr_rows(readings.wan(fabric)),
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
            "delay_ns": port.cable.delay.number,
            "cable": self._controls.is_in(port.name),
            "can_delay": bool(port.lab_cable.delay.ps or port.lab_cable.loss),
        }

    def _clear(self) -> None:
        self._rows = {"buffers": [], "loads": [], "flows": [], "marks": []}


def _socket_in(node: Any) -> Socket:
    """Open a socket in a node's namespace; commands use those of the fabric at the same time."""
    with kernel.in_network_of(node.pid):
        return Socket()
