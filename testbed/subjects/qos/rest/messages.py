"""Bodies and answers of REST about QoS: a fabric as it was discovered, path record queries, and the reports of the
subnet manager. Rates are in bit/s, MTUs in bytes, ports are written `node/number`, GUIDs and Service-IDs in
hexadecimal.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from testbed.frames.path_record import dscp_of
from testbed.subjects.qos.fabric import GBIT, Fabric, FabricError, Partition, PortCapabilities, PortKey
from testbed.subjects.qos.model import NodeType
from testbed.subjects.qos.records import Found, PathRecordRequest, PathRecords, Selector, Wanted
from testbed.typed_json.meta import Meta, message

Count = Annotated[int, Meta(ge=0)]
Name = Annotated[str, Meta(min_length=1, max_length=64)]
Hexadecimal = Annotated[str, Meta(pattern="0x[0-9a-fA-F]{1,16}", examples=("0x1060cbc",))]
PortName = Annotated[str, Meta(min_length=3, max_length=70, pattern=".+/[0-9]{1,3}", examples=("h1/1",))]
Rate = Annotated[int, Meta(ge=1, le=1 << 50)]
Mtu = Annotated[int, Meta(ge=256, le=1 << 16)]
Pkey = Annotated[int, Meta(ge=0, le=0xFFFF)]
Sl = Annotated[int, Meta(ge=0, le=15)]
Tclass = Annotated[int, Meta(ge=0, le=255)]


@message(name="FabricPort")
@dataclass(frozen=True)
class FabricPort:
    """A port of a node."""

    number: Annotated[int, Meta(ge=1, le=254)]
    guid: Hexadecimal
    rate: Rate
    mtu: Mtu
    vls: Annotated[int, Meta(ge=1, le=15)]


@message(name="FabricNode")
@dataclass(frozen=True)
class FabricNode:
    """A node; GUIDs of a switch's ports are not used."""

    name: Name
    type: Literal["CA", "SWITCH", "ROUTER"]
    guid: Hexadecimal
    ports: Annotated[tuple[FabricPort, ...], Meta(min_length=1, max_length=254)]
    description: Annotated[str, Meta(max_length=64)] = ""


@message(name="FabricPartition")
@dataclass(frozen=True)
class FabricPartition:
    """A partition, and the attributes of its broadcast group."""

    name: Name
    pkey: Annotated[int, Meta(ge=1, le=0x7FFF)]
    full: Annotated[tuple[PortName, ...] | None, Meta(description="null: every end port")] = None
    limited: tuple[PortName, ...] = ()
    sl: Sl = 0
    mtu: Mtu = 2048
    rate: Rate = 10 * GBIT
    tclass: Tclass = 0


@message(name="Fabric")
@dataclass(frozen=True)
class FabricMessage:
    """Nodes, cables and partitions, in the order that gives LIDs and forwarding tables."""

    nodes: Annotated[tuple[FabricNode, ...], Meta(max_length=4096)]
    links: Annotated[tuple[tuple[PortName, ...], ...], Meta(max_length=16384)] = ()
    partitions: Annotated[tuple[FabricPartition, ...], Meta(max_length=4096)] = ()
    manager: str | None = None

    @classmethod
    def of(cls, fabric: Fabric) -> FabricMessage:
        """Return the message from which `fabric` makes the same fabric."""
        nodes = []
        for node in fabric.nodes.values():
            ports = tuple(
                FabricPort(port.number, _hex(_guid(fabric, node.name, port)), port.rate, port.mtu, port.vls)
                for port in node.ports.values()
            )
            kind: Any = str(node.kind)
            nodes.append(FabricNode(node.name, kind, _hex(node.guid), ports, node.description))
        links = tuple((_named(one), _named(other)) for one, other in fabric.links.items() if one < other)
        partitions = tuple(
            FabricPartition(
                one.name,
                one.pkey,
                None if one.full is None else tuple(map(_named, sorted(one.full))),
                tuple(map(_named, sorted(one.limited))),
                one.sl,
                one.mtu,
                one.rate,
                one.tclass,
            )
            for one in fabric.partitions
        )
        return cls(tuple(nodes), links, partitions, fabric.manager)

    def fabric(self) -> Fabric:
        """Return the fabric; FabricError if it contradicts itself."""
        fabric = Fabric()
        for node in self.nodes:
            fabric.add(
                node.name,
                NodeType(node.type),
                int(node.guid, 16),
                [PortCapabilities(port.number, port.rate, port.mtu, port.vls) for port in node.ports],
                description=node.description,
                guids={port.number: int(port.guid, 16) for port in node.ports},
            )
        for ends in self.links:
            if len(ends) != 2:
                raise FabricError(f"a link has two ends, not {len(ends)}")
            fabric.connect(_key(ends[0]), _key(ends[1]))
        for one in self.partitions:
            fabric.partition(
                Partition(
                    one.name,
                    one.pkey,
                    None if one.full is None else frozenset(map(_key, one.full)),
                    frozenset(map(_key, one.limited)),
                    one.sl,
                    one.mtu,
                    one.rate,
                    one.tclass,
                )
            )
        if self.manager is not None and self.manager not in fabric.nodes:
            raise FabricError(f"manager {self.manager!r}: there is no such node")
        fabric.manager = self.manager
        fabric.route()
        return fabric


