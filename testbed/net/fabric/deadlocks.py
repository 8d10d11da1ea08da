"""A watch for PFC deadlocks in a running network, which are circles of paused queues (`switch/pfc/deadlock.py`).

A helper process reads what agents and port program keep in shared memory: the paused priorities, the congested groups,
and the queues in which the frames of a group wait. It sees all nodes at one moment of the lab's time, as no switch
could, and sends nothing (decision 0295). It runs if the topology has a `deadlock_poll`.

It looks at each whole multiple of the interval on the lab's clock, and writes into the event log: a
`deadlock_detected` for each queue of the circle, and `deadlock_broken` when one of them can resume.

In a network over several kernels each part looks at its own nodes, and keeps what it has seen
(`net/partition/deadlock_notes.py`).
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from testbed.agent.agents import Agents
from testbed.agent.event_log import RECORD, LoggedEvent, Record
from testbed.agent.events import AgentEvent
from testbed.linux.port_program import GroupLimits, PortProgram
from testbed.linux.process import kernel
from testbed.linux.process.forked_helper import READY, Ending, ForkedHelper, PacketPipe
from testbed.net.fabric.ports import PortState, PortTable
from testbed.switch.pfc import PRIORITIES_IN, mask_of
from testbed.switch.pfc.deadlock import Deadlock, DeadlockWatch, Place, Waits
from testbed.units import Duration

_ALL = PRIORITIES_IN[0xFF]


@dataclass(frozen=True)
class Group:
    """A congested group, as a look has seen it."""

    pool: tuple[int, int]
    """The number of its node's buffer, and of the pool there."""
    size: int
    """The shared cells of that pool."""
    limits: GroupLimits
    used: tuple[int, int, int]
    held: dict[Place, int]
    """Its cells in each queue of its node."""


@dataclass(frozen=True)
class Seen:
    """The findings of one look, as plain data; those of all parts of a network at one moment can be joined."""

    paused: dict[int, int]
    """The priorities that are paused, as a mask, by the slots of the ports between switches and routers. Those that no
    congested group has paused may be left out."""
    stops: dict[int, tuple[int, ...]]
    """The queues that a pause of each priority stops, of those ports."""
    groups: dict[Place, Group]
    """The groups whose congestion has paused one of these priorities, and maybe others."""

    def joined(self, others: Iterable[Seen]) -> Seen:
        """Return what this look and others at the same moment have seen, in other parts of the network."""
        paused, stops, groups = dict(self.paused), dict(self.stops), dict(self.groups)
        for other in others:
            paused |= other.paused
            stops |= other.stops
            groups |= other.groups
        return Seen(paused, stops, groups)

    def waits(self) -> Waits:
        """Return the paused queues, the congested groups that paused them, and where the frames of these wait."""
        paused: dict[Place, set[Place]] = {}
        for slot, mask in self.paused.items():
            for priority in PRIORITIES_IN[mask]:
                group = slot ^ 1, priority
                if group in self.groups:
                    for queue in PRIORITIES_IN[self.stops[slot][priority]]:
                        paused.setdefault((slot, queue), set()).add(group)
        held = {group: self.groups[group].held for groups in paused.values() for group in groups}
        return Waits(paused, held, self._stays_congested)

    def _stays_congested(self, place: Place, remains: Mapping[Place, int]) -> bool:
        """Return True if rules D1 and D2 of `testbed/switch/buffer/model.py` keep a group congested.

        In its pool all cells are free except those that `remains` has for each group.
        """
        group = self.groups[place]
        others = sum(
            remaining(other.used, cells)[1]
            for other, cells in ((self.groups[one], cells) for one, cells in remains.items())
            if other.pool == group.pool
        )
        free = max(0, group.size - others)
        return stays_congested(group.limits, remaining(group.used, remains[place]), free)


