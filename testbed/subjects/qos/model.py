"""A QoS policy as both syntaxes give it: port groups, fabric setup, levels, match rules (QoS RFC section 3), and ULPs.

Names of groups and levels are compared without regard to case, as OpenSM does. A `position` is where the thing stood
in its file; it does not count when two policies are compared.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import NamedTuple

from testbed.strict.problems import Position
from testbed.subjects.qos.numbers import Ranges
from testbed.subjects.qos.syntax.source import START

SLS, VLS = range(16), range(16)
DROP_VL = 15
"""The VL of management. Data that is mapped to it is dropped."""
DEFAULT_NAME = "DEFAULT"
"""OpenSM's name of the level for requests that no rule matches."""


class NodeType(enum.StrEnum):
    """A type of node: a port group can have all ports of the nodes of one. What the RFC calls HCA is CA in OpenSM."""

    CA = "CA"
    SWITCH = "SWITCH"
    ROUTER = "ROUTER"
    SELF = "SELF"  # the node that the subnet manager runs on
    ALL = "ALL"


def same(name: str) -> str:
    """Return the form of a name that all its spellings have in common."""
    return name.casefold()


@dataclass(frozen=True)
class PortGroup:
    """A group of ports, named in any of five ways. A port belongs to the group if one of them names it."""

    name: str
    use: str = ""
    port_guids: Ranges = Ranges()
    port_names: tuple[str, ...] = ()  # node description and port, as in vs1/HCA-1/P1
    partitions: tuple[str, ...] = ()
    pkeys: Ranges = Ranges()
    node_types: tuple[NodeType, ...] = ()
    position: Position = field(default=START, compare=False)


ANY_PORT = None
"""`*` in place of a list of port numbers."""


@dataclass(frozen=True)
class Sl2VlScope:
    """One SL2VL table, and the devices and ports that it is for."""

    table: tuple[int, ...]  # the VL of each of 16 SLs
    groups: tuple[str, ...] = ()
    across_from: tuple[str, ...] = ()  # input ports at the other end of links from these groups
    across_to: tuple[str, ...] = ()  # output ports, likewise; the RFC's `across`
    from_ports: Ranges | None = ANY_PORT
    to_ports: Ranges | None = ANY_PORT
    use: str = ""
    position: Position = field(default=START, compare=False)


class VlWeight(NamedTuple):
    """An entry of a VL arbitration table."""

    vl: int
    weight: int  # in units of 64 bytes; 0 leaves the entry out


@dataclass(frozen=True)
class VlArbScope:
    """The two arbitration tables of output ports, and the limit of the high one."""

    groups: tuple[str, ...] = ()
    across: tuple[str, ...] = ()
    to_ports: Ranges | None = ANY_PORT
    high: tuple[VlWeight, ...] | None = None  # None: not given, and left as it is
    low: tuple[VlWeight, ...] | None = None
    high_limit: int | None = None  # in units of 4096 bytes; 255 is without limit, 0 one packet
    use: str = ""
    position: Position = field(default=START, compare=False)


@dataclass(frozen=True)
class QosLevel:
    """A level of service that a request may be mapped to; None is no limit, or not set."""

    name: str  # the RFC's sn, or OpenSM's name
    sl: int
    use: str = ""
    tclass: int | None = None
    mtu_limit: int | None = None  # bytes
    rate_limit: int | None = None  # bit/s
    path_bits: int | None = None
    packet_life: int | None = None  # code: 4.096 us times two to its power
    pkeys: Ranges = Ranges()
    position: Position = field(default=START, compare=False)


@dataclass(frozen=True)
class MatchRule:
    """A rule, all of whose given criteria have to match; each is a list of values, of which one has to match."""

    level: str
    sn: int | None = None
    use: str = ""
    sources: tuple[str, ...] = ()
    destinations: tuple[str, ...] = ()
    service_ids: Ranges = Ranges()
    tclasses: Ranges = Ranges()
    qos_classes: Ranges = Ranges()
    pkeys: Ranges = Ranges()
    position: Position = field(default=START, compare=False)


class Ulp(enum.StrEnum):
    """An upper-layer protocol of the short form."""

    DEFAULT = "default"
    SDP = "sdp"
    RDS = "rds"
    ISER = "iser"
    SRP = "srp"
    IPOIB = "ipoib"
    ANY = "any"


class UlpKey(enum.StrEnum):
    """The key by which a line of the short form selects requests."""

    PORT_NUM = "port-num"
    PKEY = "pkey"
    SERVICE_ID = "service-id"
    TARGET_PORT_GUID = "target-port-guid"
    SOURCE_PORT_GUID = "source-port-guid"
    SOURCE_TARGET_PORT_GUID = "source-target-port-guid"


@dataclass(frozen=True)
class UlpRule:
    """One line of `qos-ulps`: an SL for a protocol; what it matches is in `testbed.subjects.qos.matching`."""

    ulp: Ulp
    sl: int
    key: UlpKey | None = None
    values: Ranges = Ranges()
    position: Position = field(default=START, compare=False)


@dataclass(frozen=True)
class PartitionDefault:
    """The level of requests for a partition that no rule matches (QoS RFC section 2.2)."""

    partition: str
    level: str
    position: Position = field(default=START, compare=False)


@dataclass(frozen=True)
class Policy:
    """The whole policy."""

    port_groups: tuple[PortGroup, ...] = ()
    sl2vl: tuple[Sl2VlScope, ...] = ()
    vlarb: tuple[VlArbScope, ...] = ()
    levels: tuple[QosLevel, ...] = ()
    rules: tuple[MatchRule, ...] = ()
    ulps: tuple[UlpRule, ...] = ()
    default_level: str | None = None
    partition_defaults: tuple[PartitionDefault, ...] = ()
    default_position: Position = field(default=START, compare=False)

    def level(self, name: str) -> QosLevel | None:
        return next((level for level in self.levels if same(level.name) == same(name)), None)
