"""The ports of a fabric that are in a port group: by GUID, name, partition, P_Key or node type."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

from testbed.strict.problems import shown
from testbed.subjects.qos.fabric import EndPort, Fabric, Node, Partition, PortKey
from testbed.subjects.qos.model import NodeType, PortGroup
from testbed.subjects.qos.numbers import Ranges


def members(group: PortGroup, fabric: Fabric) -> frozenset[PortKey]:
    """Return the group's ports. A switch is a member by its port 0; one of its other ports only by a port name."""
    return frozenset(_members(group, fabric))


def _members(group: PortGroup, fabric: Fabric) -> Iterator[PortKey]:
    if group.port_guids:
        yield from (port.key for port in fabric.end_ports if port.guid in group.port_guids)
    for name in group.port_names:
        yield from _called(name, fabric)
    for partition in fabric.all_partitions:
        if partition.name in group.partitions or partition.pkey in group.pkeys:
            yield from (port.key for port in partition_ports(partition, fabric))
    for kind in group.node_types:
        yield from (port.key for port in fabric.end_ports if _is_of(kind, fabric.nodes[port.key.node], fabric))


def partition_ports(partition: Partition, fabric: Fabric) -> list[EndPort]:
    """Return the full and the limited members of a partition."""
    if partition.full is None:
        return fabric.end_ports
    return [port for port in fabric.end_ports if port.key in partition.full or port.key in partition.limited]


def naming_nothing(group: PortGroup, fabric: Fabric) -> list[str]:
    """Return the group's names, GUIDs, partitions and P_Keys that nothing in the fabric has.

    A fabric without nodes, as it is before its discovery, lacks nothing. A node type is not wrong because there is no
    node of it.
    """
    if not fabric.nodes:
        return []
    guids, pkeys = sorted(fabric.by_guid), [partition.pkey for partition in fabric.all_partitions]
    partitions = {partition.name for partition in fabric.all_partitions}
    return [
        *(f"port name {shown(name)}" for name in group.port_names if not any(_called(name, fabric))),
        *(f"GUID {text}" for text in _without(group.port_guids, guids, "#018x")),
        *(f"partition {shown(name)}" for name in group.partitions if name not in partitions),
        *(f"P_Key {text}" for text in _without(group.pkeys, sorted(pkeys), "#06x")),
    ]


def _without(ranges: Ranges, values: list[int], form: str) -> Iterator[str]:
    """Return, as text, the ranges that have none of the sorted values."""
    for low, high in ranges:
        place = bisect_left(values, low)
        if place == len(values) or values[place] > high:
            yield Ranges(((low, high),)).text(form)


def _called(name: str, fabric: Fabric) -> Iterator[PortKey]:
    """Return the ports that have a port name."""
    wanted, _, number = name.rpartition("/")
    for node in fabric.nodes.values():
        key = PortKey(node.name, int(number[1:]))
        if _is_called(node, wanted) and (key.number in node.ports or key in fabric.by_key):
            yield key


def _is_called(node: Node, wanted: str) -> bool:
    """Return True if a port name has the node description, or its first two words with a slash or a space between."""
    return wanted.replace("/", " ").split() in (node.description.split(), node.description.split()[:2])


def _is_of(kind: NodeType, node: Node, fabric: Fabric) -> bool:
    if kind is NodeType.SELF:
        return node.name == fabric.manager
    return kind in (NodeType.ALL, node.kind)


def unnamed(policy_groups: tuple[PortGroup, ...], fabric: Fabric) -> list[str]:
    """Return the nodes that have no port in any group: each is worth a warning (QoS RFC section 9)."""
    named = {key.node for group in policy_groups for key in members(group, fabric)}
    return sorted(set(fabric.nodes) - named)
