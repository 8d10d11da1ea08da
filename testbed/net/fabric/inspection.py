"""What a running network shows: counters of buffers and ports, states of agents, events, and where frames were lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import product
from typing import Any

from testbed.agent import event_log
from testbed.agent.agents import Agents
from testbed.agent.event_log import LoggedEvent
from testbed.agent.events import AgentEvent
from testbed.errors import listed, nearest
from testbed.linux.netlink import qdiscs
from testbed.linux.port_program import (
    DROP_REASONS,
    BufferCounters,
    GroupCounters,
    GroupLimits,
    PortCounters,
    PortProgram,
    QueueCounters,
)
from testbed.linux.vswitch import Vswitch
from testbed.net.fabric.cabling import Cabling
from testbed.net.fabric.deadlocks import FoundDeadlock, found_deadlocks
from testbed.net.fabric.ports import FabricError, NetworkPorts
from testbed.srv6.lab import filters as sr_filters
from testbed.switch.buffer.settings import BufferSettings
from testbed.units import Scale, hardware_times

_NO_LINK = "port without a link"


class Inspection(NetworkPorts):
    """The read side of a network; what it reads is there from the network's start on."""

    def __init__(self) -> None:
        super().__init__()
        self.cabling = Cabling(self)
        self.program: PortProgram | None = None
        self.agents: Agents | None = None
        self.buffers: dict[str, BufferSettings] = {}
        """By name of the switch or router."""
        self.nodes: dict[str, int] = {}
        """The number of each node; its ring and, for a switch, its buffer have it too."""
        self.vswitches: dict[str, Vswitch] = {}
        """By name of the leaf."""
        self.labels: Mapping[str, str] = {}
        """Names that users know ports by, where they differ from the lab's."""
        self.pool_labels: Mapping[str, list[str]] = {}
        """Names of ingress and egress pools, by switch."""
        self.lost = 0
        """Datagrams that flows have lost so far."""
        self._names: dict[int, str] = {}
        self._records: list[event_log.Record] = []
        self._dcbx_log: list[dict[str, Any]] = []

    def group(self, port: str, priority: int) -> GroupCounters:
        """What the buffer counted for a priority that came in by a port of a switch."""
        return self.running_program().buffers.group(self.port(port).slot, _checked(priority))

    def groups_of(self, port: str) -> bytes:
        """All groups of a port as they are in memory, to see whether one has changed."""
        return self.running_program().buffers.groups_of(self.port(port).slot)

    def queued(self, port: str) -> tuple[int, ...]:
        """Octets that wait in each queue of a switch's port at this moment."""
        return self.running_program().queued(self.port(port).slot)

    def limits(self, port: str, priority: int) -> GroupLimits:
        """What holds at this moment for a priority that comes in by a port of a switch, in cells."""
        return self.running_program().buffers.limits(self.port(port).slot, _checked(priority))

    def sent(self, port: str) -> PortCounters:
        """What was put into a port's queues."""
        return self.running_program().port(self.port(port).slot)

    def buffer(self, switch: str) -> BufferCounters:
        """A switch's pools."""
        if switch not in self.buffers:
            self.node(switch)
            raise FabricError(f"{switch} has no buffer; {listed(self.buffers)} have")
        return self.running_program().buffers.buffer(self.nodes[switch])

    def pools(self, switch: str) -> list[BufferCounters]:
        """All pools of a switch: POOLS ingress ones, then egress ones; those that it has not have no cells."""
        self.buffer(switch)
        return self.running_program().buffers.pools(self.nodes[switch])

    def queue(self, port: str, queue: int) -> QueueCounters:
        """What a queue of a switch's port counted, if an egress pool limits it."""
        return self.running_program().buffers.queue(self.port(port).slot, _checked(queue))

    def pfc(self, port: str, priority: int) -> dict[str, Any]:
        """State and counters of PFC for a priority of a port, as its agent has them."""
        state = self.port(port)
        found: dict[str, Any] = self.snapshot(state.node.name)["ports"][port]["priorities"][_checked(priority)]
        return found

    def snapshot(self, node: str) -> dict[str, Any]:
        """State and counters of all ports of a node, as its agent has them; times are the hardware's."""
        agents = self.running_agents()
        if node not in self.nodes:
            self.node(node)
            raise FabricError(f"{node} has no lossless ports; {nearest(node, self.nodes)}")
        found: dict[str, Any] = hardware_times(agents.snapshot(node), self._units_of_node(node))
        return found

    def _units_of_node(self, node: str) -> Scale:
        return next((port.units for port in self.ports.values() if port.node.name == node), Scale(1))

    def events(self) -> list[LoggedEvent]:
        """What agents logged so far: pauses sent and obeyed, thresholds, drops, storms."""
        return self.decoded(self._logged())

    def deadlocks(self) -> list[FoundDeadlock]:
        """The deadlocks that were found so far; only a topology with `deadlock_poll` looks for them."""
        kinds = (AgentEvent.DEADLOCK_DETECTED, AgentEvent.DEADLOCK_BROKEN)
        return found_deadlocks(self.decoded(record for record in self._logged() if record[1] in kinds))

    def decoded(self, records: Iterable[event_log.Record]) -> list[LoggedEvent]:
        """Records of agents' logs with the names of ports. Times in the details are the hardware's."""
        units = self.units  # of a network whose ports have different scales the largest, for an event may have no port
        return [
            replace(one, detail=hardware_times(one.detail, self._scale_of_slot(slot, units)))
            for one, slot in ((event_log.decoded(record, self._names), record[2]) for record in records)
        ]

    def _scale_of_slot(self, slot: int, default: Scale) -> Scale:
        return self.ports[slot].units if slot in self.ports else default

    def history(self, since_ns: int) -> Iterator[str]:
        """The same as lines for a run's event log, with times counted from `since_ns`."""
        return event_log.lines(self._logged(), self._names, since_ns)

    def _logged(self) -> list[event_log.Record]:
        return self.agents.records() if self.agents else self._records

    def dcbx(self, port: str) -> dict[str, Any]:
        """Every feature of DCBX at a port, as its agent has it; `testbed.dcbx.show` describes the fields."""
        state = self.port(port)
        found: dict[str, dict[str, Any]] = self.running_agents().dcbx(state.node.name)
        if port not in found:
            raise FabricError(f"{port} does not speak DCBX; give it settings: Port(...).with_dcbx()")
        shown: dict[str, Any] = hardware_times(found[port], state.units)
        return shown

    def vswitch(self, leaf: str) -> Vswitch:
        """Open vSwitch of a leaf."""
        if leaf not in self.vswitches:
            raise FabricError(f"{leaf} is not a leaf of a running network, so it has no Open vSwitch")
        return self.vswitches[leaf]

    def wan(self, router: str) -> dict[str, Any]:
        """What End.X.PFC does at a router: its tunnels, counters by SID and reason, and what filters have dropped."""
        found = self.snapshot(router)["wan"]
        if found is None:
            raise FabricError(f"{router} has no End.X.PFC")
        return {**found, "filtered": self.filtered(router)}

    def filtered(self, router: str) -> dict[str, int]:
        """What a router's filters of the SR domain have dropped, by reason."""
        ports = [port for port in self.ports.values() if port.node.name == router]
        if not ports:
            raise FabricError(f"there is no router {router} with lossless ports")
        return sr_filters.dropped(ports[0].node, [port.name for port in ports])

    def dcbx_log(self) -> list[dict[str, Any]]:
        """The DCBX log so far: one entry for each frame and each change, with the port's name."""
        return self.agents.dcbx_log() if self.agents else self._dcbx_log

    def dropped(self) -> int:
        """Frames that the buffers dropped, of any priority."""
        return sum(sum(group.dropped_frames) for group in self._groups(self.buffers, range(8)))

    def losses(self) -> dict[str, int] | None:
        """Return the numbers of frames that have been dropped so far or wait still, by reason, as counted.

        MAC control and LLDP are left out. None: some were lost without a counter, by a new ovs-vswitchd, or nothing
        counts, as nothing is attached to the ports.
        """
        program = self.running_program()
        if not self.agents or any(vswitch.restarts for vswitch in self.vswitches.values()):
            return None
        is_emptied = any(kind == AgentEvent.QUEUE_EMPTIED for _, kind, *_ in self._logged())
        with_queue = "queue that a watchdog or a lost link emptied" if is_emptied else "queue of a lost link"
        found: Counter[str] = Counter()
        for group in self._groups(self.buffers, range(8)):
            for reason, frames in zip(DROP_REASONS, group.dropped_frames, strict=True):
                found[f"buffer: {reason}"] += frames
        for slot in self.slots.values():
            port = program.port(slot)
            found["watchdog"] += sum(port.blocked_frames)
            found["VL 15"] += sum(port.vl15_frames)
            found["DCBX defense"] += sum(port.defended_frames)
            found[_NO_LINK] += port.died_frames.by_queue + port.died_frames.at_link
            found[with_queue] += port.died_frames.with_queue
            found["cable"] += port.died_frames.in_cable
        for vswitch in self.vswitches.values():
            found["Open vSwitch had no flow yet"] += vswitch.missed
        for ports in self.by_node().values():
            qdisc = qdiscs.counters(self.sockets.of(ports[0].node))
            found["ECN curve"] += qdisc["red"].dropped
            found["full queue"] += qdisc["plug"].dropped
            found["waiting"] += (qdisc["netem"] if "netem" in qdisc else qdisc["plug"]).waiting
        if self.cabling.socket:
            found["waiting"] += qdiscs.counters(self.cabling.socket)["netem"].waiting
        # Two of the ways to die by a queue have counters of their own. A qdisc in another one's place counts anew, so
        # that some can be among those without a link, but none is left out.
        found[_NO_LINK] -= found["ECN curve"] + found["full queue"]
        return {reason: frames for reason, frames in found.items() if frames > 0}

    def held(self, *priorities: int, by: Container[str] | None = None) -> int:
        """Cells in which frames of these priorities wait: in the buffers of some switches, or in all.

        A buffer as a whole (`buffer`) also holds frames of the kernels themselves, such as ARP, at any time.
        """
        return sum(sum(group.used) for group in self._groups(self.buffers if by is None else by, priorities))

    def _groups(self, switches: Container[str], priorities: Iterable[int]) -> Iterator[GroupCounters]:
        for port, priority in product(self.ports.values(), [_checked(priority) for priority in priorities]):
            if port.node.name in switches:
                yield self.running_program().buffers.group(port.slot, priority)

    def running_agents(self) -> Agents:
        if self.agents is None:
            raise FabricError("the network does not run")
        return self.agents

    def running_program(self) -> PortProgram:
        if self.program is None:
            raise FabricError("the network does not run")
        return self.program


def _checked(priority: int) -> int:
    if type(priority) is not int or priority not in range(8):
        raise FabricError(f"priority {priority!r} does not exist; there are 0 to 7")
    return priority
