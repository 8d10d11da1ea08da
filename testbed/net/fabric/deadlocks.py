"""A watch for PFC deadlocks in a running network, which are circles of paused queues (`switch/pfc/deadlock.py`).

A helper process reads what agents and port program keep in shared memory: the paused priorities, the congested groups,
and the queues in which the frames of a group wait. It sees all nodes at one moment of the lab's time, as no switch
could, and sends nothing (decision 0295). It runs if the topology has a `deadlock_poll`.

It looks at each whole multiple of the interval on the lab's clock, and writes into the event log: a
`deadlock_detected` for each queue of the circle, and `deadlock_broken` when one of them can resume.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from testbed.agent.agents import Agents
from testbed.agent.event_log import RECORD, LoggedEvent
from testbed.agent.events import AgentEvent
from testbed.linux.port_program import GroupLimits, PortProgram
from testbed.linux.process import kernel
from testbed.linux.process.forked_helper import READY, Ending, ForkedHelper, PacketPipe
from testbed.net.fabric.ports import PortState, PortTable
from testbed.switch.pfc import PRIORITIES_IN, mask_of
from testbed.switch.pfc.deadlock import Deadlock, DeadlockWatch, Place, Waits
from testbed.units import Duration

_ALL = PRIORITIES_IN[0xFF]


def watching(
    ports: PortTable, nodes: Mapping[str, int], program: PortProgram, agents: Agents, poll: Duration
) -> ForkedHelper[PacketPipe]:
    """Start the process that watches for deadlocks. `nodes` has the buffer number of each switch and router."""
    look = Look(ports, nodes, program, agents)
    log = agents.new_log()
    return ForkedHelper(
        "looking for deadlocks failed", lambda pipe: _watch(look, log, poll.ns, pipe), PacketPipe.pair(),
        Ending.CONFIRMS, name="xoff-deadlocks",
    )  # fmt: skip


def _watch(look: Look, log: int, poll_ns: int, pipe: PacketPipe) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    watch, timer = DeadlockWatch(), kernel.Timer()
    pipe.send(READY)
    while True:
        timer.set((time.monotonic_ns() // poll_ns + 1) * poll_ns)
        if pipe.fileno() in kernel.wait_readable([timer.fd, pipe]):
            return
        timer.clear()
        now_ns = time.monotonic_ns()
        new, broken = watch.look(look.waits(), now_ns)
        if records := [*_records(look, new, broken, now_ns)]:
            os.write(log, b"".join(records))


def _records(look: Look, new: Iterable[Deadlock], broken: Iterable[Deadlock], now_ns: int) -> Iterator[bytes]:
    for kind, deadlocks in ((AgentEvent.DEADLOCK_DETECTED, new), (AgentEvent.DEADLOCK_BROKEN, broken)):
        for one in deadlocks:
            for place, (slot, queue) in enumerate(one.circle):
                is_new = kind is AgentEvent.DEADLOCK_DETECTED
                value = place << 16 | len(one.circle) if is_new else now_ns - one.since_ns
                yield RECORD.pack(now_ns, kind, slot, look.priorities_of(slot, queue), one.number << 48 | value)


class Look:
    """Reads which queues wait for which groups at the moment of the call."""

    def __init__(self, ports: PortTable, nodes: Mapping[str, int], program: PortProgram, agents: Agents) -> None:
        self._program, self._agents = program, agents
        self._buffer_of: dict[int, int] = {}
        self._at_node: dict[int, list[PortState]] = {}
        for name, found in ports.by_node().items():
            if name in nodes:
                for port in found:
                    self._buffer_of[port.slot] = nodes[name]
                    self._at_node[port.slot] = found
        self._slots = [slot for slot in self._buffer_of if slot ^ 1 in self._buffer_of]
        """The ports between switches and routers; only a queue there can be part of a circle."""

    def priorities_of(self, slot: int, queue: int) -> int:
        """Return the mask of priorities whose pause stops a queue."""
        return mask_of(p for p in _ALL if self._agents.stopped_by(slot, p) >> queue & 1)

    def waits(self) -> Waits:
        """Return the paused queues, the congested groups that paused them, and where the frames of these wait."""
        paused: dict[Place, set[Place]] = {}
        for slot in self._slots:
            for priority in PRIORITIES_IN[self._agents.paused(slot)]:
                group = slot ^ 1, priority
                if self._program.buffers.is_congested(*group):
                    for queue in PRIORITIES_IN[self._agents.stopped_by(slot, priority)]:
                        paused.setdefault((slot, queue), set()).add(group)
        held = {group: self._queues_of(group) for groups in paused.values() for group in groups}
        return Waits(paused, held, self._stays_congested)

    def _queues_of(self, group: Place) -> dict[Place, int]:
        """Return the cells of a group in each queue of its node."""
        found = {}
        for port in self._at_node[group[0]]:
            for queue, octets in enumerate(self._program.queued(port.slot)):
                if octets and (cells := self._program.waiting(group, (port.slot, queue))):
                    found[port.slot, queue] = cells
        return found

    def _stays_congested(self, group: Place, remains: Mapping[Place, int]) -> bool:
        """Return True if rules D1 and D2 of `testbed/switch/buffer/model.py` keep a group congested.

        In its pool all cells are free except those that `remains` has for each group.
        """
        limits = self._program.buffers.limits(*group)
        buffer = self._buffer_of[group[0]]
        others = sum(
            remaining(self._program.buffers.group(*other).used, cells)[1]
            for other, cells in remains.items()
            if other[0] in self._buffer_of
            and self._buffer_of[other[0]] == buffer
            and self._program.buffers.limits(*other).pool == limits.pool
        )
        free = self._program.buffers.pools(buffer)[limits.pool].size[1] - others
        return stays_congested(
            limits, remaining(self._program.buffers.group(*group).used, remains[group]), max(0, free)
        )


def remaining(used: tuple[int, int, int], cells: int) -> tuple[int, int, int]:
    """Return the guaranteed, shared and headroom cells of a group that has given back all but `cells`."""
    leaves = max(0, sum(used) - cells)
    headroom = min(leaves, used[2])
    shared = min(leaves - headroom, used[1])
    return used[0] - (leaves - headroom - shared), used[1] - shared, used[2] - headroom


def stays_congested(limits: GroupLimits, used: tuple[int, int, int], free: int) -> bool:
    """Return True if a congested group with these cells in use, and `free` ones in the shared pool, sends no XON."""
    guaranteed, shared, headroom = used
    if not limits.lossless:
        return False
    limit = (limits.static if free else 0) if limits.alpha is None else int(limits.alpha * free)
    low = guaranteed + shared <= limits.xon
    return headroom > 0 or (shared > 0 and not low and shared + limits.xon_offset > limit)


@dataclass
class FoundDeadlock:
    """A deadlock in the event log."""

    number: int
    since_lab_ns: int
    """The moment of its detection by the lab's clock."""
    queues: dict[int, tuple[str, tuple[int, ...]]] = field(default_factory=dict)
    """The queues of the circle by their place in it: the port, and the priorities whose pause stops the queue. Each
    waits for the next, and the last for the first."""
    lasted_ns: int | None = None
    """The duration of the deadlock, or None if it is not broken."""

    def __str__(self) -> str:
        names = [f"{port} priority {','.join(map(str, of))}" for _, (port, of) in sorted(self.queues.items())]
        return " -> ".join([*names, names[0]])


def found_deadlocks(events: Iterable[LoggedEvent]) -> list[FoundDeadlock]:
    """Return the deadlocks among the events of one network."""
    by_number: dict[Any, FoundDeadlock] = {}
    for event in events:
        number = event.detail.get("deadlock")
        if event.kind == "deadlock_detected":
            one = by_number.setdefault(number, FoundDeadlock(int(number or 0), event.lab_ns))
            one.queues[event.detail["place"]] = event.port, event.priorities
        elif event.kind == "deadlock_broken":
            by_number[number].lasted_ns = event.detail["lasted_ns"]
    return list(by_number.values())
