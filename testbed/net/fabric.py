"""Everything below Mininet's objects that makes a network lossless: cables, queues, port program, buffers, agents.

Links are made at once, when Mininet asks for them. The rest of a network is set up in `start`, in few large batches
of requests, when all ports are known: it is also the moment when a port's headroom can be computed from its cable.
There is one fabric per process at a time, as there is one network.
"""

from __future__ import annotations

import enum
import mmap
import os
import sys
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from types import MappingProxyType
from typing import Any

from testbed.agent import event_log
from testbed.agent.agents import Agents
from testbed.agent.event_log import LoggedEvent
from testbed.agent.events import AgentEvent
from testbed.agent.plan import AgentError, AgentPlan, BufferLayout, DcbxPlan, HeadroomPlan, PortPlan
from testbed.buffer.settings import BufferSettings, Dynamic, GroupSettings, Static
from testbed.dcbx.settings import DcbxSettings, PortIdentity
from testbed.errors import UsageError, listed, nearest
from testbed.frames import Mac
from testbed.frames.lldp import ChassisId, PortId
from testbed.frames.lldp_tlvs import Text, TextKind
from testbed.headroom.exchange import Settings as MeasurementSettings
from testbed.linux import kernel, links, qdiscs
from testbed.linux.netlink import Message, Socket
from testbed.linux.port_program import (
    DROP_REASONS,
    FIRST_INTERFACE,
    SLOTS,
    BufferCounters,
    GroupCounters,
    GroupLimits,
    PortCounters,
    PortProgram,
    PortTables,
)
from testbed.linux.vswitch import Bridge, Vswitch
from testbed.net import sr_filters
from testbed.net.cable import Cable
from testbed.net.port import AGENT_REACTION, MEASUREMENT, Buffer, Port, PortNeeds
from testbed.net.queues import Queues
from testbed.net.routes import Graph
from testbed.net.srv6 import Wan
from testbed.priority.path import Disagreement, PathPort, check_paths
from testbed.units import Duration, Scale

BRIDGE = 3000
"""Interface index of a switch's bridge, in its own namespace."""
_CABLES = 2 * FIRST_INTERFACE
_LOCAL_MACS = 0x02_58_00_00_00_00
_URGENCY = 45
"""How a change in a running network is made: the kernel makes one at a time, and an agent that is to stop a queue waits
for the one at work. So whoever is less urgent than agents must not keep that one from its end."""
_MEASURING_NS = 2_000_000
"""A request and its answer take the lab's CPU about a millisecond: all ports together ask no more often than this."""


class FabricError(UsageError):
    """A network that cannot be built as it was asked for."""


class Mismatch(enum.StrEnum):
    """What to do about ports of a path that map priorities differently."""

    REFUSE = "refuse"
    WARN = "warn"
    IGNORE = "ignore"


@dataclass
class PortState:
    """One port of the network."""

    slot: int
    intf: Any  # Mininet's object
    mac: Mac
    cable: Cable
    """On the lab's scale."""
    scale: Scale = Scale(1)
    queues: Queues | None = None
    settings: Port | None = None

    @property
    def node(self) -> Any:
        return self.intf.node

    @property
    def name(self) -> str:
        name: str = self.intf.name
        return name

    @property
    def interface(self) -> int:
        return FIRST_INTERFACE + self.slot