def _guid(fabric: Fabric, node: str, port: PortCapabilities) -> int:
    end = fabric.by_key.get(PortKey(node, port.number))
    return end.guid if end else fabric.nodes[node].guid


def _hex(number: int) -> str:
    return f"0x{number:016x}"


def _named(key: PortKey) -> str:
    return f"{key.node}/{key.number}"


def _key(text: str) -> PortKey:
    node, _, number = text.rpartition("/")
    return PortKey(node, int(number))


SelectorName = Literal["greater", "less", "exactly", "best"]


@message(name="PathQuery")
@dataclass(frozen=True)
class PathQuery:
    """A PathRecord request. A field that is null is not asked for, as if its component mask bit were off."""

    source: Annotated[str, Meta(name="from", min_length=1, max_length=70, description="Node, node/port, GUID or LID")]
    destination: Annotated[str, Meta(name="to", min_length=1, max_length=70)]
    service_id: Hexadecimal | None = None
    tclass: Tclass | None = None
    qos_class: Annotated[int, Meta(ge=0, le=0xFFF)] | None = None
    pkey: Pkey | None = None
    sl: Sl | None = None
    mtu: Mtu | None = None
    mtu_selector: SelectorName = "exactly"
    rate: Rate | None = None
    rate_selector: SelectorName = "exactly"

    def request(self, fabric: Fabric) -> PathRecordRequest:
        """Return the request; FabricError if there is no such port."""
        return PathRecordRequest(
            sgid=fabric.end_port(self.source).gid,
            dgid=fabric.end_port(self.destination).gid,
            service_id=None if self.service_id is None else int(self.service_id, 16),
            tclass=self.tclass,
            qos_class=self.qos_class,
            pkey=self.pkey,
            sl=self.sl,
            mtu=_wanted(self.mtu, self.mtu_selector),
            rate=_wanted(self.rate, self.rate_selector),
        )


def _wanted(value: int | None, selector: SelectorName) -> Wanted | None:
    return None if value is None else Wanted(value, Selector[selector.upper()])


@message(name="PathRecord")
@dataclass(frozen=True)
class PathView:
    """A path, and how its traffic is marked on Ethernet."""

    source: Annotated[str, Meta(name="from")]
    destination: Annotated[str, Meta(name="to")]
    slid: Count
    dlid: Count
    sl: Sl
    dscp: Annotated[int, Meta(ge=0, le=63, description="What carries the SL on Ethernet")]
    mtu: Count
    rate: Count
    tclass: Tclass
    pkey: Pkey
    packet_life: Count
    hops: Count
    level: str
    rule: Annotated[int | None, Meta(description="Number of the rule, from 1; null: a default level")]

    @classmethod
    def of(cls, found: Found) -> PathView:
        return cls(
            _named(found.source.key),
            _named(found.destination.key),
            found.slid,
            found.dlid,
            found.sl,
            dscp_of(found.sl),
            found.mtu,
            found.rate,
            found.tclass,
            found.pkey,
            found.packet_life,
            found.hops,
            found.level.name.strip('"'),
            None if found.rule is None else found.rule + 1,
        )


@message(name="PathAnswer")
@dataclass(frozen=True)
class PathAnswer:
    """A path, or the reason why there is none."""

    found: bool
    path: PathView | None = None
    reason: str = ""
    message: str = ""

    @classmethod
    def of(cls, query: PathQuery, records: PathRecords) -> PathAnswer:
        answer = records.query(query.request(records.fabric))
        if isinstance(answer, Found):
            return cls(True, PathView.of(answer))
        return cls(False, None, str(answer.reason), answer.message)


@message(name="PolicyProblem")
@dataclass(frozen=True)
class ProblemView:
    """An error or a warning of a policy; on the fabric it may have no line."""

    severity: str
    message: str
    line: Count = 0
    column: Count = 0
    expected: str = ""
    node: str | None = None


@message(name="QosPolicy")
@dataclass(frozen=True)
class PolicyView:
    """The policy in force."""

    revision: Count
    syntax: str
    text: str
    port_groups: Count
    levels: Count
    rules: Count
    warnings: tuple[ProblemView, ...]


@message(name="QosReport")
@dataclass(frozen=True)
class SweepReport:
    """The findings and changes of the subnet manager at its last sweep."""

    revision: Count
    drift: Annotated[tuple[str, ...], Meta(max_length=1000)] = ()
    changes: Count = 0
    dropped: Mapping[str, tuple[Count, ...]] = field(default_factory=dict)
