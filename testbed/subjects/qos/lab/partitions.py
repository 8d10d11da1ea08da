"""Partitions of a QoS policy as VLANs, each with an IPoIB interface at every member.

A partition's VLAN ID is the lower twelve bits of its P_Key (decision 0183). A member host has an interface on that
VLAN, h1-eth0.N, with an address in the partition's subnet and the MTU of its broadcast group. A host that is no member
has none, so its kernel discards the partition's frames, as an adapter does with a foreign P_Key.
"""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Network
from typing import Any

from testbed.net.fabric.fabric import Fabric
from testbed.net.fabric.ports import FabricError
from testbed.subjects.qos.fabric import DEFAULT_PKEY, Partition
from testbed.subjects.qos.lab.discovery import port_key
from testbed.subjects.qos.rfc_clients import NotConnected

_SUBNETS = IPv4Network("10.128.0.0/9")
_MOST_MEMBERS = 250


class PartitionMember:
    """A host in a partition. Its address is that of its interface there."""

    def __init__(self, host: Any, partition: Partition, interface: str, address: str) -> None:
        self.host, self.partition, self.interface, self._address = host, partition, interface, address

    def IP(self) -> str:
        """Return the address, under the name that Mininet has for it."""
        return self._address

    def __getattr__(self, name: str) -> Any:
        return getattr(self.host, name)


class Partitions:
    """The partitions of one network, set up at its hosts."""

    def __init__(self, fabric: Fabric, partitions: Sequence[Partition]) -> None:
        self._members: dict[tuple[str, str], PartitionMember] = {}
        vlans: dict[int, str] = {DEFAULT_PKEY & 0xFFF: "the default partition"}
        for number, partition in enumerate(partitions, 1):
            vlan = partition.pkey & 0xFFF
            if vlan in vlans or not vlan:
                raise FabricError(
                    f"partition {partition.name}: P_Key 0x{partition.pkey:04x} needs VLAN {vlan}, which "
                    f"{vlans.get(vlan, 'is for frames without a VLAN')} has"
                )
            vlans[vlan] = partition.name
            self._set_up(fabric, partition, vlan, number)

    def member(self, partition: str, host: Any) -> PartitionMember:
        """Return a host in a partition; NotConnected if it is not a member."""
        found = self._members.get((partition, host.name))
        if found is None:
            raise NotConnected(f"{host.name} is not a member of partition {partition}")
        return found

    def _set_up(self, fabric: Fabric, partition: Partition, vlan: int, number: int) -> None:
        subnet = list(_SUBNETS.subnets(new_prefix=24))[number]
        ports = [port for port in fabric.ports.values() if not getattr(port.node, "forwards", False)]
        if len(ports) > _MOST_MEMBERS:
            raise FabricError(f"partition {partition.name}: {len(ports)} hosts; {_MOST_MEMBERS} are possible")
        members = []
        for place, port in enumerate(ports, 1):
            if partition.full is not None and port_key(port) not in partition.full | partition.limited:
                continue
            interface, address = f"{port.name}.{vlan}", str(subnet[place])
            mtu = min(partition.mtu, port.queues.mtu if port.queues else partition.mtu)
            for command in (
                f"ip link add link {port.name} name {interface} type vlan id {vlan}",
                f"ip link set {interface} mtu {mtu} up",
                f"ip address add {address}/24 dev {interface}",
            ):
                if refused := port.node.cmd(command).strip():
                    raise FabricError(f"partition {partition.name} at {port.node.name}: {command}: {refused}")
            member = PartitionMember(port.node, partition, interface, address)
            self._members[partition.name, port.node.name] = member
            members.append((member, port.mac))
        for member, _ in members:
            for other, mac in members:
                if other is not member:
                    member.host.cmd(f"ip neighbour replace {other.IP()} lladdr {mac} dev {member.interface}")