class Fabric:
    """What the ports of one network share."""

    _current: Fabric | None = None

    @classmethod
    def current(cls) -> Fabric:
        """The fabric of the network that is being built, or runs."""
        if cls._current is None:
            cls._current = cls()
        return cls._current

    @classmethod
    def running(cls) -> Fabric | None:
        """The same; None if there is none."""
        return cls._current

    def __init__(self) -> None:
        self.ports: dict[int, PortState] = {}
        self.known_nodes: Mapping[str, Any] = {}
        """Mininet's nodes, also those without lossless ports."""
        self._by_name: dict[str, int] = {}
        self.links: list[Any] = []
        self.program: PortProgram | None = None
        self.agents: Agents | None = None
        self.buffers: dict[str, BufferSettings] = {}
        self.nodes: dict[str, int] = {}
        """The number of each node; its ring and, for a switch, its buffer have it too."""
        self._vswitches: dict[str, Vswitch] = {}
        self._sockets: dict[str, Socket] = {}
        self._cable_namespace: int | None = None
        self._cable_socket: Socket | None = None
        self._cable_ends: list[int] = []
        self._pulled: set[int] = set()
        """The lower slot of each cable that is out."""
        self._down: set[int] = set()
        """Slots of ports that were set down."""
        self._delays = memoryview(mmap.mmap(-1, SLOTS * 8)).cast("q")
        """Of each port's cable, in ps: memory that agents have too, which were forked before a cable is changed."""
        self._next_slot = 0
        self._pending: dict[int, tuple[Mac, Cable]] = {}
        self._dcbx_log: list[dict[str, Any]] = []
        self._records: list[event_log.Record] = []
        self._names: dict[int, str] = {}
        self.lost = 0
        """Datagrams that flows have lost so far."""
        self._destroyed = False
        """Has a port been set down, or a cable pulled? Both destroy frames that nobody counts."""
        self.lateness_ns = 0
        """How late an agent was woken at worst; known when the network has stopped."""
        self.queues_only = False
        """Leave out port program and agents, to see what they cost."""
        self.mismatch = Mismatch.REFUSE
        self.disagreements: list[Disagreement] = []
        """Where priorities are mapped differently along a path, so that PFC cannot work."""

    # Links, while the network is being built

    def connect(
        self, one: tuple[Any, str, str | None], other: tuple[Any, str, str | None], cable: Cable
    ) -> tuple[int, int]:
        """Lay a cable, on the lab's scale, between two nodes: (node, interface's name, address). Returns the slots."""
        if self.program is not None:
            raise FabricError(
                f"{one[1]} and {other[1]}: the network runs, and a cable laid now would be no lossless one; "
                "add it to the topology"
            )
        slots = self._next_slot, self._next_slot + 1
        if slots[1] >= SLOTS:
            raise FabricError(f"a network has at most {SLOTS} lossless ports; this one wants more")
        self._next_slot += 2
        ends = []
        for slot, (node, name, mac) in zip(slots, (one, other), strict=True):
            address = Mac.parse(mac) if mac else Mac((_LOCAL_MACS + slot).to_bytes(6, "big"))
            queues = 1 if _forwards(node) else 9
            ends.append(links.End(name, FIRST_INTERFACE + slot, _namespace_of(node), address, queues))
            self._pending[slot] = address, cable
        try:
            if cable.delay.ps or cable.loss:
                self._lay(slots[0], ends[0], ends[1], cable)
            else:
                self.socket(one[0]).send([links.pair(ends[0], ends[1])])
            for end, (node, _, _) in zip(ends, (one, other), strict=True):
                self.socket(node).send([links.quiet(end.index)])
        finally:
            for end in ends:
                os.close(end.namespace)
        return slots

    def _lay(self, slot: int, one: links.End, other: links.End, cable: Cable) -> None:
        """A cable with a middle: a namespace that all cables share."""
        if self._cable_namespace is None or self._cable_socket is None:
            self._cable_namespace = kernel.new_network()
            with kernel.in_network(self._cable_namespace):
                self._cable_socket = Socket()
        middle = [
            links.End(f"{end.name}~", _CABLES + slot + number, self._cable_namespace)
            for number, end in enumerate((one, other))
        ]
        loss = round(cable.loss * (2**32 - 1))
        requests = [links.pair(middle[0], one), links.pair(middle[1], other)]
        for end in middle:
            requests.append(qdiscs.netem(end.index, qdiscs.handle(1), cable.delay, loss=loss, seed=end.index))
            requests += [links.quiet(end.index), links.up(end.index)]
            self._cable_ends.append(end.index)
        self._cable_socket.send(requests)

    def add(self, link: Any) -> None:
        """Mininet's object of a cable that `connect` laid."""
        self.links.append(link)
        for intf in (link.intf1, link.intf2):
            mac, cable = self._pending.pop(intf.slot)
            intf.mac = str(mac)
            self.ports[intf.slot] = PortState(intf.slot, intf, mac, cable, link.scale)
            self._delays[intf.slot] = cable.delay.ps
            self._by_name[intf.name] = intf.slot

    def set_mac(self, intf: Any, mac: Mac) -> None:
        self._send(intf, links.address_of(FIRST_INTERFACE + intf.slot, mac))
        if intf.slot in self.ports:
            self.ports[intf.slot].mac = mac
            if self.program is not None:
                graph = Graph.of(self.links)
                for switch in graph.forwarding - self._vswitches.keys():
                    self._tell_ways(self.program, switch, graph.next_hops(switch))

    def add_address(self, intf: Any, address: str) -> None:
        self._send(intf, links.up(FIRST_INTERFACE + intf.slot))
        self._send(intf, links.address(FIRST_INTERFACE + intf.slot, address))

    def remove_address(self, intf: Any, address: str) -> None:
        self._send(intf, links.address(FIRST_INTERFACE + intf.slot, address, remove=True))

    def set_up(self, intf: Any, is_up: bool) -> None:
        """Set a port up or down; the far end has no carrier while it is down."""
        self._send(intf, links.up(FIRST_INTERFACE + intf.slot, is_up))
        self._destroyed = self._destroyed or not is_up
        if is_up == (intf.slot in self._down):
            (self._down.discard if is_up else self._down.add)(intf.slot)
            self._set_carriers(intf.slot)

    def _set_carriers(self, slot: int) -> None:
        """An end of a cable with a middle has a carrier if the cable is in and the port at the other end is up."""
        if self._cable_socket is None or _CABLES + slot not in self._cable_ends:
            return
        with kernel.urgently(_URGENCY):
            self._cable_socket.send(
                links.up(_CABLES + end, slot & ~1 not in self._pulled and end ^ 1 not in self._down)
                for end in (slot, slot ^ 1)
            )

    def remove(self, intf: Any) -> None:
        """Take a port away; its cable goes with it."""
        self._send(intf, links.delete(FIRST_INTERFACE + intf.slot))
        self.ports.pop(intf.slot, None)
        self.links = [link for link in self.links if link is not intf.link]

    # What there is to see

    def port(self, name: str) -> PortState:
        """A port by its interface's name, as in s1-eth2."""
        slot = self._by_name.get(name)
        if slot is not None and slot in self.ports:
            return self.ports[slot]
        raise FabricError(f"there is no lossless port {name}; {nearest(name, self.names())}")

    def node(self, node: Any) -> Any:
        """A node of the network by its name; Mininet's own object passes through."""
        if not isinstance(node, str):
            if not hasattr(node, "pid"):
                raise FabricError(
                    f"{node!r} is no node; a name is expected, as in 'h1', or Mininet's object, net['h1']"
                )
            return node
        known = {port.node.name: port.node for port in self.ports.values()} | dict(self.known_nodes)
        if node not in known:
            raise FabricError(f"there is no node {node} in this network; {nearest(node, known)}")
        return known[node]

    def names(self) -> list[str]:
        return [port.name for port in self.ports.values()]

    def between(self, node: str, neighbour: str) -> PortState:
        """The port of a node that leads to a neighbour; of several the first."""
        for port in self.ports.values():
            if port.node.name == node and self.far_end(port).node.name == neighbour:
                return port
        for name in (node, neighbour):
            self.node(name)  # it has the better message if there is none
        raise FabricError(f"{node} has no lossless cable to {neighbour}")

    def far_end(self, port: PortState) -> PortState:
        """The port at the other end of the cable."""
        return self.ports[port.slot ^ 1]

    def group(self, port: str, priority: int) -> GroupCounters:
        """What the buffer counted for a priority that came in by a port of a switch."""
        return self._running().group(self.port(port).slot, _checked(priority))

    def limits(self, port: str, priority: int) -> GroupLimits:
        """What holds at this moment for a priority that comes in by a port of a switch, in cells."""
        return self._running().limits(self.port(port).slot, _checked(priority))

    def sent(self, port: str) -> PortCounters:
        """What was put into a port's queues."""
        return self._running().port(self.port(port).slot)

    def buffer(self, switch: str) -> BufferCounters:
        """A switch's pools."""
        if switch not in self.buffers:
            self.node(switch)
            raise FabricError(f"{switch} has no buffer; {listed(self.buffers)} have")
        return self._running().buffer(self.nodes[switch])

    def pfc(self, port: str, priority: int) -> dict[str, Any]:
        """State and counters of PFC for a priority of a port, as its agent has them."""
        state = self.port(port)
        found: dict[str, Any] = self.snapshot(state.node.name)["ports"][port]["priorities"][_checked(priority)]
        return found

    def snapshot(self, node: str) -> dict[str, Any]:
        """State and counters of all ports of a node, as its agent has them."""
        agents = self._agents()
        if node not in self.nodes:
            self.node(node)
            raise FabricError(f"{node} has no lossless ports; {nearest(node, self.nodes)}")
        return agents.snapshot(node)

    def events(self) -> list[LoggedEvent]:
        """What agents logged so far: pauses sent and obeyed, thresholds, drops, storms."""
        return [event_log.decoded(record, self._names) for record in self._logged()]

    def history(self, since_ns: int) -> Iterator[str]:
        """The same as lines for a run's event log, with times counted from `since_ns`."""
        return event_log.lines(self._logged(), self._names, since_ns)

    def _logged(self) -> list[event_log.Record]:
        return self.agents.records() if self.agents else self._records

    def dcbx(self, port: str) -> dict[str, Any]:
        """Every feature of DCBX at a port, as its agent has it; `testbed.dcbx.show` says what is in it."""
        found: dict[str, dict[str, Any]] = self._agents().dcbx(self.port(port).node.name)
        if port not in found:
            raise FabricError(f"{port} does not speak DCBX; give it settings: Port(...).with_dcbx()")
        return found[port]

    def configure_dcbx(self, port: str, settings: DcbxSettings | None) -> None:
        """Other settings for a port while it runs; None: DCBX off."""
        self._agents().configure_dcbx(self.port(port).node.name, port, settings)

    def vswitch(self, leaf: str) -> Vswitch:
        """Open vSwitch of a leaf."""
        if leaf not in self._vswitches:
            raise FabricError(f"{leaf} is no leaf of a running network, so it has no Open vSwitch")
        return self._vswitches[leaf]

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

    def measure(self, port: str) -> None:
        """Have a port measure its headroom now; `dcbx` says what comes out."""
        self._agents().measure(self.port(port).node.name, port)

    def change_delay(self, port: str, delay: Duration) -> None:
        """Another length of the cable at a port, in the lab's time, one way, while the network runs. Frames that are in
        it arrive as they would have. A cable that was laid without any delay cannot get one.
        """
        state = self.port(port)
        far = self.far_end(state)
        if self._cable_socket is None or not (state.cable.delay.ps or state.cable.loss):
            raise FabricError(f"the cable of {port} was laid without a delay, so it cannot get another one")
        loss = round(state.cable.loss * (2**32 - 1))
        ends = [_CABLES + slot for slot in (state.slot, far.slot)]
        with kernel.urgently(_URGENCY):
            self._cable_socket.send(qdiscs.netem(end, qdiscs.handle(1), delay, loss=loss, seed=end) for end in ends)
        state.cable = far.cable = state.cable.with_delay(delay)
        self._delays[state.slot] = self._delays[far.slot] = delay.ps

    def pull(self, port: str) -> None:
        """Take the cable at a port out: both ends lose their carrier, and what is in the cable is lost. The ports stay
        as they are, with addresses and routes. A cable that was laid without any delay cannot be taken out.
        """
        self._plug(port, False)
        self._destroyed = True

    def plug(self, port: str) -> None:
        """Put the cable at a port in again."""
        self._plug(port, True)

    def _plug(self, port: str, is_in: bool) -> None:
        state = self.port(port)
        if self._cable_socket is None or not (state.cable.delay.ps or state.cable.loss):
            raise FabricError(
                f"the cable of {port} was laid without a delay, so it cannot be pulled; set the link down"
            )
        (self._pulled.discard if is_in else self._pulled.add)(state.slot & ~1)
        self._set_carriers(state.slot)

    def dcbx_log(self) -> list[dict[str, Any]]:
        """What was said and decided in DCBX so far: one entry for each frame and each change, with the port's name."""
        return self.agents.dcbx_log() if self.agents else self._dcbx_log

    def dropped(self) -> int:
        """Frames that the buffers dropped, of any priority."""
        return sum(sum(group.dropped_frames) for group in self._groups(self.buffers, range(8)))

    def losses(self) -> dict[str, int] | None:
        """Where frames have been dropped so far, of any kind, or wait still: their numbers by reason, as counted. None:
        some were lost that nobody counts, by a lost link, a watchdog that emptied a queue, or a new ovs-vswitchd.
        """
        if self._destroyed or any(kind == AgentEvent.QUEUE_EMPTIED for _, kind, *_ in self._logged()):
            return None
        if any(vswitch.restarts for vswitch in self._vswitches.values()):
            return None
        found: Counter[str] = Counter()
        for group in self._groups(self.buffers, range(8)):
            for reason, frames in zip(DROP_REASONS, group.dropped_frames, strict=True):
                found[f"buffer: {reason}"] += frames
        for name in self.names():
            port = self.sent(name)
            found["watchdog"] += sum(port.blocked_frames)
            found["DCBX defense"] += sum(port.defended_frames)
        sockets = [self.socket(port.node) for port in {port.node.name: port for port in self.ports.values()}.values()]
        for vswitch in self._vswitches.values():
            found["Open vSwitch had no flow yet"] += vswitch.missed
        for socket in (*sockets, *([self._cable_socket] if self._cable_socket else [])):
            for kind, (waiting, dropped) in qdiscs.counters(socket).items():
                if kind in ("red", "netem"):
                    found[{"red": "ECN curve", "netem": "cable"}[kind]] += dropped
                if kind in ("plug", "netem"):
                    found["waiting"] += waiting
        return {reason: frames for reason, frames in found.items() if frames}

    def held(self, *priorities: int, by: Container[str] | None = None) -> int:
        """Cells in which frames of these priorities wait: in the buffers of some switches, or in all.

        A buffer as a whole (`buffer`) also holds what the kernels say to each other, like ARP, at any time.
        """
        return sum(sum(group.used) for group in self._groups(self.buffers if by is None else by, priorities))

    def _groups(self, switches: Container[str], priorities: Iterable[int]) -> Iterator[GroupCounters]:
        for port, priority in product(self.ports.values(), [_checked(priority) for priority in priorities]):
            if port.node.name in switches:
                yield self._running().group(port.slot, priority)

    def _agents(self) -> Agents:
        if self.agents is None:
            raise FabricError("the network does not run")
        return self.agents

    def _running(self) -> PortProgram:
        if self.program is None:
            raise FabricError("the network does not run")
        return self.program

    # The whole network

    def start(self) -> None:
        """Make all ports lossless and start the agents; a second call does nothing."""
        if self.program is not None or not self.ports:
            return
        try:
            self.program = program = PortProgram()
            by_node: dict[str, list[PortState]] = {}
            for port in self.ports.values():
                port.settings = port.intf.settings or Port()
                by_node.setdefault(port.node.name, []).append(port)
            for ports in by_node.values():
                frees = any(_is_direct_to_host(port) for port in ports)
                for port in ports:
                    assert port.settings is not None
                    is_host = not _forwards(port.node)
                    port.queues = Queues(port.interface, port.cable.rate, port.settings, is_host, frees and not is_host)
            self._check_priorities(by_node)
            self.nodes = {name: number for number, name in enumerate(by_node)}
            self._set_up_buffers(by_node)
            graph = Graph.of(self.links)
            for name, ports in by_node.items():
                self._set_up_node(name, ports, graph)
            for name, ports in by_node.items():
                if _is_steered(ports[0].node):
                    self._start_vswitch(name, ports, graph)
            if self._cable_namespace is not None:
                with kernel.in_network(self._cable_namespace):
                    for interface in self._cable_ends:
                        program.attach_cable_end(interface)
            if not self.queues_only:
                program.watch_queues()
                self._names = {port.slot: port.name for port in self.ports.values()}
                self.agents = Agents([self._agent_of(name, ports) for name, ports in by_node.items()], program)
                self.agents.start()
            for vswitch in self._vswitches.values():
                vswitch.watch()
        except BaseException:
            self.stop()
            raise

    def _check_priorities(self, by_node: Mapping[str, list[PortState]]) -> None:
        """Ports that are neighbours, on a cable or in a switch, have to map alike, or PFC silently fails."""
        if self.mismatch is Mismatch.IGNORE:
            return
        # What ports with DCBX agree on is not known yet: there only the mapping counts, for all that may come of it.
        any_of = frozenset().union(*(port.settings.pfc.enabled for port in self.ports.values() if port.settings))
        points = {
            port.slot: PathPort(
                port.name,
                port.settings.priorities,
                any_of if port.settings.dcbx and port.settings.dcbx.pfc else port.settings.pfc.enabled,
            )
            for port in self.ports.values()
            if port.settings
        }
        paths = []
        for ports in by_node.values():
            first = ports[0].slot
            for port in ports:
                if _forwards(port.node):  # what agrees with the first port agrees with each other
                    paths.append([points[port.slot ^ 1], points[port.slot], points[first], points[first ^ 1]])
                else:
                    paths.append([points[port.slot], points[port.slot ^ 1]])
        self.disagreements = check_paths(path for path in paths if len(set(path)) == len(path))
        if self.disagreements and self.mismatch is Mismatch.REFUSE:
            raise FabricError("\n".join(map(str, self.disagreements)))
        for disagreement in self.disagreements:
            print(f"warning: {disagreement}", file=sys.stderr)

    def _set_up_buffers(self, by_node: Mapping[str, list[PortState]]) -> None:
        assert self.program is not None
        for name, ports in by_node.items():
            node = ports[0].node
            if not _forwards(node):
                continue
            wanted: Buffer = node.params.get("buffer") or Buffer()
            try:
                settings = self._divided(wanted, ports)
            except UsageError as error:
                raise FabricError(f"switch {name}: {error}") from None
            self.buffers[name] = settings
            index = self.nodes[name]
            self.program.set_buffer(
                index, settings.cell_bytes, settings.guaranteed_cells, settings.shared_cells, settings.headroom_cells
            )
            slots = {node.ports[port.intf]: port.slot for port in ports}
            for (number, priority), group in settings.all_groups().items():
                self.program.set_group(slots[number], priority, _limits(group))

    def _divided(
        self,
        buffer: Buffer,
        ports: list[PortState],
        lossless: Mapping[int, int] | None = None,
        measured: Mapping[int, int] = MappingProxyType({}),
    ) -> BufferSettings:
        """A switch's buffer as its ports need it; `lossless`: with these priorities, as a mask for each slot, and
        `measured` headrooms, in cells.
        """
        needs, number_of = {}, ports[0].node.ports
        for port in ports:
            assert port.settings is not None
            enabled = port.settings.pfc.enabled
            if lossless is not None:
                enabled = frozenset(priority for priority in range(8) if lossless[port.slot] >> priority & 1)
            needs[number_of[port.intf]] = PortNeeds(
                enabled,
                port.cable.rate,
                Duration.from_ps(self._delays[port.slot]),
                negotiated=port.settings.dcbx is not None,
                measured=measured.get(port.slot),
            )
        return buffer.settings(needs)

    def _division(
        self, buffer: Buffer, ports: list[PortState], lossless: Mapping[int, int], measured: Mapping[int, int]
    ) -> BufferLayout:
        settings = self._divided(buffer, ports, lossless, measured)
        slots = {port.node.ports[port.intf]: port.slot for port in ports}
        return BufferLayout(
            (settings.guaranteed_cells, settings.shared_cells, settings.headroom_cells),
            {(slots[number], priority): _limits(group) for (number, priority), group in settings.all_groups().items()},
        )

    def _set_up_node(self, name: str, ports: list[PortState], graph: Graph) -> None:
        assert self.program is not None
        node = ports[0].node
        requests: list[Message] = []
        for port in ports:
            assert port.queues is not None and port.settings is not None
            self.program.set_port(
                port.slot,
                PortTables(
                    node=self.nodes[name],
                    buffer=self.nodes[name] if name in self.buffers else None,
                    control=port.queues.control,
                    queues=port.queues.arrange().sockets,
                    priorities=port.settings.priorities.tables(),
                    switched=_bridges(node) and not _is_steered(node),
                    routed=_forwards(node) and not _bridges(node),
                    steered=_is_steered(node),
                ),
            )
            requests += port.queues.messages()
        if _bridges(node) and not _is_steered(node):
            requests.append(links.bridge(name, BRIDGE, ports[0].mac))
            requests += [links.quiet(BRIDGE), links.up(BRIDGE)]
            flooding, looped = graph.tree(name), graph.has_loop()
            for port in ports:
                requests.append(links.join(port.interface, BRIDGE))
                if port.name not in flooding:
                    requests.append(links.flooding(port.interface, False))
            ways = graph.next_hops(name)
            self._tell_ways(self.program, name, ways)
            if looped:
                requests += [
                    links.forward(self.port(leaving).interface, state.mac)
                    for station, leaving in ways.items()
                    for state in self._stations(station)
                ]
        elif not _bridges(node):
            requests += [request for port in ports for request in links.patient(port.interface)]
        requests += [links.up(port.interface) for port in ports]
        self.socket(node).send(requests)
        if not self.queues_only:
            with kernel.in_network_of(node.pid):
                for port in ports:
                    self.program.attach(port.slot)

    def _start_vswitch(self, name: str, ports: list[PortState], graph: Graph) -> None:
        if graph.has_loop():
            raise FabricError(
                f"the switches make a loop, round which Open vSwitch in {name} would send broadcasts; build none"
            )
        node = ports[0].node
        numbers = {port.name: node.ports[port.intf] for port in ports}
        bridge = Bridge(name, self.nodes[name] + 1, ports[0].mac, numbers, node.params.get("controller"))
        vswitch = self._vswitches[name] = Vswitch(bridge, node.pid)
        vswitch.start()

    def _tell_ways(self, program: PortProgram, switch: str, ways: Mapping[str, str]) -> None:
        """Fill a switch's forwarding table: {station: the name of the port that leads to it}."""
        for station, leaving in ways.items():
            for state in self._stations(station):
                program.set_station(self.nodes[switch], state.mac.octets, self.port(leaving).slot)

    def _stations(self, node: str) -> list[PortState]:
        """The ports of a host or router, whose addresses switches forward to."""
        return [port for port in self.ports.values() if port.node.name == node and not _bridges(port.node)]

    def _agent_of(self, name: str, ports: list[PortState]) -> AgentPlan:
        node = ports[0].node
        divide = None
        if name in self.buffers:
            divide = partial(self._division, node.params.get("buffer") or Buffer(), ports)
        chassis = ChassisId.of_mac(ports[0].mac)
        wan: Wan | None = node.params.get("wan")
        return AgentPlan(
            node=name,
            number=self.nodes[name],
            pid=node.pid,
            ports=tuple(self._port_plan(port, chassis, wan) for port in ports),
            wan=wan.plan if wan else None,
            divide=divide,
        )

    def _measurement(self, port: PortState) -> MeasurementSettings:
        """How a port measures, in this network."""
        assert port.settings is not None
        chosen = port.settings.measurement
        if chosen is MEASUREMENT:
            all_of_us = sum(bool(one.settings and one.settings.measures) for one in self.ports.values())
            chosen = replace(chosen, interval_ns=max(chosen.interval_ns, all_of_us * _MEASURING_NS))
        return replace(chosen, timeout_ns=chosen.timeout_ns + 2 * port.cable.delay.ns)

    def _port_plan(self, port: PortState, chassis: ChassisId, wan: Wan | None) -> PortPlan:
        assert port.queues is not None and port.settings is not None
        queues, settings = port.queues, port.settings
        dcbx = None
        if settings.dcbx:
            names = {TextKind.PORT_DESCRIPTION: port.name, TextKind.SYSTEM_NAME: port.node.name}
            said = tuple(Text(kind, name.encode()) for kind, name in names.items())
            identity = PortIdentity(port.mac, chassis, PortId.interface(port.name), said)
            dcbx = DcbxPlan(identity, settings.dcbx, settings.lldp, port.scale)
        headroom = None
        if settings.measures:
            buffer: Buffer = port.node.params.get("buffer") or Buffer()
            cells = partial(buffer.measured_headroom, port.cable.rate, queues.mtu)
            seed = port.slot.to_bytes(4, "big") + port.mac.octets  # nobody guesses in a lab, and runs repeat
            headroom = HeadroomPlan(self._measurement(port), settings.measurement_key, seed, cells)
        reaction = settings.reaction or (AGENT_REACTION if kernel.cpu_is_free() else None)
        return PortPlan(
            slot=port.slot,
            name=port.name,
            interface=port.interface,
            mac=port.mac,
            rate=port.cable.rate,
            pfc=port.settings.pfc,
            charged=port.node.name in self.buffers,
            stop=tuple(queues.pausing(priority, True) for priority in range(8)),
            go=tuple(queues.pausing(priority, False) for priority in range(8)),
            empty=tuple(queues.emptied(priority) for priority in range(8)),
            local=tuple(settings.priorities.dot1p_to_local[priority] for priority in range(8)),
            arrange=queues.arrange,
            dcbx=dcbx,
            headroom=headroom,
            tells=bool(wan and port.name in wan.interfaces),
            cells_for=partial(
                (port.node.params.get("buffer") or Buffer()).measured_headroom, port.cable.rate, queues.mtu
            )
            if wan and wan.plan.measures and port.name in wan.interfaces
            else None,
            obeys_after_ns=settings.obeys_after.ns,
            sends_after_ns=reaction.sends.ns if reaction else 0,
            stops_after_ns=reaction.stops.ns if reaction else 0,
        )

    def stop(self) -> None:
        """End the agents and take the program off all ports; a second call does nothing."""
        if self.agents:
            with suppress(AgentError):
                self.lateness_ns = max(self.snapshot(node)["worst_lateness_ns"] for node in self.nodes)
            self.agents.stop()
            self._records, self._dcbx_log = self.agents.records(), self.agents.dcbx_log()
            self.agents.close()
            self.agents = None
        for vswitch in self._vswitches.values():
            vswitch.stop()
        self._vswitches.clear()
        if self.program:
            self.program.close()
            self.program = None
        for socket in self._sockets.values():
            socket.close()
        self._sockets.clear()
        if self._cable_socket:
            self._cable_socket.close()
            self._cable_socket = None
        if self._cable_namespace is not None:
            os.close(self._cable_namespace)
            self._cable_namespace = None
        if Fabric._current is self:
            Fabric._current = None

    def socket(self, node: Any) -> Socket:
        """For requests in a node's namespace."""
        socket = self._sockets.get(node.name)
        if socket is None:
            with kernel.in_network_of(node.pid):
                socket = self._sockets[node.name] = Socket()
        return socket

    def _send(self, intf: Any, *requests: Message) -> None:
        with kernel.urgently(_URGENCY):
            self.socket(intf.node).send(requests)


