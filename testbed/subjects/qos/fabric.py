"""The fabric that a policy is for: nodes, ports, cables, partitions, LIDs and forwarding tables.

Ports that have addresses are end ports: the ports of channel adapters and routers, and port 0 of a switch. LIDs and
forwarding tables are given here by shortest paths, or can be set; nothing is discovered in this module.

A fabric as a TOML file, for queries without a network: nodes, links and partitions. docs/qos.md has the keys.

The first mistake is one FabricError that names file, place and key.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

from testbed.errors import UsageError
from testbed.strict.tables import TomlTable, array, one_of, text, within
from testbed.subjects.qos.model import NodeType
from testbed.units import Rate

GBIT = 10**9
DEFAULT_PKEY = 0x7FFF
LINK_LOCAL = 0xFE80 << 112
"""The subnet prefix of GIDs if none is configured."""
_LAST_UNICAST_LID = 0xBFFF
_NUMBER = re.compile("0x[0-9a-f]{1,16}|[0-9]{1,10}", re.ASCII | re.IGNORECASE)


class FabricError(UsageError):
    """The error of a fabric that contradicts itself."""


class PortKey(NamedTuple):
    """The name of a port: its node and its number."""

    node: str
    number: int


@dataclass(frozen=True)
class PortCapabilities:
    """The abilities of a port."""

    number: int
    rate: int = 10 * GBIT
    mtu: int = 2048
    vls: int = 15  # data VLs 0 to vls-1
    arb_high: int = 64  # entries of its VL arbitration tables
    arb_low: int = 64


@dataclass(frozen=True)
class EndPort:
    """A port with addresses."""

    index: int
    key: PortKey
    guid: int
    lid: int
    lmc: int

    @property
    def gid(self) -> int:
        return LINK_LOCAL | self.guid


@dataclass
class Node:
    """One device; `description` is what port names of a policy refer to."""

    name: str
    kind: NodeType  # CA, SWITCH or ROUTER
    guid: int
    description: str
    ports: dict[int, PortCapabilities] = field(default_factory=dict)

    @property
    def is_switch(self) -> bool:
        return self.kind is NodeType.SWITCH


@dataclass(frozen=True)
class Partition:
    """A partition, and the attributes of its IPoIB broadcast group."""

    name: str
    pkey: int  # without the membership bit
    full: frozenset[PortKey] | None = None  # None: every end port
    limited: frozenset[PortKey] = frozenset()
    sl: int = 0
    mtu: int = 2048
    rate: int = 10 * GBIT
    tclass: int = 0


class Fabric:
    """Nodes, cables and partitions. Build it with `add`, `connect` and `partition`, then `route`."""

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        self.links: dict[PortKey, PortKey] = {}
        self.partitions: list[Partition] = []
        self.manager: str | None = None  # the node that the subnet manager runs on
        self.end_ports: list[EndPort] = []
        self.by_lid: dict[int, EndPort] = {}
        self.by_guid: dict[int, EndPort] = {}
        self.by_key: dict[PortKey, EndPort] = {}
        self.forwarding: dict[str, dict[int, int]] = {}  # switch -> LID -> output port

    def add(
        self,
        name: str,
        kind: NodeType,
        guid: int,
        ports: Iterable[PortCapabilities],
        *,
        description: str = "",
        lids: Iterable[int] = (),
        lmc: int = 0,
        guids: Mapping[int, int] = MappingProxyType({}),
    ) -> Node:
        """Add a node. By default its end ports get GUIDs after its own, and the next LIDs."""
        if name in self.nodes:
            raise FabricError(f"there are two nodes {name}")
        node = Node(name, kind, guid, description or name)
        for port in ports:
            if port.number < 1 or port.number in node.ports:
                raise FabricError(f"{name} port {port.number}: numbers begin with 1 and occur once")
            node.ports[port.number] = port
        self.nodes[name] = node
        numbers = [0] if node.is_switch else sorted(node.ports)
        given: list[int | None] = list(lids) or [None] * len(numbers)
        for number, lid in zip(numbers, given, strict=True):
            own = guid if node.is_switch else guids.get(number, guid + number)
            self._add_end_port(PortKey(name, number), own, lid, 0 if node.is_switch else lmc)
        return node

    def _add_end_port(self, key: PortKey, guid: int, lid: int | None, lmc: int) -> None:
        size = 1 << lmc
        if lid is None:
            last = self.end_ports[-1] if self.end_ports else None
            lid = 1 if last is None else last.lid + (1 << last.lmc)
            lid = -(-lid // size) * size
        if lid % size or not 0 < lid <= _LAST_UNICAST_LID + 1 - size:
            raise FabricError(f"{key.node} port {key.number}: LID {lid} does not fit LMC {lmc}")
        port = EndPort(len(self.end_ports), key, guid, lid, lmc)
        if guid in self.by_guid:
            other = self.by_guid[guid].key
            raise FabricError(
                f"{key.node} port {key.number} and {other.node} port {other.number} have one GUID, 0x{guid:016x}"
            )
        for one in range(lid, lid + size):
            if one in self.by_lid:
                raise FabricError(f"{key.node} port {key.number}: LID {one} is that of {self.by_lid[one].key.node}")
            self.by_lid[one] = port
        self.end_ports.append(port)
        self.by_guid[guid] = self.by_key[key] = port

    def connect(self, one: PortKey, other: PortKey) -> None:
        for key in (one, other):
            if key.node not in self.nodes or key.number not in self.nodes[key.node].ports:
                raise FabricError(f"there is no port {key.number} of {key.node}")
            if key in self.links:
                raise FabricError(f"port {key.number} of {key.node} has two cables")
        if one == other:
            raise FabricError(f"port {one.number} of {one.node} is connected to itself")
        self.links[one], self.links[other] = other, one

    def partition(self, partition: Partition) -> None:
        if not 0 < partition.pkey <= DEFAULT_PKEY:
            raise FabricError(f"partition {partition.name}: 0x{partition.pkey:x} is not a P_Key without membership bit")
        if any(other.pkey == partition.pkey or other.name == partition.name for other in self.partitions):
            raise FabricError(f"there are two partitions {partition.name} or with P_Key 0x{partition.pkey:04x}")
        for key in (*(partition.full or ()), *partition.limited):
            if key not in self.by_key:
                raise FabricError(f"partition {partition.name}: {key.node} has no end port {key.number}")
        self.partitions.append(partition)

    @property
    def all_partitions(self) -> list[Partition]:
        """The given partitions, and the default partition if it was not given, with every end port in it."""
        if any(partition.pkey == DEFAULT_PKEY for partition in self.partitions):
            return self.partitions
        return [Partition("Default", DEFAULT_PKEY), *self.partitions]

    def port(self, key: PortKey) -> PortCapabilities | None:
        """Return a port that can have a cable."""
        node = self.nodes.get(key.node)
        return node.ports.get(key.number) if node else None

    def end_port(self, text: str) -> EndPort:
        """Return the end port of a text: a node with one end port, node/port, a hexadecimal GUID or a LID."""
        node, slash, number = text.rpartition("/")
        own = [port for port in self.end_ports if port.key.node == text]
        for port in self.end_ports:
            if slash and port.key.node == node and str(port.key.number) == number:
                return port
        if len(own) == 1:
            return own[0]
        if own:
            ports = ", ".join(f"{text}/{port.key.number}" for port in own)
            raise FabricError(f"{text} has {len(own)} ports; write one of {ports}")
        found = None
        if _NUMBER.fullmatch(text):
            found = self.by_guid.get(int(text, 16)) if text[:2].lower() == "0x" else self.by_lid.get(int(text))
        if found is None:
            raise FabricError(
                f"there is no port {text[:40]}; write a node, node/port, a GUID (0x) or a LID of the fabric"
            )
        return found

    def route(self) -> None:
        """Make forwarding tables of shortest paths. The LIDs of one port are spread over paths of equal length."""
        self.forwarding = {name: {} for name, node in self.nodes.items() if node.is_switch}
        uplinks: dict[str, list[tuple[str, int]]] = {name: [] for name in self.forwarding}  # switch -> (from, its port)
        for here, there in self.links.items():
            if here.node in uplinks and there.node in uplinks:
                uplinks[there.node].append((here.node, here.number))
        choices: dict[str, dict[str, list[int]]] = {}
        for port in self.end_ports:
            if port.key.node in self.forwarding:
                leaf, last = port.key.node, 0
            else:
                far = self.links.get(port.key)
                if far is None or far.node not in self.forwarding:
                    continue  # no cable, or a cable straight to another adapter
                leaf, last = far
            if leaf not in choices:
                choices[leaf] = _towards(leaf, uplinks)
            for lid in range(port.lid, port.lid + (1 << port.lmc)):
                self.forwarding[leaf][lid] = last
                for switch, ports in choices[leaf].items():
                    self.forwarding[switch][lid] = ports[lid % len(ports)]


def _towards(leaf: str, uplinks: dict[str, list[tuple[str, int]]]) -> dict[str, list[int]]:
    """Return, for each other switch that reaches `leaf`, its output ports on shortest paths."""
    distance, found = {leaf: 0}, dict[str, list[int]]()
    queue = deque([leaf])
    while queue:
        here = queue.popleft()
        for switch, number in sorted(uplinks[here]):
            if switch not in distance:
                distance[switch] = distance[here] + 1
                queue.append(switch)
            if distance[switch] == distance[here] + 1:
                found.setdefault(switch, []).append(number)
    return found


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