class Look:
    """Reads what waits for what at the moment of the call, of the nodes that are in this kernel."""

    def __init__(
        self, ports: PortTable, here: Container[str], nodes: Mapping[str, int], program: PortProgram, agents: Agents
    ) -> None:
        self._program, self._agents = program, agents
        self._buffer_of: dict[int, int] = {}
        self._at_node: dict[int, list[PortState]] = {}
        forwarding = set[int]()
        for name, found in ports.by_node().items():
            if name not in nodes:
                continue
            forwarding |= {port.slot for port in found}
            if name in here:
                for port in found:
                    self._buffer_of[port.slot] = nodes[name]
                    self._at_node[port.slot] = found
        self._slots = [slot for slot in self._buffer_of if slot ^ 1 in forwarding]
        """The ports between switches and routers; only a queue there can be part of a circle."""
        self._cut = [slot for slot in self._slots if slot ^ 1 not in self._buffer_of]
        """Those of them whose cable leads to another part of the network."""

    def seen(self) -> Seen:
        paused: dict[int, int] = {}
        for slot in self._slots:
            for priority in PRIORITIES_IN[self._agents.paused(slot)]:
                if slot in self._cut or self._program.buffers.is_congested(slot ^ 1, priority):
                    paused[slot] = paused.get(slot, 0) | 1 << priority
        stops = {slot: tuple(self._agents.stopped_by(slot, priority) for priority in _ALL) for slot in paused}
        groups = [(slot ^ 1, p) for slot, mask in paused.items() if slot not in self._cut for p in PRIORITIES_IN[mask]]
        groups += [(slot, p) for slot in self._cut for p in _ALL if self._program.buffers.is_congested(slot, p)]
        return Seen(paused, stops, {group: self._group(group) for group in groups})

    def _group(self, group: Place) -> Group:
        limits, buffer = self._program.buffers.limits(*group), self._buffer_of[group[0]]
        return Group(
            (buffer, limits.pool),
            self._program.buffers.pools(buffer)[limits.pool].size[1],
            limits,
            self._program.buffers.group(*group).used,
            self._queues_of(group),
        )

    def _queues_of(self, group: Place) -> dict[Place, int]:
        """Return the cells of a group in each queue of its node."""
        found = {}
        for port in self._at_node[group[0]]:
            for queue, octets in enumerate(self._program.queued(port.slot)):
                if octets and (cells := self._program.waiting(group, (port.slot, queue))):
                    found[port.slot, queue] = cells
        return found


class Search:
    """The search for deadlocks in what looks have seen, one after the other."""

    def __init__(self) -> None:
        self._watch = DeadlockWatch()
        self._stops: dict[int, tuple[int, ...]] = {}

    def records(self, seen: Seen, now_ns: int) -> list[Record]:
        """Return the records of deadlocks that are new and of those that are broken."""
        self._stops |= seen.stops
        new, broken = self._watch.look(seen.waits(), now_ns)
        return [
            *self._records(AgentEvent.DEADLOCK_DETECTED, new, now_ns),
            *self._records(AgentEvent.DEADLOCK_BROKEN, broken, now_ns),
        ]

    def _records(self, kind: AgentEvent, deadlocks: Iterable[Deadlock], now_ns: int) -> Iterator[Record]:
        for one in deadlocks:
            for place, (slot, queue) in enumerate(one.circle):
                is_new = kind is AgentEvent.DEADLOCK_DETECTED
                value = place << 16 | len(one.circle) if is_new else now_ns - one.since_ns
                priorities = mask_of(p for p in _ALL if self._stops[slot][p] >> queue & 1)
                yield now_ns, kind, slot, priorities, one.number << 48 | value


def watching(look: Look, log: int, poll: Duration) -> ForkedHelper[PacketPipe]:
    """Start the process that watches for deadlocks and writes into an event log."""

    def watch(pipe: PacketPipe) -> None:
        search = Search()
        for _ in moments(poll.ns, pipe):
            now_ns = time.monotonic_ns()
            if records := search.records(look.seen(), now_ns):
                os.write(log, b"".join(RECORD.pack(*record) for record in records))

    return helper(watch)


def helper(body: Callable[[PacketPipe], None]) -> ForkedHelper[PacketPipe]:
    return ForkedHelper(
        "looking for deadlocks failed", body, PacketPipe.pair(), Ending.CONFIRMS, name="xoff-deadlocks"
    )  # fmt: skip


def moments(poll_ns: int, pipe: PacketPipe) -> Iterator[int]:
    """Wait for each whole multiple of the interval, and yield it, until a message comes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    timer = kernel.Timer()
    pipe.send(READY)
    while True:
        due_ns = (time.monotonic_ns() // poll_ns + 1) * poll_ns
        timer.set(due_ns)
        if pipe.fileno() in kernel.wait_readable([timer.fd, pipe]):
            return
        timer.clear()
        yield due_ns


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
