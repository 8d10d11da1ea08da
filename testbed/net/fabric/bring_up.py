"""The set-up of a network's ports, in few large batches of requests, when all of its ports are known.

Only then can a port's headroom be computed from its cable. Each node gets its queues, its forwarding and the port
program; each switch and router gets its buffer. And each node's agent gets a plan, frozen data that it has when it is
forked.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from testbed import subject
from testbed.agent.pfc.lost_ways import WaysPlan
from testbed.agent.plan import AgentPlan, PartPlan, PortPlan
from testbed.errors import UsageError, warn
from testbed.linux.netlink import links
from testbed.linux.netlink.messages import Message
from testbed.linux.port_program import PortProgram, PortTables
from testbed.linux.process import kernel
from testbed.linux.vswitch import Bridge, Vswitch
from testbed.net.fabric.port import LAB_AGENT_REACTION, Port
from testbed.net.fabric.ports import (
    FabricError,
    NodeSockets,
    PortState,
    PortTable,
    bridges,
    forwards,
    is_leaf,
)
from testbed.net.fabric.queues import Queues
from testbed.net.fabric.routes import Graph
from testbed.net.fabric.switch_buffer import SwitchBuffer
from testbed.net.fabric.switch_ways import SwitchWays
from testbed.switch.buffer.settings import BufferSettings
from testbed.switch.pfc.line import octet_ps
from testbed.switch.priority.path import Disagreement, PathPort, check_paths
from testbed.units import Size

BRIDGE = 3000
"""The interface index of a switch's bridge, in the switch's namespace."""


class Mismatch(enum.StrEnum):
    """The ways to treat ports of a path that map priorities differently."""

    REFUSE = "refuse"
    WARN = "warn"
    IGNORE = "ignore"


def choose_queues(by_node: Mapping[str, list[PortState]]) -> None:
    """Give each port its settings and its queues."""
    for ports in by_node.values():
        frees = any(_is_direct_to_host(port) for port in ports)
        for port in ports:
            port.settings = (port.intf.settings or Port()).in_lab(port.units)
            program = None
            if port.settings.marking is not None:
                from testbed.net.fabric.rules import at_ports

                port.rule = at_ports.code_for(port, port.settings.marking)
                program = at_ports.program_of(port.rule)
            port.queues = Queues(
                port.interface,
                port.lab_cable.rate,
                port.settings,
                frees and forwards(port.node),
                port.lab_cable.mtu,
                line=port.line,
                rule=program,
            )


def check_priorities(
    table: PortTable, by_node: Mapping[str, list[PortState]], mismatch: Mismatch
) -> list[Disagreement]:
    """Compare the mappings of neighbouring ports, on a cable or in a switch: PFC works only if they are alike. A
    priority with credits is as lossless as one with PFC.

    Returns the disagreements, after a refusal or a warning as `mismatch` has it.
    """
    if mismatch is Mismatch.IGNORE:
        return []
    all_ports = [port for ports in by_node.values() for port in ports]
    # The result of DCBX is not known yet, so at ports with DCBX the mapping of all priorities counts.
    any_of = frozenset().union(*(port.settings.pfc.enabled for port in all_ports if port.settings))
    points = {
        port.slot: PathPort(
            port.name,
            port.settings.priorities,
            any_of
            if port.settings.dcbx and port.settings.dcbx.lossless is not None
            else port.settings.pfc.enabled | _with_credits(table, port),
        )
        for port in all_ports
        if port.settings
    }
    paths = []
    for ports in by_node.values():
        first = ports[0].slot
        for port in ports:
            if forwards(port.node):  # ports that agree with the first port agree with each other
                paths.append([points[port.slot ^ 1], points[port.slot], points[first], points[first ^ 1]])
            else:
                paths.append([points[port.slot], points[port.slot ^ 1]])
    disagreements = check_paths(path for path in paths if len(set(path)) == len(path))
    if disagreements and mismatch is Mismatch.REFUSE:
        raise FabricError("\n".join(map(str, disagreements)))
    for disagreement in disagreements:
        warn(str(disagreement))
    return disagreements


# Credits are read when a network has them: a module takes the lab's time, and other networks would begin later.


def _with_credits(table: PortTable, port: PortState) -> frozenset[int]:
    """Return the priorities of a port that have credits."""
    if not port.settings or port.settings.credits is None:
        return frozenset()
    from testbed.net.fabric.link.credits import shared_vcs

    return shared_vcs(table, port)


def _received(table: PortTable, port: PortState) -> Mapping[int, int]:
    """Return the credits of each virtual channel for what comes in at a port."""
    if not port.settings or port.settings.credits is None:
        return {}
    from testbed.net.fabric.link.credits import received

    return received(table, port)


class NodeSetup:
    """The set-up of nodes, one after the other. `buffers` has the buffers that it has divided."""

    def __init__(
        self, ports: PortTable, sockets: NodeSockets, program: PortProgram, graph: Graph, numbers: Mapping[str, int],
        *, ways: SwitchWays,
    ) -> None:  # fmt: skip
        self._ports, self._sockets = ports, sockets
        self._program = program
        self._graph = graph
        self._numbers = numbers
        self._by_node = ports.by_node()
        self.buffers: dict[str, tuple[SwitchBuffer, BufferSettings]] = {}
        self._ways = ways
        self._lacks_timers = False

    def set_up_buffer(self, name: str, ports: list[PortState], delays: memoryview) -> None:
        """Divide the buffer of a switch or router. A host has none."""
        if not forwards(ports[0].node):
            for port in ports:
                if port.settings and port.settings.dcbx and port.settings.dcbx.buffer_by_classes:
                    warn(f"{port.name}: buffer_by_classes has no effect, since a host has no buffer")
            return
        credits = {port.slot: _received(self._ports, port) for port in ports}
        buffer = SwitchBuffer.of(ports[0].buffer, ports, delays, credits)
        try:
            settings = buffer.settings()
        except UsageError as error:
            raise FabricError(f"switch {name}: {error}") from None
        self.buffers[name] = buffer, settings
        for text in settings.without_effect():
            warn(f"switch {name}: {text}")
        room = Size.from_bytes(sum(pool.total for pool in settings.pools) * settings.cell_bytes)
        for port in ports:
            assert port.queues is not None
            port.queues = replace(port.queues, buffer=room)
        layout = buffer.layout(settings)
        egress = [(*settings.egress_cells(pool), 0) for pool in range(len(settings.egress_pools))]
        self._program.buffers.set_buffer(self._numbers[name], settings.cell_bytes, layout.pools, egress)
        for (slot, priority), limits in layout.limits.items():
            self._program.buffers.set_group(slot, priority, limits)
        for (slot, queue), queue_limits in buffer.queues(settings).items():
            self._program.buffers.set_queue(slot, queue, queue_limits)

    def set_up_node(self, name: str, ports: list[PortState], attach: bool) -> None:
        """Set up a node's queues and forwarding; with `attach` also attach the port program."""
        node = ports[0].node
        requests: list[Message] = []
        for port in ports:
            assert port.queues is not None and port.settings is not None
            self._program.set_port(
                port.slot,
                PortTables(
                    node=self._numbers[name],
                    buffer=self._numbers[name] if name in self.buffers else None,
                    control=port.queues.control,
                    queues=port.queues.arrange().sockets,
                    priorities=port.settings.priorities.tables(),
                    switched=bridges(node) and not is_leaf(node),
                    routed=forwards(node) and not bridges(node),
                    steered=is_leaf(node),
                    counted=name in self.buffers and bool(self.buffers[name][1].queues),
                    pause=port.queues.pause,
                    octet_ps=self._octet_ps(port),
                    pause_ns=self._ports.pause_ns(port),
                ),
            )
            if self._program.dei:
                self._program.set_drop_eligible(port.slot, port.settings.priorities.dei_to_dot1p)
            if port.settings.telemetry and self._program.stampings is not None:
                self._program.stampings.set_rate(port.slot, port.lab_cable.rate.bps // 1000)
            if self._program.trimming_tables is not None and forwards(node):
                self._program.trimming_tables.set(port.slot, port.settings.trimming)
                self._program.trimming_tables.set_exceptions(port.slot, port.settings.trim_exceptions)
            requests += port.queues.messages()
        if bridges(node) and not is_leaf(node):
            requests.append(links.bridge(name, BRIDGE, ports[0].mac))
            requests += [links.quiet(BRIDGE), links.up(BRIDGE)]
            flooding, looped = self._graph.tree(name), self._graph.has_loop()
            for port in ports:
                requests.append(links.join(port.interface, BRIDGE))
                if port.name not in flooding:
                    requests.append(links.flooding(port.interface, False))
            ways = self._graph.next_hops(name)
            self.set_stations(name, ways)
            self._ways.make_groups(node, self._graph.equal_ways(name))
            self.set_equal_ways(name)
            if looped:
                requests += [
                    links.forward(self._ports.port(leaving).interface, state.mac)
                    for station, leaving in ways.items()
                    for state in self._stations(station)
                ]
        elif is_leaf(node):
            self._ways.note_leaf(node)
        else:
            if forwards(node):
                self._ways.note_router(node)
            requests += [request for port in ports for request in links.patient(port.interface)]
        requests += [links.up(port.interface) for port in ports]
        self._sockets.of(node).send(requests)
        if attach:
            self._sockets.inside(node, partial(self._attach, ports))

    def _attach(self, ports: list[PortState]) -> None:
        for port in ports:
            self._program.attach(port.slot)

    def _octet_ps(self, port: PortState) -> int:
        """Return the time of an octet on a line whose frames keep their cells; 0 if they give them back at once."""
        if not port.has_line:
            return 0
        if self._program.set_up_line(port.slot):
            return octet_ps(port.lab_cable.rate)
        if not self._lacks_timers:
            self._lacks_timers = True
            warn("this kernel has no timers for BPF, so the cells of a frame come free with its first bit")
        return 0

    def start_vswitch(self, name: str, ports: list[PortState]) -> Vswitch:
        """Start the Open vSwitch of a leaf."""
        node = ports[0].node
        controller = node.params.get("controller")
        if self._graph.has_loop() and (
            alone := [one for one in self._graph.forwarding if not self._is_controlled(one)]
        ):
            raise FabricError(
                f"the switches make a loop, and {min(alone)} has no controller that would keep Open vSwitch in {name} "
                "from sending broadcasts round it; give all of them one, as in "
                "LeafSpine(controller='unix:/run/controller'), or use addSwitch alone"
            )
        numbers = {port.name: port.number for port in ports}
        bridge = Bridge(name, self._numbers[name] + 1, ports[0].mac, numbers, controller)
        vswitch = Vswitch(bridge, node.pid)
        vswitch.start()
        return vswitch

    def _is_controlled(self, name: str) -> bool:
        node = self._by_node[name][0].node
        return is_leaf(node) and bool(node.params.get("controller"))

    def set_stations(self, switch: str, ways: Mapping[str, str]) -> None:
        """Fill the forwarding table of a switch; `ways` has the port that leads to each station."""
        for station, leaving in ways.items():
            for state in self._stations(station):
                self._program.set_station(self._numbers[switch], state.mac.octets, self._ports.port(leaving).slot)

    def set_equal_ways(self, switch: str) -> None:
        """Make a switch choose among equal ways, where it has them, in place of those of `set_stations`."""
        for station, group in self._ways.group_of.get(switch, {}).items():
            for state in self._stations(station):
                self._program.set_station_by_ways(self._numbers[switch], state.mac.octets, group)

    def _stations(self, node: str) -> list[PortState]:
        """Return the ports of a host or router, to whose addresses switches forward; a switch has none."""
        ports = self._by_node.get(node, [])
        return [] if ports and bridges(ports[0].node) else ports


def _is_direct_to_host(port: PortState) -> bool:
    """Return True if the cable leads to a host and frames are there at once."""
    link = port.intf.link
    far = link.intf2 if link.intf1 is port.intf else link.intf1
    return port.lab_cable.is_plain and not forwards(far.node)


MakePart = Callable[[PortTable, Sequence[PortState]], PartPlan | None]
"""A function that returns the plan of a subject's part for the node that has these ports; None if it has no part."""


def agent_plan(
    table: PortTable, number: int, ports: Sequence[PortState], buffer: SwitchBuffer | None, *,
    ways: Sequence[WaysPlan] = (),
) -> AgentPlan:  # fmt: skip
    """Return the plan of the node that has these ports; a node without a buffer is a host."""
    node = ports[0].node
    makers: list[MakePart] = list(subject.loaded("agent"))
    parts = tuple(part for make in makers if (part := make(table, ports)) is not None)
    notified = frozenset[int]().union(*(part.notified for part in parts))
    return AgentPlan(
        node=node.name,
        number=number,
        pid=node.pid,
        ports=tuple(_port_plan(table, port, buffer is not None, port.slot in notified) for port in ports),
        parts=parts,
        lay_out_buffer=buffer,
        ways=tuple(ways),
        warms_up=not kernel.cpu_work_takes_no_time(),
    )


def _port_plan(table: PortTable, port: PortState, charged: bool, notified: bool) -> PortPlan:
    assert port.queues is not None and port.settings is not None
    queues, settings = port.queues, port.settings
    reaction = settings.reaction or (LAB_AGENT_REACTION if kernel.cpu_work_takes_no_time() else None)
    sends_ns, stops_ns = (reaction.sends.ns, reaction.stops.ns) if reaction else (0, 0)
    far = table.far_end(port)
    return PortPlan(
        slot=port.slot,
        name=port.name,
        interface=port.interface,
        mac=port.mac,
        rate=port.lab_cable.rate,
        pfc=settings.pfc,
        has_buffer=charged,
        stop=tuple(queues.pausing(priority, True) for priority in range(8)),
        go=tuple(queues.pausing(priority, False) for priority in range(8)),
        empty=tuple(queues.emptied(priority) for priority in range(8)),
        local=settings.priorities.pause_to_local,
        arrange=queues.arrange,
        notifies_speaker=notified,
        response_delay_ns=settings.obeys_after.ns,
        xoff_delay_ns=sends_ns,
        stop_delay_ns=stops_ns,
        xoff_allowed_ns=max(sends_ns, port.buffer.lab_response(port.units).ns),
        stop_allowed_ns=max(stops_ns, far.buffer.lab_response(far.units).ns),
        pause_ns=table.pause_ns(port),
    )
