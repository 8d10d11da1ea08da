"""Everything below Mininet's objects that makes a network lossless: cables, queues, port program, buffers, agents.

Links are made at once, when Mininet asks for them (`cabling`). The rest is set up in `start` (`bring_up`,
`agent_plans`). What a running network shows is in `inspection`. There is one fabric per process at a time, as there is
one network.
"""

from __future__ import annotations

from typing import Any

from testbed.agent.agents import Agents
from testbed.dcbx.settings import DcbxSettings
from testbed.frames import Mac
from testbed.linux.port_program import PortProgram
from testbed.linux.process.beside import Beside
from testbed.net.fabric import bring_up, deadlocks
from testbed.net.fabric.agent_plans import agent_plan
from testbed.net.fabric.bring_up import Mismatch, NodeSetup
from testbed.net.fabric.inspection import Inspection
from testbed.net.fabric.marks import Unmarked, unmarked
from testbed.net.fabric.ports import FabricError, PortState, is_leaf
from testbed.net.fabric.routes import Graph
from testbed.switch.priority.path import Disagreement
from testbed.units import Duration

__all__ = ["Fabric", "FabricError", "Mismatch", "PortState"]


class Fabric(Inspection):
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
        super().__init__()
        self.lateness_ns = 0
        """How late an agent was woken at worst; known when the network has stopped."""
        self.queues_only = False
        """Leave out port program and agents, to measure what they cost."""
        self.mismatch = Mismatch.REFUSE
        self.deadlock_poll: Duration | None = None
        """The interval, in the lab, of looking for deadlocks; None: never."""
        self._watching: Beside | None = None
        self._graph = Graph()
        """Known when the network has started; then no cable is laid any more."""
        self.disagreements: list[Disagreement] = []
        """Where priorities are mapped differently along a path, so that PFC cannot work."""

    def start(self) -> None:
        """Make all ports lossless and start the agents; a second call does nothing."""
        if self.program is not None or not self.ports:
            return
        try:
            self.program = program = PortProgram(waits=self.deadlock_poll is not None)
            by_node = self.by_node()
            bring_up.choose_queues(by_node)
            self.disagreements = bring_up.check_priorities(by_node, self.mismatch)
            self._graph = Graph.of(self.cabling.links)
            self.nodes = {name: number for number, name in enumerate(by_node)}
            setup = self._setup(program)
            for name, ports in by_node.items():
                setup.set_up_buffer(name, ports, self.cabling.delays)
            self.buffers = {name: settings for name, (_, settings) in setup.buffers.items()}
            for name, ports in by_node.items():
                setup.set_up_node(name, ports, attach=not self.queues_only)
            for name, ports in by_node.items():
                if is_leaf(ports[0].node):
                    self.vswitches[name] = setup.start_vswitch(name, ports)
            self.cabling.attach(program)
            if not self.queues_only:
                program.watch_queues()
                self._names = {port.slot: port.name for port in self.ports.values()}
                measuring = sum(bool(port.settings and port.settings.measures) for port in self.ports.values())
                plans = []
                for name, ports in by_node.items():
                    buffer = setup.buffers[name][0] if name in setup.buffers else None
                    plans.append(agent_plan(self, self.nodes[name], ports, buffer, measuring))
                self.agents = Agents(plans, program)
                self.agents.start()
                if self.deadlock_poll:
                    numbers = {name: self.nodes[name] for name in self.buffers}
                    self._watching = deadlocks.watching(self, numbers, program, self.agents, self.deadlock_poll)
            for vswitch in self.vswitches.values():
                vswitch.watch()
        except BaseException:
            self.stop()
            raise

    def _setup(self, program: PortProgram) -> NodeSetup:
        return NodeSetup(self, program, self._graph, self.nodes)

    def set_mac(self, intf: Any, mac: Mac) -> None:
        """Another address for a port; switches forward to it."""
        self.cabling.set_mac(intf, mac)
        if intf.slot not in self.ports:
            return
        self.ports[intf.slot].mac = mac
        if self.program is not None:
            setup = self._setup(self.program)
            for switch in self._graph.forwarding - self.vswitches.keys():
                setup.set_stations(switch, self._graph.next_hops(switch))

    def unmarked(self, source: str, target: str, priority: int, ds_field: int) -> Unmarked | None:
        """Return the ports on the way from a host to another if none of them marks such packets; None if one does."""
        return unmarked(self, self._graph.way(source, target), priority, ds_field)

    def configure_dcbx(self, port: str, settings: DcbxSettings | None) -> None:
        """Other settings for a port while it runs; None: DCBX off."""
        self.running_agents().configure_dcbx(self.port(port).node.name, port, settings)

    def measure(self, port: str) -> None:
        """Have a port measure its headroom now; `dcbx` has the result."""
        self.running_agents().measure(self.port(port).node.name, port)

    def stop(self) -> None:
        """End the agents and take the program off all ports; a second call does nothing."""
        if self._watching:
            watching, self._watching = self._watching, None
            watching.stop()
        if self.agents:
            self.agents.stop()
            self.lateness_ns = self.agents.lateness_ns
            self._records, self._dcbx_log = self.agents.records(), self.agents.dcbx_log()
            self.agents.close()
            self.agents = None
        for vswitch in self.vswitches.values():
            vswitch.stop()
        self.vswitches.clear()
        if self.program:
            self.program.close()
            self.program = None
        self.sockets.close()
        self.cabling.close()
        if Fabric._current is self:
            Fabric._current = None