def _namespace_of(node: Any) -> int:
    return os.open(f"/proc/{node.pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)


def _checked(priority: int) -> int:
    if type(priority) is not int or priority not in range(8):
        raise FabricError(f"priority {priority!r} does not exist; there are 0 to 7")
    return priority


def _limits(group: GroupSettings) -> GroupLimits:
    static = group.threshold.cells if isinstance(group.threshold, Static) else 0
    alpha = group.threshold.alpha if isinstance(group.threshold, Dynamic) else None
    return GroupLimits(group.lossless, group.guaranteed, static, alpha, group.xon_offset, group.headroom)


def _is_direct_to_host(port: PortState) -> bool:
    """Is there a host at the other end, and nothing between?"""
    link = port.intf.link
    far = link.intf2 if link.intf1 is port.intf else link.intf1
    return not (port.cable.delay.ps or port.cable.loss or _forwards(far.node))


def _forwards(node: Any) -> bool:
    """Does the node pass frames on, so that it has a buffer and shares its lines?"""
    return bool(getattr(node, "forwards", False))


def _bridges(node: Any) -> bool:
    return bool(getattr(node, "bridges", False))


def _is_steered(node: Any) -> bool:
    """Is its forwarding Open vSwitch's?"""
    return bool(getattr(node, "steered", False))
