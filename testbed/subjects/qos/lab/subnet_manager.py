"""The subnet manager of a lossless network: it sets every port up by a QoS policy, and keeps it so (QoS RFC section 9,
3.1).

with network(Star(port=Port().with_vls())) as net, SubnetManager(net.fabric, policy) as manager:
    records = PathRecords(policy, manager.subnet, manager.plan.tables)

`sweep` looks at the network again and does what is needed: it repairs what has drifted from the plan, follows
cables that came and went, and applies another policy. SL2VL tables change one by one, each at once; VLs have their
queues always and are lossless before and after, so nothing is lost in a change.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from testbed.linux.netlink import qdiscs
from testbed.linux.netlink.messages import Socket
from testbed.linux.port_program import OWN_FRAMES, PortProgram
from testbed.linux.process import kernel
from testbed.net.fabric.fabric import Fabric
from testbed.net.fabric.ports import FabricError, PortState
from testbed.net.fabric.queues import SHARED, Scheduling
from testbed.subjects.qos import fabric as subnet
from testbed.subjects.qos.fabric import Partition, PortKey
from testbed.subjects.qos.lab.discovery import Discovery
from testbed.subjects.qos.model import Policy
from testbed.subjects.qos.plan import Difference, Plan, PortSetup, differences, plan
from testbed.subjects.qos.records import PathRecords
from testbed.subjects.qos.setup import Finding
from testbed.subjects.qos.shares import Shares
from testbed.subjects.qos.subnet_administration import SubnetAdministration

_URGENCY = 45
"""The priority of the manager's changes: above traffic and below agents, like the fabric's own changes."""


@dataclass(frozen=True)
class Sweep:
    """The findings and changes of one look at the network."""

    drift: Sequence[Difference] = ()
    """The settings of ports that differed from the plan. They were repaired."""
    changes: Sequence[Difference] = ()
    """The changes because of another policy or topology."""
    rerouted: int = 0
    """The number of changed entries of forwarding tables."""


@dataclass
class SubnetManager:
    """The subnet manager of one running network. `partitions` are its tenants; `node` is the node that it counts as."""

    fabric: Fabric
    policy: Policy = field(default_factory=Policy)
    partitions: Sequence[Partition] = ()
    node: str | None = None

    def __post_init__(self) -> None:
        if self.fabric.core.program is None:
            raise FabricError("the network does not run; start it before its subnet manager")
        self._program: PortProgram = self.fabric.core.program
        self._discovery = Discovery(self.fabric)
        self._sockets: dict[str, Socket] = {}
        self._ways: dict[tuple[str, int], int] = {}
        self.subnet = subnet.Fabric()
        self.plan = Plan()

    def __enter__(self) -> SubnetManager:
        self.sweep()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the sockets. All settings of ports stay."""
        self._discovery.close()
        for socket in self._sockets.values():
            socket.close()
        self._sockets.clear()

    @property
    def findings(self) -> Sequence[Finding]:
        """The warnings and errors of the policy on this network."""
        return self.plan.findings

    def records(self) -> PathRecords:
        """The answers to path record queries, by the settings at this moment."""
        return PathRecords(self.policy, self.subnet, self.plan.tables)

    def answer(self, mad: bytes) -> bytes:
        """Return the answer to a request of subnet administration, in octets, by the settings at this moment."""
        return SubnetAdministration(self.records()).answer(mad)

    def apply(self, policy: Policy) -> Sweep:
        """Set the network up by another policy from now on."""
        self.policy = policy
        return self.sweep()

    def sweep(self) -> Sweep:
        """Look at the network, and make all changes that are needed."""
        reported = {key: self.reported(key) for key in self.plan.ports}
        drift = differences(self.plan.ports, reported)
        for key in {one.port for one in drift}:
            self._set_up(key, self.plan.ports[key])
        self.subnet = self._discovery.fabric(self.partitions, self.node)
        wanted = plan(self.policy, self.subnet)
        changes = differences(self.plan.ports, wanted.ports)
        for key in {one.port for one in changes} & wanted.ports.keys():
            self._set_up(key, wanted.ports[key])
        self.plan = wanted
        return Sweep(drift, changes, self._route())

    def reported(self, key: PortKey) -> PortSetup:
        """Return the setup of a port, as read from its tables and the kernel's classes."""
        port = self._port(key)
        sl2vl = {}
        for number in self._inputs(key):
            table = self._program.lanes(port.slot, self._source(key, number))
            if table is not None:
                sl2vl[number] = table
        scheduling = _scheduling(self.plan.ports[key].shares)
        assert port.queues is not None
        classes = qdiscs.htb_classes(self._socket(port.node), port.interface)
        served = port.queues.served(classes, scheduling)
        strict = {queue: level for queue, (level, _) in served.items() if level < SHARED}
        if all(strict.get(queue) == scheduling.levels[queue] for queue in scheduling.strict):
            order = self.plan.ports[key].shares.strict
        else:
            order = tuple(sorted(strict, key=lambda queue: strict[queue]))
        planned = self.plan.ports[key].shares.weighted
        quanta = {vl: quantum for vl, (level, quantum) in served.items() if level == SHARED and vl in planned}
        weighted = {vl: Fraction(quantum, sum(quanta.values())) for vl, quantum in quanta.items()}
        return PortSetup(sl2vl, Shares(order, weighted, ()))

    def dropped(self) -> dict[str, tuple[int, ...]]:
        """Return the frames without a VL, by the output port that dropped them and by SL."""
        counted = {name: self.fabric.sent(name).vl15_frames for name in self.fabric.names()}
        return {name: drops for name, drops in counted.items() if any(drops)}

    # At a port

    def _set_up(self, key: PortKey, setup: PortSetup) -> None:
        port = self._port(key)
        assert port.queues is not None
        arrangement = port.queues.arranged(_scheduling(setup.shares))
        with kernel.urgently(_URGENCY):
            self._socket(port.node).send(arrangement.requests)
        self._program.set_queues(port.slot, arrangement.sockets)
        tables = {self._source(key, number): table for number, table in setup.sl2vl.items()}
        if OWN_FRAMES in tables and not self.subnet.nodes[key.node].is_switch:
            # An adapter has no other input, but a router's ports are adapters that it forwards between.
            tables |= {state.slot: tables[OWN_FRAMES] for state in self._neighbours(port)}
        sources = [OWN_FRAMES, *(state.slot for state in self._neighbours(port))]
        old = {source: table for source in sources if (table := self._program.lanes(port.slot, source)) is not None}
        self._program.set_lanes(port.slot, old, tables)

    def _neighbours(self, port: PortState) -> list[PortState]:
        """Return the other ports of a port's node."""
        return [other for other in self.fabric.ports.values() if other.node is port.node and other is not port]

    def _inputs(self, key: PortKey) -> Iterable[int]:
        return self.plan.ports[key].sl2vl

    def _source(self, key: PortKey, number: int) -> int:
        """Return an input port's number as the port program has it."""
        return OWN_FRAMES if number == 0 else self._discovery.slots[PortKey(key.node, number)]

    def _port(self, key: PortKey) -> PortState:
        return self.fabric.ports[self._discovery.slots[key]]

    def _socket(self, node: Any) -> Socket:
        socket = self._sockets.get(node.name)
        if socket is None:
            with kernel.in_network_of(node.pid):
                socket = self._sockets[node.name] = Socket()
        return socket

    # Forwarding tables

    def _route(self) -> int:
        """Write the changes of switches' forwarding tables, and return the number of changed entries."""
        changed = 0
        for switch, table in self.subnet.forwarding.items():
            for end in self.subnet.end_ports:
                number = table.get(end.lid)
                slot = self._discovery.slots.get(end.key)
                if not number or slot is None or end.key.node == switch:
                    continue
                leaving = self._discovery.slots[PortKey(switch, number)]
                if self._ways.get((switch, slot)) != leaving:
                    mac = self.fabric.ports[slot].mac.octets
                    self._program.set_station(self.fabric.core.numbers[switch], mac, leaving)
                    self._ways[switch, slot] = leaving
                    changed += 1
        return changed


def _scheduling(shares: Shares) -> Scheduling:
    return Scheduling.of_lanes(shares.strict, shares.weighted)
