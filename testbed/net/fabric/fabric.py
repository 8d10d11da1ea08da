"""The fabric of a running network as experiments use it, `net.fabric`: its ports, counters, agents and cables.

A fabric shows what the network's switch buffers, ports and agents count and do, and changes a few things while they
run. All of it stands on `FabricCore`, which builds and holds the parts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping
from itertools import product
from typing import TYPE_CHECKING, Any

from testbed.agent.event_log import LoggedEvent
from testbed.agent.events import AgentEvent
from testbed.errors import listed, nearest
from testbed.linux.port_program import (
    DROP_REASONS,
    BufferCounters,
    GroupCounters,
    GroupLimits,
    PortCounters,
    QueueCounters,
    Trimmed,
)
from testbed.net.fabric.bring_up import Mismatch
from testbed.net.fabric.cabling import Cabling
from testbed.net.fabric.core import FabricCore
from testbed.net.fabric.deadlocks import FoundDeadlock, found_deadlocks
from testbed.net.fabric.ports import FabricError, PortState
from testbed.switch.buffer.settings import BufferSettings
from testbed.switch.headroom.measurement import readable
from testbed.units import Scale, hardware_times

if TYPE_CHECKING:
    from testbed.net.fabric.link.credits import CreditCounters
    from testbed.net.fabric.rules.at_ports import MarkingReading
    from testbed.switch.link.counters import LlrReport

__all__ = ["Fabric", "FabricCore", "FabricError", "Mismatch", "PortState", "with_measured"]

_NO_LINK = "port without a link"


class Fabric:
    """The lossless part of one network: `net.fabric`. Ports are named by their interfaces, as in s1-eth2."""

    def __init__(self, core: FabricCore) -> None:
        self.core = core
        """The parts of the fabric, for modules of Xoff; unlike the names here, those of the core may change."""

    @classmethod
    def current(cls) -> Fabric:
        """Return the fabric of the network that is being built, or runs, in this process."""
        return cls(FabricCore.current())

    @classmethod
    def running(cls) -> Fabric | None:
        """Return the fabric of the network that is being built, or runs, or None if there is no network."""
        core = FabricCore.running()
        return None if core is None else cls(core)

    @property
    def ports(self) -> dict[int, PortState]:
        """All lossless ports, by slot."""
        return self.core.ports.by_slot

    @property
    def units(self) -> Scale:
        """The scale between the values that users write and read in this network and those of the lab."""
        return self.core.ports.units

    @property
    def buffers(self) -> Mapping[str, BufferSettings]:
        """The settings of the buffer of each switch and router."""
        return self.core.buffers

    @property
    def cabling(self) -> Cabling:
        """The cables, which can be pulled, plugged and changed."""
        return self.core.cabling

    def port(self, name: str) -> PortState:
        """Return the port whose interface has this name, as in s1-eth2."""
        return self.core.ports.port(name)

    def names(self) -> list[str]:
        """Return the names of all lossless ports."""
        return self.core.ports.names()

    def between(self, node: str, neighbour: str) -> PortState:
        """Return the port of a node that leads to a neighbour, the first one if there are several."""
        return self.core.ports.between(node, neighbour)

    def far_end(self, port: PortState | str) -> PortState:
        """Return the port at the other end of the cable of a port, which may be given by its name."""
        return self.core.ports.far_end(self.port(port) if isinstance(port, str) else port)

    # Counters of buffers and ports

    def group(self, port: str, priority: int) -> GroupCounters:
        """Return the buffer's counters for frames of a priority that arrive at a port of a switch or router."""
        return self.core.running_program().buffers.group(self.port(port).slot, _checked(priority))

    def limits(self, port: str, priority: int) -> GroupLimits:
        """Return the present limits, in cells, for frames of a priority that arrive at a port of a switch or router."""
        return self.core.running_program().buffers.limits(self.port(port).slot, _checked(priority))

    def sent(self, port: str) -> PortCounters:
        """Return the counters of the frames that were put into a port's queues."""
        return self.core.running_program().port(self.port(port).slot)

    def marking(self, port: str) -> MarkingReading:
        """Return what the marking rule of a port has done so far: its state, and its fault if it had one."""
        from testbed.net.fabric.rules import at_ports

        state = self.port(port)
        return at_ports.reading(state, self.core.sockets.of(state.node))

    def queue(self, port: str, queue: int) -> QueueCounters:
        """Return the counters of a queue that an egress pool limits."""
        return self.core.running_program().buffers.queue(self.port(port).slot, _checked(queue))

    def buffer(self, switch: str) -> BufferCounters:
        """Return the counters of a switch's buffer, which are those of its ingress pool 0."""
        return self.pools(switch)[0]

    def pools(self, switch: str) -> list[BufferCounters]:
        """Return the counters of a switch's POOLS ingress pools, then of its egress pools; an absent one is empty."""
        if switch not in self.buffers:
            self.core.ports.node(switch)
            raise FabricError(f"{switch} has no buffer; {listed(self.buffers)} have")
        return self.core.running_program().buffers.pools(self.core.numbers[switch])

    def held(self, *priorities: int, by: Container[str] | None = None) -> int:
        """Return how many cells hold frames of these priorities, in the buffers of some switches or of all.

        Frames of the nodes' own kernels, such as ARP, are in a buffer at any time; `buffer` counts them, too.
        """
        return sum(sum(group.used) for group in self._groups(self.buffers if by is None else by, priorities))

    def dropped(self) -> int:
        """Return how many frames the buffers have dropped, of all priorities."""
        return sum(sum(group.dropped_frames) for group in self._groups(self.buffers, range(8)))

    def credits(self, port: str) -> CreditCounters:
        """Return the counters of a port's credits; FabricError if its cable has none."""
        lines = self.core.cabling.credits
        if lines is None:
            raise FabricError(f"{port} has no credits; give both ends of its cable Port().with_credits(3)")
        return lines.counters(self.port(port))

    def trimmed(self, *ports: str) -> Trimmed:
        """Return what some switches' ports, or all, have trimmed; each frame was sent as a rest, or dropped as one."""
        return sum((sum(self.trimmed_by_queue(port), Trimmed()) for port in ports or self.names()), Trimmed())

    def trimmed_by_queue(self, port: str) -> tuple[Trimmed, ...]:
        """Return what a switch's port has trimmed, by the queue that was full."""
        tables = self.core.running_program().trimming_tables
        return (Trimmed(),) * 8 if tables is None else tables.trimmed(self.port(port).slot)

    def llr(self, port: str) -> LlrReport:
        """Return what a port with LLR, or with errors on its cable, has counted."""
        reports = self.core.cabling.reports()
        if self.port(port).name not in reports:
            having = f"{listed(reports)} have" if reports else "no port has"
            raise FabricError(f"the cable of {port} has neither LLR nor errors; {having}")
        return reports[port]

    def losses(self) -> dict[str, int] | None:
        """Return the numbers of frames that have been dropped so far or wait still, by reason.

        MAC control and LLDP are left out. Returns None if frames may be lost without a counter, because a daemon of
        Open vSwitch was restarted or the port program is not attached.
        """
        core, program = self.core, self.core.running_program()
        if not core.agents:
            return None
        is_emptied = any(kind == AgentEvent.QUEUE_EMPTIED for _, kind, *_ in core.log.records())
        with_queue = "queue that a watchdog or a lost link emptied" if is_emptied else "queue of a lost link"
        found: Counter[str] = Counter()
        for group in self._groups(self.buffers, range(8)):
            for reason, frames in zip(DROP_REASONS, group.dropped_frames, strict=True):
                found[f"buffer: {reason}"] += frames
            found["rule of a port"] += group.ruled_frames
        for slot in core.ports.slots.values():
            port = program.port(slot)
            found["watchdog"] += sum(port.blocked_frames)
            found["VL 15"] += sum(port.vl15_frames)
            found["DCBX defense"] += sum(port.defended_frames)
            found[_NO_LINK] += port.died_frames.by_queue + port.died_frames.at_link
            found[with_queue] += port.died_frames.with_queue
            found["cable"] += port.died_frames.in_cable
            found["longer than the MTU"] += port.died_frames.too_long
            if program.tunnel_ecn is not None:
                found["CE of a tunnel, not ECN-capable inside"] += program.tunnel_ecn.marks(slot).dropped
        waiting_or_dropped = core.waiting_or_dropped()
        if waiting_or_dropped is None:
            return None
        found.update(waiting_or_dropped)
        # The drops of ECN and of full queues are counted a second time by_queue. A qdisc that replaced another begins
        # at zero, so that some of its drops can count as those of a port without a link, but none is left out.
        found[_NO_LINK] -= found["ECN curve"] + found["full queue"]
        return {reason: frames for reason, frames in found.items() if frames > 0}

    # States of agents

    def pfc(self, port: str, priority: int) -> dict[str, Any]:
        """Return the state and the counters of PFC for a priority of a port, from its agent."""
        state = self.port(port)
        found: dict[str, Any] = self.snapshot(state.node.name)["ports"][port]["priorities"][_checked(priority)]
        return found

    def snapshot(self, node: str) -> dict[str, Any]:
        """Return the state and the counters of all ports of a node, from its agent; times are the hardware's."""
        agents = self.core.running_agents()
        if node not in self.core.numbers:
            self.core.ports.node(node)
            raise FabricError(f"{node} has no lossless ports; {nearest(node, self.core.numbers)}")
        found = hardware_times(agents.snapshot(node), self.core.ports.units_of(node))
        return with_measured(found)

    def lines(self) -> list[dict[str, Any]]:
        """Return what speakers have logged so far: an entry for each frame and each change, with the port's name."""
        return self.core.log.lines()

    def events(self) -> list[LoggedEvent]:
        """Return the events that agents have logged so far: pauses sent and obeyed, thresholds, drops, storms."""
        return self.core.log.decoded(self.core.log.records())

    def deadlocks(self) -> list[FoundDeadlock]:
        """Return the deadlocks found so far, for which the network looks if its topology has a `deadlock_poll`."""
        kinds = (AgentEvent.DEADLOCK_DETECTED, AgentEvent.DEADLOCK_BROKEN)
        return found_deadlocks(
            self.core.log.decoded(record for record in self.core.log.records() if record[1] in kinds)
        )

    def _groups(self, switches: Container[str], priorities: Iterable[int]) -> Iterator[GroupCounters]:
        buffers = self.core.running_program().buffers
        for port, priority in product(self.ports.values(), [_checked(priority) for priority in priorities]):
            if port.node.name in switches:
                yield buffers.group(port.slot, priority)


def with_measured(state: dict[str, Any]) -> dict[str, Any]:
    """Return the states of a node with the times of measured headroom in its line of text, too."""
    return state | {"measured": {port: readable(one) for port, one in state.get("measured", {}).items()}}


def _checked(priority: int) -> int:
    if type(priority) is not int or priority not in range(8):
        raise FabricError(f"priority {priority!r} does not exist; there are 0 to 7")
    return priority
