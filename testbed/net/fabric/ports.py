"""The table of a network's lossless ports and nodes, with lookups by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from testbed.errors import UsageError, nearest
from testbed.frames import Mac
from testbed.linux.netlink.messages import Socket
from testbed.linux.netlink.rdma import SOFT_IWARP, SOFT_ROCE
from testbed.linux.port_program import FIRST_INTERFACE
from testbed.linux.process import kernel
from testbed.net.fabric.cable import Cable, Forwarding, Line, pause_ns
from testbed.net.fabric.port import Buffer, Port
from testbed.net.fabric.queues import Queues
from testbed.net.fabric.routes import Graph
from testbed.roce import in_kernel, rates
from testbed.units import Scale

if TYPE_CHECKING:
    from testbed.switch.rules.rule_code import RuleCode


class FabricError(UsageError):
    """A network cannot be built as described, or has no part of the given name."""


@dataclass
class PortState:
    """The state of one lossless port."""

    slot: int
    """The port's number among all ports; the slots of a cable's two ends differ in the lowest bit."""
    intf: Any  # Mininet's object
    mac: Mac
    lab_cable: Cable
    """The cable with the lab's rate and delay."""
    scale: Scale = Scale(1)
    units: Scale = Scale(1)
    """The scale between the values that users write and read of the port and those of the lab: `scale`, or 1 in a
    network in lab time."""
    queues: Queues | None = None
    rule: RuleCode | None = None
    """The code of the port's marking rule, known like its settings."""
    settings: Port | None = None
    """The port's settings with the lab's times, known when the network has started."""

    @property
    def cable(self) -> Cable:
        """The cable with the rate and delay of the hardware for which it stands."""
        return self.lab_cable.in_hardware(self.units)

    @property
    def node(self) -> Any:
        """Mininet's node that the port belongs to."""
        return self.intf.node

    @property
    def name(self) -> str:
        """The interface's name, as in s1-eth2."""
        name: str = self.intf.name
        return name

    @property
    def interface(self) -> int:
        """The interface's index in the kernel."""
        return FIRST_INTERFACE + self.slot

    @property
    def line(self) -> Line:
        """The model of the port's line."""
        return Line.of(self.node.name, self.node.params.get("line"))

    @property
    def has_line(self) -> bool:
        """True if frames keep their cells until their last bits have left."""
        return self.line is Line.REAL and forwards(self.node)

    @property
    def forwarding(self) -> Forwarding | None:
        """The moment at which the node has a frame that comes in here; None if it is that of the first bit."""
        return Forwarding.of(self.node.name, self.node.params.get("forwarding"))

    @property
    def number(self) -> int:
        """The port's number at its node, as Mininet counts."""
        number: int = self.node.ports[self.intf]
        return number

    @property
    def buffer(self) -> Buffer:
        """The settings of the node's buffer."""
        return self.node.params.get("buffer") or Buffer()


class PortTable:
    """The lossless ports of one network, and its nodes."""

    def __init__(self) -> None:
        self.by_slot: dict[int, PortState] = {}
        """The ports, by slot."""
        self.slots: dict[str, int] = {}
        """The slot of each port, by its name; a port that was removed keeps its slot."""
        self.known_nodes: Mapping[str, Any] = {}
        """Mininet's nodes, also those without lossless ports."""
        self.is_in_lab_time = False
        """True if users write and read values of the lab, not of the hardware, in this network."""

        self.graph = Graph()
        """The graph of the network, once it has started; no cable is laid after that."""

    def __iter__(self) -> Iterator[PortState]:
        return iter(self.by_slot.values())

    @property
    def units(self) -> Scale:
        """The scale between the network's values that users write and read and those of the lab.

        If ports have different scales it is the largest.
        """
        return max((port.units for port in self), key=lambda scale: scale.k, default=Scale(1))

    def units_at(self, node: Any) -> Scale:
        """Return the scale of a node, by its first lossless port; 1 for a node without one, which is not scaled."""
        return next((port.units for port in self if port.node is node), Scale(1))

    def units_of(self, name: str) -> Scale:
        """Return the scale of the node of this name, by its first lossless port."""
        return next((port.units for port in self if port.node.name == name), Scale(1))

    def port(self, name: str) -> PortState:
        """Return the port whose interface has this name, as in s1-eth2."""
        slot = self.slots.get(name)
        if slot is not None and slot in self.by_slot:
            return self.by_slot[slot]
        raise FabricError(f"there is no lossless port {name}; {nearest(name, self.names())}")

    def way(self, source: str, target: str) -> list[PortState]:
        """Return the ports by which frames leave each node between two hosts; none if they are not known.

        A way through routers is a shortest one.
        """
        if not {source, target} <= self.graph.neighbours.keys():
            return []  # in a network without lossless ports
        names = self.graph.way(source, target) or self.graph.shortest(source, target)
        return [self.port(name) for name in names]

    def node(self, node: Any) -> Any:
        """Return the node of this name. Mininet's own object is accepted, too, and returned."""
        if not isinstance(node, str):
            if not hasattr(node, "pid"):
                raise FabricError(
                    f"{node!r} is not a node; a name is expected, as in 'h1', or Mininet's object, net['h1']"
                )
            return node
        if node in self.known_nodes:
            return self.known_nodes[node]
        known = {port.node.name: port.node for port in self} | dict(self.known_nodes)
        if node not in known:
            raise FabricError(f"there is no node {node} in this network; {nearest(node, known)}")
        return known[node]

    def names(self) -> list[str]:
        """Return the names of all lossless ports."""
        return [port.name for port in self]

    def by_node(self) -> dict[str, list[PortState]]:
        """Return the lossless ports of each node that has some."""
        found: dict[str, list[PortState]] = {}
        for port in self:
            found.setdefault(port.node.name, []).append(port)
        return found

    def between(self, node: str, neighbour: str) -> PortState:
        """Return the port of a node that leads to a neighbour, the first one if there are several."""
        for port in self:
            if port.node.name == node and self.far_end(port).node.name == neighbour:
                return port
        for name in (node, neighbour):
            self.node(name)  # for its message, if there is no such node
        raise FabricError(f"{node} has no lossless cable to {neighbour}")

    def far_end(self, port: PortState) -> PortState:
        """Return the port at the other end of the cable."""
        return self.by_slot[port.slot ^ 1]

    def pause_ns(self, port: PortState) -> int:
        """Return the time from when a PFC frame comes in at a port until its last bit has."""
        return pause_ns(port.lab_cable.rate, self.far_end(port).line, port.forwarding)


