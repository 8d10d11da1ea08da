"""The parts of a network that make it lossless, and their life: ports, cables, port program, buffers, agents.

Cables are laid at once, when Mininet asks for them (`cabling`). `start` sets up the rest (`bring_up`).
There is one core per process at a time, as there is one network.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from testbed.agent import event_log
from testbed.agent.agents import Agents
from testbed.agent.event_log import LoggedEvent, Record
from testbed.errors import listed, warn
from testbed.experiment.run import Run
from testbed.frames import Mac
from testbed.linux import ip_counters
from testbed.linux.netlink import qdiscs
from testbed.linux.netlink.rdma import SOFT_ROCE
from testbed.linux.port_program import NODES, PortProgram
from testbed.linux.process import kernel
from testbed.linux.process.forked_helper import ForkedHelper
from testbed.linux.rdma_devices import RdmaDevices, counters
from testbed.linux.vswitch import Vswitch
from testbed.net.fabric import bring_up, deadlocks
from testbed.net.fabric.bring_up import Mismatch, NodeSetup, agent_plan
from testbed.net.fabric.cabling import Cabling
from testbed.net.fabric.parts import Parts, Whole
from testbed.net.fabric.ports import (
    FabricError,
    NodeSockets,
    PortState,
    PortTable,
    bridges,
    forwards,
    is_leaf,
    rdma_of,
    soft_roce_settings,
    type_of_service,
)
from testbed.net.fabric.routes import Graph
from testbed.net.fabric.switch_ways import SwitchWays
from testbed.switch.buffer.settings import BufferSettings
from testbed.switch.headroom.measurement import readable
from testbed.switch.priority.path import Disagreement
from testbed.units import Duration, Scale, hardware_times


class RunningFlows:
    """The `traffic.Flows` of a network that run."""

    def __init__(self) -> None:
        self.observer: Callable[[Any, bool], None] | None = None
        """Told of flows that begin to run, and with False of those that end."""
        self.read_telemetry = False
        """True once a flow had a rate control that reads the telemetry of ports."""
        self.lost = 0
        """The number of datagrams that flows have lost so far."""
        self._running: list[Any] = []

    def begin(self, flows: Any) -> None:
        """Note that flows run."""
        self._running.append(flows)
        if self.observer:
            self.observer(flows, True)

    def end(self, flows: Any) -> None:
        """Note that flows have ended, if they had begun."""
        if flows in self._running:
            self._running.remove(flows)
            if self.observer:
                self.observer(flows, False)


@dataclass
class NetworkOptions:
    """The options of a network as a whole."""

    mismatch: Mismatch = Mismatch.REFUSE
    deadlock_poll: Duration | None = None
    """The interval of looking for deadlocks, in the lab's time; None turns the watch off."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """The names that users know ports by, where they differ from the lab's."""
    pool_labels: Mapping[str, list[str]] = field(default_factory=dict)
    """The names of ingress and egress pools, by switch."""
    queues_only: bool = False
    """True to leave out port program and agents, which measures what they cost."""


class NetworkLog:
    """The logs of a network's agents, while they run and after it has stopped."""

    def __init__(
        self,
        ports: PortTable,
        running: Callable[[], Agents | None],
        line_events: Callable[[], list[event_log.Record]],
    ) -> None:
        """`running` returns the agents, or None if none run; `line_events` the events of cables so far."""
        self._ports, self._running, self._line_events = ports, running, line_events
        self.kept_records: list[event_log.Record] = []
        """The records of agents that have ended."""
        self.kept_lines: list[dict[str, Any]] = []
        """The lines of speakers that have ended, in the lab's times."""
        self.names: dict[int, str] = {}
        """The names of ports by their slots, of which records are."""
        self.lateness_ns = 0
        """The longest delay in waking an agent; it is known when the network has stopped."""

    def keep(self, records: list[event_log.Record], lines: list[dict[str, Any]], lateness_ns: int) -> None:
        """Keep what agents that have ended have logged."""
        self.kept_records, self.kept_lines, self.lateness_ns = records, lines, lateness_ns

    def records(self) -> list[event_log.Record]:
        """Return the records of the agents' event logs so far."""
        agents = self._running()
        if agents is None:
            return self.kept_records
        others = self._line_events()
        return sorted([*agents.records(), *others]) if others else agents.records()

    def decoded(self, records: Iterable[event_log.Record]) -> list[LoggedEvent]:
        """Return records of the agents' event logs as events; times in their details are the hardware's."""
        units = self._ports.units  # if ports have different scales the largest, for an event may have no port
        return [
            replace(one, detail=hardware_times(one.detail, self._units_of_slot(slot, units)))
            for one, slot in ((event_log.decoded(record, self.names), record[2]) for record in records)
        ]

    def _units_of_slot(self, slot: int, default: Scale) -> Scale:
        return self._ports.by_slot[slot].units if slot in self._ports.by_slot else default

    def history(self, since_ns: int) -> Iterator[str]:
        """Yield the lines of a run's event log, with times counted from `since_ns`."""
        return event_log.lines(self.records(), self.names, since_ns)

    def lines(self) -> list[dict[str, Any]]:
        """Return what speakers have logged so far, an entry for each frame and each change, with the port's name.

        Measured times are the hardware's; `t_ns` is the lab's, as in all logs of a run.
        """
        agents = self._running()
        lines = agents.lines() if agents else self.kept_lines
        return [self._with_hardware_times(line) if line["what"] == "headroom" else line for line in lines]

    def _with_hardware_times(self, line: dict[str, Any]) -> dict[str, Any]:
        units = self._ports.port(line["port"]).units
        return readable(hardware_times(line, units)) | {"t_ns": line["t_ns"]}


