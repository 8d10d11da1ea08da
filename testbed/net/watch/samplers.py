"""Samplers of a running network: each yields the values that have changed since its last sample.

A recording of a time series, a run with `--series` and a live view all take their rows from these; where a row goes is
up to them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any

from testbed.linux.netlink import link_state
from testbed.linux.netlink.link_state import Sent
from testbed.linux.netlink.messages import Socket
from testbed.linux.netlink.qdiscs import WIRE_OVERHEAD
from testbed.linux.port_program import GroupCounters
from testbed.net.fabric.core import FabricCore
from testbed.net.fabric.fabric import Fabric
from testbed.net.fabric.ports import PortState
from testbed.net.watch import readings

_PRIORITIES = range(8)
_IDLE = (0, 0, 0, 0)


def ticks(every_ns: int, ended: threading.Event, first_ns: int = 0) -> Iterator[int]:
    """Yield at a moment, or now, and then every `every_ns`, until `ended` is set, the time at which a sample is due."""
    due_ns = first_ns or time.monotonic_ns()
    time.sleep(max(0, due_ns - time.monotonic_ns()) / 1e9)
    while not ended.is_set():
        yield due_ns
        due_ns += every_ns
        time.sleep(max(0, due_ns - time.monotonic_ns()) / 1e9)


def buffered_ports(fabric: Fabric) -> list[PortState]:
    """Return the ports of all nodes in this kernel that have a buffer."""
    having = fabric.buffers.keys() & fabric.core.here().keys()
    return [port for port in fabric.ports.values() if port.node.name in having]


def own_sockets(fabric: Fabric) -> dict[str, Socket]:
    """Open a netlink socket in the namespace of each node that is in this kernel; another thread uses those of the
    fabric at the same time.
    """
    return {name: fabric.core.sockets.another(ports[0].node) for name, ports in fabric.core.here().items()}


class GroupSampler:
    """Samples the groups of ports: their guaranteed, shared and headroom cells, and 1 if they have paused the far end.

    It reads the port program's memory, which takes no system call.
    """

    def __init__(self, core: FabricCore) -> None:
        self._core = core
        self._memory: dict[int, bytes] = {}
        self._before: dict[tuple[int, int], tuple[int, ...]] = {}

    def changes(self, slot: int) -> list[tuple[int, ...]]:
        """Return (priority, guaranteed, shared, headroom, xoff) of each group of a port that has changed.

        Most samples of most ports are equal to the one before: their memory is compared as a whole first.
        """
        buffers = self._core.running_program().buffers
        memory = buffers.groups_of(slot)
        if memory == self._memory.get(slot):
            return []
        self._memory[slot] = memory
        changed = []
        for priority in _PRIORITIES:
            now = _cells(buffers.group(slot, priority))
            if now != self._before.get((slot, priority), _IDLE):
                self._before[slot, priority] = now
                changed.append((priority, *now))
        return changed


class QueueSampler:
    """Samples the octets that wait in the queues of ports, from the port program's memory, without a system call."""

    def __init__(self, core: FabricCore) -> None:
        self._core = core
        self._before: dict[int, tuple[int, ...]] = {}

    def changes(self, slot: int) -> list[tuple[int, int]]:
        """Return (number, octets) of each queue of a port that has changed."""
        now, before = self._core.running_program().queued(slot), self._before.get(slot, (0,) * len(_PRIORITIES))
        if now == before:
            return []
        self._before[slot] = now
        return [(number, now[number]) for number in _PRIORITIES if now[number] != before[number]]


class LoadSampler:
    """Samples the load of each port's line in b/s, with preamble and gap. It lists interfaces by netlink."""

    def __init__(self, fabric: Fabric, sockets: Mapping[str, Socket]) -> None:
        self._fabric, self._sockets = fabric, sockets
        self._sent: dict[str, Sent] = {}
        self._rates: dict[str, int] = {}

    def changes(self, passed_ns: int) -> Iterator[tuple[str, int]]:
        """Yield (port, load) where the load since the last sample, `passed_ns` ago, differs from the one before."""
        for node, ports in self._fabric.core.ports.by_node().items():
            if node not in self._sockets:
                continue
            counted = link_state.sent(self._sockets[node])
            for port in ports:
                now = counted.get(port.interface)
                if now is None:
                    continue
                before = self._sent.get(port.name, now)
                self._sent[port.name] = now
                octets = now.octets - before.octets + WIRE_OVERHEAD * (now.frames - before.frames)
                rate = max(0, octets) * 8 * 10**9 // max(1, passed_ns) * port.units.k
                if rate != self._rates.get(port.name, 0):
                    self._rates[port.name] = rate
                    yield port.name, rate


class MarkSampler:
    """Samples the packets that ECN has marked at each port so far. It lists queueing disciplines by netlink."""

    def __init__(self, fabric: Fabric, sockets: Mapping[str, Socket]) -> None:
        self._fabric, self._sockets = fabric, sockets
        self._before: dict[str, int] = {}

    def changes(self) -> Iterator[tuple[str, int]]:
        """Yield (port, packets) where more packets have been marked."""
        for port, priorities in readings.ecn_by(self._fabric, self._sockets).items():
            marked = sum(one["marked"] for one in priorities.values())
            if marked != self._before.get(port, 0):
                self._before[port] = marked
                yield port, marked


def _cells(group: GroupCounters) -> tuple[Any, ...]:
    return (*group.used, int(group.xoff))