class NodeSockets:
    """A pool of netlink sockets, one in the namespace of each node."""

    def __init__(self) -> None:
        self._by_name: dict[str, Socket] = {}

    def of(self, node: Any) -> Socket:
        """Return the socket in the namespace of a node, which is opened when it is first needed."""
        socket = self._by_name.get(node.name)
        if socket is None:
            socket = self._by_name[node.name] = self.another(node)
        return socket

    def another(self, node: Any) -> Socket:
        """Open a further socket in the namespace of a node."""
        with kernel.in_network_of(node.pid):
            return Socket()

    def inside(self, node: Any, do: Callable[[], None]) -> None:
        """Do something in the namespace of a node."""
        with kernel.in_network_of(node.pid):
            do()

    def close(self) -> None:
        for socket in self._by_name.values():
            socket.close()
        self._by_name.clear()


def forwards(node: Any) -> bool:
    """Return True if the node forwards frames, so that it has a buffer and shares its lines."""
    return bool(getattr(node, "forwards", False))


def address_of(node: Any, version: int = 4) -> str | None:
    """Return a host's address of an IP version, that of its first port; None if it has none, or is a name alone."""
    if not hasattr(node, "IP"):
        return None
    if version == 4:
        return node.IP() or None
    given: str = getattr(node.defaultIntf(), "ipv6", None) or ""
    return given.partition("/")[0] or None


def rdma_of(node: Any) -> str:
    """Return the kind of the RDMA devices that the node's ports get for programs with verbs; empty without them."""
    wanted = getattr(node, "params", {}).get("rdma")
    return "" if not wanted else SOFT_IWARP if wanted == SOFT_IWARP else SOFT_ROCE


def soft_roce_settings(port: PortState) -> dict[str, int]:
    """Return the settings of DCQCN for a port's device: packets of lossless priorities have it, as with adapters."""
    assert port.settings is not None
    wanted, lossless = port.node.params["rdma"], port.settings.pfc.enabled
    if wanted in ("fixed", SOFT_IWARP):
        return {}
    priorities = port.settings.priorities.dscp_to_dot1p
    line = rates.Line(port.lab_cable.rate, port.scale)
    settings = in_kernel.soft_roce_settings("dcqcn" if wanted is True else wanted, line)
    return settings | {"ecn_dscps": sum(1 << dscp for dscp in range(64) if priorities[dscp] in lossless)}


def type_of_service(settings: Port) -> int:
    """Return the octet of IP's header by which packets get a port's lowest lossless priority; 0 if there is none."""
    priority = min(settings.pfc.enabled, default=0)
    return (settings.priorities.carrier(priority) or 0) << 2


def bridges(node: Any) -> bool:
    """Return True if the node is a switch."""
    return bool(getattr(node, "bridges", False))


def is_leaf(node: Any) -> bool:
    """Return True if Open vSwitch forwards the node's frames."""
    return bool(getattr(node, "steered", False))