class FabricCore:
    """The lossless parts of one network. Where several kernels have it together, each has its own
    (`net/partition/core.py`).
    """

    _current: FabricCore | None = None
    parts: Parts = Whole()

    @classmethod
    def current(cls) -> FabricCore:
        """Return the core of the network that is being built, or runs; there is always one."""
        if cls._current is None:
            cls._current = cls()
        return cls._current

    @classmethod
    def begin(cls, core: FabricCore) -> None:
        """Have the core of a network that is about to be built."""
        cls._current = core

    @classmethod
    def running(cls) -> FabricCore | None:
        """Return the core of the network that is being built, or runs, or None if there is no network."""
        return cls._current

    def __init__(self) -> None:
        self.ports = PortTable()
        self.sockets = self._sockets()
        self.cabling = self._cabling()
        self.run_began_ns = 0
        """The moment by the lab's clock at which the network's run began, in part 0 of several."""
        self.program: PortProgram | None = None
        self.agents: Agents | None = None
        self.buffers: dict[str, BufferSettings] = {}
        """The settings of the buffer of each switch and router."""
        self.numbers: dict[str, int] = {}
        """The number of each node, which its ring buffer and, for a switch, its buffer have, too."""
        self.vswitches: dict[str, Vswitch] = {}
        """The Open vSwitch of each leaf."""
        self.flows = RunningFlows()
        self.options = NetworkOptions()
        self.log = NetworkLog(
            self.ports, lambda: self.running_agents() if self.agents else None, self.cabling.line_events
        )
        self.disagreements: list[Disagreement] = []
        """The places where priorities are mapped differently along a path, so that PFC cannot work."""
        self._rdma = RdmaDevices()
        self._deadlock_watch: ForkedHelper[Any] | None = None
        self.ways: SwitchWays | None = None
        """The equal ways of the switches, once the network has started."""

    def start(self) -> None:
        """Make all ports lossless and start the agents; a second call does nothing."""
        if self.program is not None or not self.ports.by_slot:
            return
        try:
            dei = next((port.name for port in self.ports if _looks_at_dei(port)), "")
            if dei and (others := [port.name for port in self.ports if _trims(port) or port in self._stamping()]):
                raise FabricError(
                    f"{dei} has a table of DEI, and {others[0]} trims or has telemetry; a network has one of "
                    "them: leave dei_to_dot1p out, or the others"
                )
            if (rules := self._asks_rules()) and dei:
                raise FabricError(
                    f"{dei} has a table of DEI, and the network has a rule of one's own; it can have one of them: "
                    "leave dei_to_dot1p out, or the rule"
                )
            self.program = program = PortProgram(
                waits=self.options.deadlock_poll is not None,
                telemetry=bool(self._stamping()),
                lines=any(port.has_line for port in self.ports),
                trimming=any(_trims(port) for port in self.ports),
                dei=bool(dei),
                rules=rules,
            )
            if not program.trimming and (idle := [one.name for one in self.ports if _has_trimming(one)]):
                warn(f"trimming of {listed(idle)} has no effect, as hosts drop nothing; give it to ports of switches")
            by_node, here = self.ports.by_node(), self.here()
            if len(by_node) > NODES:
                raise FabricError(
                    f"a network has at most {NODES} nodes with lossless ports; this one has {len(by_node)}"
                )
            bring_up.choose_queues(by_node)
            self.disagreements = bring_up.check_priorities(self.ports, by_node, self.options.mismatch)
            self.ports.graph = Graph.of(self.cabling.links)
            self.numbers = {name: number for number, name in enumerate(by_node)}
            self.ways = SwitchWays(self.ports, program, self.ports.graph)
            setup = self._setup(program, self.ways)
            for name, ports in by_node.items():
                setup.set_up_buffer(name, ports, self.cabling.delays)
            self.buffers = {name: settings for name, (_, settings) in setup.buffers.items()}
            for name, ports in by_node.items():
                setup.set_up_node(name, ports, attach=not self.options.queues_only)
            self.ways.warn()
            for name, ports in here.items():
                if is_leaf(ports[0].node):
                    self.vswitches[name] = setup.start_vswitch(name, ports)
            self._copy_marks(here)
            self.cabling.attach(program)
            if any(port.settings and port.settings.credits for port in self.ports):
                # Read here: a module takes the lab's time, and other networks would begin later.
                from testbed.net.fabric.link.credits import CreditLines

                self.cabling.credits = CreditLines.of(self.ports, here, program)
            if not self.options.queues_only:
                self._start_agents(setup, program)
            for vswitch in self.vswitches.values():
                vswitch.watch()
            for port in self.ports:
                kind = rdma_of(port.node)
                if kind and port.node.name in here and port.settings is not None:
                    service = type_of_service(port.settings)
                    self._rdma.add(port.node.pid, kind, port.name, service, soft_roce_settings(port))
        except BaseException:
            self.stop()
            raise

    def _copy_marks(self, here: Mapping[str, list[PortState]]) -> None:
        """Attach the program that copies ECN fields to the ports of nodes that ask for it."""
        asking = [ports for ports in here.values() if ports[0].node.params.get("tunnel_ecn")]
        if asking and not self.options.queues_only:
            # Read here: a module takes the lab's time, and other networks would begin later.
            from testbed.linux.port_program.tunnel_ecn import TunnelEcn

            copies = self.running_program().tunnel_ecn = TunnelEcn()
            for ports in asking:
                slots = [port.slot for port in ports]
                self.sockets.inside(ports[0].node, partial(copies.attach, slots))

    def _asks_rules(self) -> bool:
        """Return True if the port program asks rules of one's own, which takes the kernel of `um`."""
        with_rules = [one.name for one in self.ports if one.intf.settings and _has_hooks(one.intf.settings)]
        nodes = {port.node.name: port.node for port in self.ports if forwards(port.node)}
        choosing = [name for name, node in nodes.items() if getattr(node.params.get("ways"), "rule", None)]
        if (with_rules or choosing) and not kernel.cpu_work_takes_no_time():
            raise FabricError(
                f"{listed([*with_rules, *choosing], 4)}: a rule of one's own, which only the kernel of the engine um "
                "can ask; take --engine um, or leave with_rule() and Ways(rule=...) out"
            )
        return bool(with_rules or choosing)

    def _stamping(self) -> list[PortState]:
        return [port for port in self.ports if port.intf.settings and port.intf.settings.telemetry]

    def _setup(self, program: PortProgram, ways: SwitchWays) -> NodeSetup:
        return NodeSetup(self.ports, self.sockets, program, self.ports.graph, self.numbers, ways=ways)

    def _start_agents(self, setup: NodeSetup, program: PortProgram) -> None:
        program.watch_queues()
        self.log.names = {port.slot: port.name for port in self.ports.by_slot.values()}
        plans = []
        for name, ports in self.here().items():
            buffer = setup.buffers[name][0] if name in setup.buffers else None
            ways = self.ways.plans.get(name, []) if self.ways else []
            plans.append(agent_plan(self.ports, self.numbers[name], ports, buffer, ways=ways))
        self.agents = Agents(plans, program)
        self.agents.start()
        if self.options.deadlock_poll:
            numbers = {name: self.numbers[name] for name in self.buffers}
            look = deadlocks.Look(self.ports, self.here(), numbers, program, self.agents)
            self._deadlock_watch = self._watching(look, self.agents, self.options.deadlock_poll)

    def stop(self) -> None:
        """End the agents and detach the program from all ports; a second call does nothing."""
        self._rdma.close()
        if self.agents and not self.flows.read_telemetry and (stamping := self._stamping()):
            names = listed([port.name for port in stamping], 8)
            warn(f"Port(telemetry=True) had no effect at {names}: no flow's rate control reads telemetry, as hpcc does")
        others = [*self._rule_faults(), *self.cabling.line_events()]
        if self.ways and self.ways.rules:
            self.ways.rules.warn()
        if self._deadlock_watch:
            watch, self._deadlock_watch = self._deadlock_watch, None
            watch.stop()
        if self.agents:
            self.agents.stop()
            agents, self.agents = self.agents, None
            try:
                self._keep_logs(agents, others)
            finally:
                agents.close()
        for vswitch in self.vswitches.values():
            vswitch.stop()
        self.vswitches.clear()
        if self.program:
            if self.program.tunnel_ecn:
                self.program.tunnel_ecn.close()
            if self.ways and self.ways.rules:
                self.ways.rules.close()
            self.program.close()
            # Whoever holds the program holds the memory of its maps, which then stay in the kernel
            self.program = self.ways = None
        self.sockets.close()
        self.cabling.close()
        if FabricCore._current is self:
            FabricCore._current = None

    def together(self, run: Run | None) -> AbstractContextManager[object]:
        """Be one network for the block in which the script uses it, over however many kernels."""
        self.run_began_ns = run.start_ns if run is not None else 0
        return nullcontext()

    def leave(self) -> None:
        """Leave the network, when its nodes have ended."""

    def class_of(self, name: str, kind: Any) -> Any:
        """Return the class of a node in this kernel."""
        return kind

    def here(self) -> dict[str, list[PortState]]:
        """Return the lossless ports of each node that this kernel has; of a network in one kernel it has all."""
        return self.ports.by_node()

    def _sockets(self) -> NodeSockets:
        return NodeSockets()

    def _cabling(self) -> Cabling:
        return Cabling(self.ports, self.sockets)

    def _watching(self, look: deadlocks.Look, agents: Agents, poll: Duration) -> ForkedHelper[Any]:
        return deadlocks.watching(look, agents.new_log(), poll)

    def _rule_faults(self) -> list[Record]:
        """Return an event for each rule of one's own that had a fault."""
        if self.program is None or not any(port.rule for port in self.ports):
            return []
        from testbed.net.fabric.rules import at_ports

        return at_ports.ended(self.here().values(), self.sockets.of)

    def _keep_logs(self, agents: Agents, others: list[Record]) -> None:
        """Keep what agents that have ended have logged, with other events."""
        self.log.keep(sorted([*agents.records(), *others]), agents.lines(), agents.lateness_ns)

    def running_agents(self) -> Agents:
        """Return the agents; FabricError if the network does not run."""
        if self.agents is None:
            raise FabricError("the network does not run")
        return self.agents

    def running_program(self) -> PortProgram:
        """Return the port program to read from; FabricError if the network does not run."""
        if self.program is None:
            raise FabricError("the network does not run")
        return self.program

    def vswitch(self, leaf: str) -> Vswitch:
        """Return the Open vSwitch of a leaf."""
        if leaf not in self.vswitches:
            raise FabricError(f"{leaf} is not a leaf of a running network, so it has no Open vSwitch")
        return self.vswitches[leaf]

    def waiting_or_dropped(self) -> Counter[str] | None:
        """Return the frames that Open vSwitch, routes, sockets and queues have dropped or hold, by reason; None if a
        daemon was restarted.
        """
        found = Counter[str]()
        for vswitch in self.vswitches.values():
            found["Open vSwitch had no flow yet"] += vswitch.missed
        here = [(ports[0].node, self.sockets.of(ports[0].node)) for ports in self.here().values()]
        for node, socket in here:
            if forwards(node) and not bridges(node):
                found["router without a route"] += ip_counters.without_route(node.pid)
            qdisc = qdiscs.counters(socket)
            found["ECN curve"] += qdisc["red"].dropped
            found["full queue"] += qdisc["plug"].dropped
            found["waiting"] += (qdisc["netem"] if "netem" in qdisc else qdisc["plug"]).waiting
        if self.cabling.socket:
            middles = qdiscs.counters(self.cabling.socket)
            found["waiting"] += middles["netem"].waiting + middles[qdiscs.LINE].waiting
        found["cable"] += self.cabling.lost()
        # What waited when its flow was stopped comes later. It is read last, so that no frame arrives unseen meanwhile.
        for node, _ in here:
            if not forwards(node):
                found["host where nothing listens"] += ip_counters.without_listener(node.pid)
        return None if any(one.restarts for one in self.vswitches.values()) else found

    def soft_roce(self) -> dict[str, dict[str, int]]:
        """Return the counters of all Soft-RoCE devices by port, with the names that the kernel's drivers give them."""
        here = self.here()
        having = [port for port in self.ports if port.node.name in here and rdma_of(port.node) == SOFT_ROCE]
        return {port.name: counters(port.node.pid, port.name) for port in having}

    def set_mac(self, intf: Any, mac: Mac) -> None:
        """Give a port another MAC address, which switches forward to from now on."""
        self.cabling.set_mac(intf, mac)
        if intf.slot not in self.ports.by_slot:
            return
        self.ports.by_slot[intf.slot].mac = mac
        if self.program is not None and self.ways is not None:
            setup = self._setup(self.program, self.ways)
            leaves = {name for name, ports in self.ports.by_node().items() if is_leaf(ports[0].node)}
            for switch in self.ports.graph.forwarding - leaves:
                setup.set_stations(switch, self.ports.graph.next_hops(switch))
                setup.set_equal_ways(switch)


def _trims(port: PortState) -> bool:
    """Return True if a port of a switch trims, or its switch was given a configuration that may have it do so."""
    configured = getattr(port.node.params.get("configuration"), "trims", False)
    return forwards(port.node) and bool(configured or _has_trimming(port))


def _looks_at_dei(port: PortState) -> bool:
    return bool(port.intf.settings and port.intf.settings.priorities.looks_at_dei)


def _has_hooks(settings: Any) -> bool:
    return settings.marking is not None and bool(settings.marking.hooks)


def _has_trimming(port: PortState) -> bool:
    return bool(port.intf.settings and port.intf.settings.trimming)
