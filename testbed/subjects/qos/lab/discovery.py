"""The discovery of a lossless network by a subnet manager: nodes, ports and cables, as the fabric of a QoS policy. Only
the lab can import this.

Hosts are channel adapters, switches switches, and routers routers. A GUID is the EUI-64 of a MAC address; a node's own
is that of its first port. Port numbers begin with 1: h1-eth0 is port 1 of h1, s1-eth1 port 1 of s1. Rates are those of
the cables, not of the lab's scale. A cable without carrier at either end is not there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from testbed.frames import Mac
from testbed.linux.netlink.link_state import LinkWatch
from testbed.linux.process import kernel
from testbed.net.fabric.fabric import Fabric
from testbed.net.fabric.ports import FabricError, PortState
from testbed.subjects.qos import fabric as policy
from testbed.subjects.qos.fabric import PortKey
from testbed.subjects.qos.model import NodeType

_ADAPTER = "HCA-1"
"""The second word of a node description, as OpenSM's policies have it in port names: h1/HCA-1/P1."""


def eui64(mac: Mac) -> int:
    """Return a GUID of 64 bits: the address with FFFE in its middle and the bit for universal addresses inverted."""
    octets = mac.octets
    return int.from_bytes(bytes([octets[0] ^ 2, *octets[1:3], 0xFF, 0xFE, *octets[3:]]), "big")


def port_key(port: PortState) -> PortKey:
    """Return a port's node and number."""
    node = port.node
    return PortKey(node.name, node.ports[port.intf] - node.portBase + 1)


class Discovery:
    """Discovers the network, as often as it is asked to."""

    def __init__(self, fabric: Fabric) -> None:
        self._fabric = fabric
        self._watches: dict[str, LinkWatch] = {}
        self.slots: dict[PortKey, int] = {}
        for port in fabric.ports.values():
            if port.settings is None or port.settings.vls is None:
                raise FabricError(
                    f"{port.name} has no virtual lanes, so no QoS policy can be set there; build the network with "
                    "port=Port().with_vls()"
                )
            self.slots[port_key(port)] = port.slot

    def fabric(self, partitions: Iterable[policy.Partition] = (), manager: str | None = None) -> policy.Fabric:
        """Return the fabric as it is now, with forwarding tables by shortest paths."""
        discovered = policy.Fabric()
        by_node: dict[str, list[PortState]] = {}
        for port in self._fabric.ports.values():
            by_node.setdefault(port.node.name, []).append(port)
        for name, ports in by_node.items():
            kind = _kind(ports[0].node)
            first = eui64(ports[0].mac)
            guids = {port_key(port).number: eui64(port.mac) for port in ports}
            described = f"{name} {_ADAPTER}" if kind is NodeType.CA else name
            discovered.add(name, kind, first, map(_port, ports), description=described, guids=guids)
        carriers = self._carriers(by_node)
        for port in self._fabric.ports.values():
            far = self._fabric.far_end(port)
            if port.slot < far.slot and port.slot in carriers and far.slot in carriers:
                discovered.connect(port_key(port), port_key(far))
        for partition in partitions:
            discovered.partition(partition)
        discovered.manager = manager
        discovered.route()
        return discovered

    def _carriers(self, by_node: Mapping[str, list[PortState]]) -> set[int]:
        """Return the slots of ports that are up and have a carrier."""
        found = set()
        for name, ports in by_node.items():
            watch = self._watches.get(name)
            if watch is None:
                with kernel.in_network_of(ports[0].node.pid):
                    watch = self._watches[name] = LinkWatch()
            able = {link.index for link in watch.all() if link.can_talk}
            found |= {port.slot for port in ports if port.interface in able}
        return found

    def close(self) -> None:
        for watch in self._watches.values():
            watch.close()
        self._watches.clear()


def _kind(node: Any) -> NodeType:
    if not getattr(node, "forwards", False):
        return NodeType.CA
    return NodeType.SWITCH if node.bridges else NodeType.ROUTER


def _port(port: PortState) -> policy.PortCapabilities:
    assert port.settings is not None and port.settings.vls is not None and port.queues is not None
    rate = port.scale.real(port.lab_cable.rate)
    return policy.PortCapabilities(port_key(port).number, rate.bps, port.queues.mtu, port.settings.vls)
