"""A fabric as a TOML file, for queries without a network: nodes, links and partitions. docs/qos.md has the keys.

The first mistake is one FabricError that names file, place and key.
"""

from __future__ import annotations

from typing import Any

from testbed.errors import UsageError
from testbed.strict.tables import TomlTable, array, one_of, text, within
from testbed.subjects.qos.fabric import Fabric, FabricError, Partition, PortCapabilities, PortKey
from testbed.subjects.qos.model import NodeType
from testbed.units import Rate

_KINDS = {"HCA": NodeType.CA, "CA": NodeType.CA, "SWITCH": NodeType.SWITCH, "ROUTER": NodeType.ROUTER}
_PKEY_VALUE, _MOST_PORTS = 0x7FFF, 254
_USUAL = PortCapabilities(1)
_USUAL_PARTITION = Partition("", 1)
_MTU = within(256, 1 << 16)


class FabricFileError(FabricError):
    """A mistake in a fabric's file."""


def parse(content: bytes, name: str) -> Fabric:
    """Return the fabric of a file, with its forwarding tables; `name` is the file's in messages."""
    file = TomlTable.read(content, name, FabricFileError)
    nodes, links, partitions = file.tables("node", "name"), file.tables("link"), file.tables("partition", "name")
    manager = file.take("manager", text, "")
    file.close()
    fabric = Fabric()
    for node in nodes:
        _add_node(fabric, node)
    for link in links:
        _connect(fabric, link)
    for partition in partitions:
        _add_partition(fabric, partition)
    if manager and manager not in fabric.nodes:
        file.refuse("manager", f"there is no node {manager!r}")
    fabric.manager = manager or None
    file.build(fabric.route)
    return fabric


def _add_node(fabric: Fabric, node: TomlTable) -> None:
    name, guid = node.need("name", text), node.need("guid", within(1, (1 << 64) - 256))
    kind = node.take("type", _kind, NodeType.CA)
    count = node.take("ports", within(1, _MOST_PORTS), 1)
    settings = {
        "rate": node.take("rate", _rate, _USUAL.rate),
        "mtu": node.take("mtu", _MTU, _USUAL.mtu),
        "vls": node.take("vls", within(1, 15), _USUAL.vls),
        "arb_high": node.take("arb-high", within(0, 64), _USUAL.arb_high),
        "arb_low": node.take("arb-low", within(0, 64), _USUAL.arb_low),
    }
    ports = [PortCapabilities(number, **settings) for number in range(1, count + 1)]
    description = node.take("description", text, "")
    lmc, lid = node.take("lmc", within(0, 7), 0), node.take("lid", within(1, 0xBFFF), None)
    if lid is not None and count > 1 and kind is not NodeType.SWITCH:
        node.refuse("lid", f"it is that of one port, and there are {count}; leave it out, and each has one")
    lids = () if lid is None else [lid]
    node.build(lambda: fabric.add(name, kind, guid, ports, description=description, lmc=lmc, lids=lids))


def _connect(fabric: Fabric, link: TomlTable) -> None:
    ends = link.need("ends", _keys)
    if len(ends) != 2:
        link.refuse("ends", f'{len(ends)} ports; two are expected, such as ["h1/1", "sw1/3"]')
    link.build(lambda: fabric.connect(*ends))


def _add_partition(fabric: Fabric, section: TomlTable) -> None:
    full = section.take("full", _keys, None)
    partition = Partition(
        section.need("name", text),
        section.need("pkey", within(1, 0xFFFF)) & _PKEY_VALUE,
        None if full is None else frozenset(full),
        frozenset(section.take("limited", _keys, ())),
        section.take("sl", within(0, 15), _USUAL_PARTITION.sl),
        section.take("mtu", _MTU, _USUAL_PARTITION.mtu),
        section.take("rate", _rate, _USUAL_PARTITION.rate),
        section.take("tclass", within(0, 255), _USUAL_PARTITION.tclass),
    )
    section.build(lambda: fabric.partition(partition))


# Values


def _kind(value: Any) -> NodeType:
    return one_of(_KINDS.__getitem__, tuple(_KINDS))(text(value).upper())


def _rate(value: Any) -> int:
    return Rate(text(value)).bps


def _keys(value: Any) -> list[PortKey]:
    return [_key(one) for one in array(value)]


def _key(value: Any) -> PortKey:
    node, slash, number = str(value).rpartition("/")
    if not slash or not (number.isascii() and number.isdecimal()) or len(number) > 3:
        raise UsageError(f"{value!r} is not a port; a node and a number are expected, such as sw1/3")
    return PortKey(node, int(number))
