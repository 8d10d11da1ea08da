"""The tables of a config_db.json that decide about lossless traffic, as typed rows.

Names are SONiC's own. Sizes are bytes, times milliseconds and speeds Mb/s, as in the file. None is a field that the
file does not have.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TypeVar

NULL = "NULL"
"""In place of a profile's name: the profile for the port's speed and cable length."""
GLOBAL = "global"
"""In place of a port in PORT_QOS_MAP: for ports that have no map of their own."""
Row = TypeVar("Row")
Ports = Mapping[str, Row]
Places = Mapping[tuple[str, int], Row]
"""By port, and number of the priority group or queue."""


class PoolType(enum.StrEnum):
    INGRESS = "ingress"
    EGRESS = "egress"
    BOTH = "both"


class Mode(enum.StrEnum):
    STATIC = "static"
    DYNAMIC = "dynamic"


class Ecn(enum.StrEnum):
    """Which colours WRED marks instead of dropping."""

    NONE = "ecn_none"
    GREEN = "ecn_green"
    YELLOW = "ecn_yellow"
    RED = "ecn_red"
    GREEN_YELLOW = "ecn_green_yellow"
    GREEN_RED = "ecn_green_red"
    YELLOW_RED = "ecn_yellow_red"
    ALL = "ecn_all"

    @property
    def marks_green(self) -> bool:
        return "green" in self.value or self is Ecn.ALL


class SchedulerType(enum.StrEnum):
    DWRR = "DWRR"
    WRR = "WRR"
    STRICT = "STRICT"


class WatchdogAction(enum.StrEnum):
    DROP = "drop"
    FORWARD = "forward"
    ALERT = "alert"


TRAFFIC_CLASSES = range(16)


class MapKind(enum.StrEnum):
    """The tables of maps, by the field of PORT_QOS_MAP that names one."""

    DSCP_TO_TC = "dscp_to_tc_map"
    DOT1P_TO_TC = "dot1p_to_tc_map"
    TC_TO_PG = "tc_to_pg_map"
    TC_TO_QUEUE = "tc_to_queue_map"
    PFC_TO_QUEUE = "pfc_to_queue_map"
    PFC_TO_PG = "pfc_to_pg_map"

    @property
    def table(self) -> str:
        return _MAP_TABLES[self]

    @property
    def sources(self) -> range:
        """What is mapped."""
        if self is MapKind.DSCP_TO_TC:
            return range(64)
        return TRAFFIC_CLASSES if self in (MapKind.TC_TO_PG, MapKind.TC_TO_QUEUE) else range(8)

    @property
    def targets(self) -> range:
        """What it is mapped to in the lab: the model has eight groups and eight queues."""
        return TRAFFIC_CLASSES if self in (MapKind.DSCP_TO_TC, MapKind.DOT1P_TO_TC) else range(8)


_MAP_TABLES = {
    MapKind.DSCP_TO_TC: "DSCP_TO_TC_MAP",
    MapKind.DOT1P_TO_TC: "DOT1P_TO_TC_MAP",
    MapKind.TC_TO_PG: "TC_TO_PRIORITY_GROUP_MAP",
    MapKind.TC_TO_QUEUE: "TC_TO_QUEUE_MAP",
    MapKind.PFC_TO_QUEUE: "MAP_PFC_PRIORITY_TO_QUEUE",
    MapKind.PFC_TO_PG: "PFC_PRIORITY_TO_PRIORITY_GROUP_MAP",
}


@dataclass(frozen=True)
class PortRow:
    """PORT"""

    speed: int
    lanes: str = ""
    alias: str = ""
    mtu: int | None = None
    admin_up: bool = True
    """Also where the file has no status: whoever checks a file means its ports."""


@dataclass(frozen=True)
class NeighbourRow:
    """DEVICE_NEIGHBOR"""

    name: str
    port: str = ""


@dataclass(frozen=True)
class PoolRow:
    """BUFFER_POOL"""

    type: PoolType
    mode: Mode
    size: int | None = None
    """None: the switch divides its memory itself (dynamic buffer model)."""
    xoff: int | None = None
    """The headroom that all groups share; None: each has its own."""


@dataclass(frozen=True)
class ProfileRow:
    """BUFFER_PROFILE"""

    pool: str
    size: int = 0
    """Reserved."""
    xon: int | None = None
    xon_offset: int | None = None
    xoff: int | None = None
    """Headroom; a profile that has it is for lossless groups."""
    dynamic_th: int | None = None
    """The power of two that alpha is."""
    static_th: int | None = None

    @property
    def lossless(self) -> bool:
        return self.xoff is not None


@dataclass(frozen=True)
class QosRow:
    """PORT_QOS_MAP"""

    maps: Mapping[MapKind, str] = field(default_factory=dict)
    pfc_enable: frozenset[int] | None = None
    pfcwd_sw_enable: frozenset[int] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "maps", MappingProxyType(dict(self.maps)))


@dataclass(frozen=True)
class WredRow:
    """WRED_PROFILE, the green part; switches that mark do not colour RoCE otherwise."""

    ecn: Ecn = Ecn.NONE
    green_min_threshold: int | None = None
    green_max_threshold: int | None = None
    green_drop_probability: int | None = None
    """Percent."""


@dataclass(frozen=True)
class SchedulerRow:
    """SCHEDULER"""

    type: SchedulerType
    weight: int | None = None


@dataclass(frozen=True)
class QueueRow:
    """QUEUE"""

    scheduler: str | None = None
    wred_profile: str | None = None


@dataclass(frozen=True)
class WatchdogRow:
    """PFC_WD"""

    action: WatchdogAction = WatchdogAction.DROP
    detection_time: int = 0
    restoration_time: int | None = None


_SHARED_SIZES = ("mlnx", "nvidia")


@dataclass(frozen=True)
class Tables:
    """One switch."""

    hostname: str = ""
    platform: str = ""
    """As in "x86_64-mlnx_msn2700-r0"."""
    ports: Ports[PortRow] = field(default_factory=dict)
    cables: Ports[str] = field(default_factory=dict)
    """CABLE_LENGTH of each port, as in "300m"."""
    neighbours: Ports[NeighbourRow] = field(default_factory=dict)
    pools: Mapping[str, PoolRow] = field(default_factory=dict)
    profiles: Mapping[str, ProfileRow] = field(default_factory=dict)
    groups: Places[str] = field(default_factory=dict)
    """The profile of each priority group (BUFFER_PG), or NULL."""
    queue_profiles: Places[str] = field(default_factory=dict)
    """BUFFER_QUEUE"""
    qos: Ports[QosRow] = field(default_factory=dict)
    maps: Mapping[tuple[MapKind, str], Mapping[int, int]] = field(default_factory=dict)
    wred: Mapping[str, WredRow] = field(default_factory=dict)
    schedulers: Mapping[str, SchedulerRow] = field(default_factory=dict)
    queues: Places[QueueRow] = field(default_factory=dict)
    watchdogs: Ports[WatchdogRow] = field(default_factory=dict)
    watchdog_poll: int | None = None
    own: Mapping[str, Mapping[str, Mapping[str, str]]] = field(default_factory=dict)
    """Tables of Xoff's for what SONiC has no field for, as they stand in the file."""

    def profile_name(self, port: str, group: int) -> str | None:
        """Return the profile of a priority group, with NULL resolved; None: the group has none."""
        name = self.groups.get((port, group))
        if name != NULL:
            return name
        return f"pg_lossless_{self.ports[port].speed}_{self.cables.get(port, '')}_profile"

    @property
    def sizes_are_shared(self) -> bool:
        """True if a pool's size is what its groups share, without what they reserve and `xoff` (decision 0285)."""
        return any(vendor in self.platform for vendor in _SHARED_SIZES)

    def profile(self, port: str, group: int) -> ProfileRow | None:
        name = self.profile_name(port, group)
        return None if name is None else self.profiles.get(name)

    def qos_of(self, port: str) -> QosRow:
        """Return the port's row; maps that it does not name are those of `global`."""
        own, common = self.qos.get(port, QosRow()), self.qos.get(GLOBAL, QosRow())
        return QosRow({**common.maps, **own.maps}, own.pfc_enable, own.pfcwd_sw_enable)

    def map_of(self, port: str, kind: MapKind) -> Mapping[int, int] | None:
        """Return the map that a port uses; None: it names none."""
        name = self.qos_of(port).maps.get(kind)
        return None if name is None else self.maps.get((kind, name))

    def pfc_of(self, port: str) -> frozenset[int]:
        return self.qos_of(port).pfc_enable or frozenset()

    def watched(self, port: str) -> frozenset[int]:
        """Return the priorities that the watchdog watches: those of pfcwd_sw_enable, or all with PFC."""
        row = self.qos_of(port)
        chosen = row.pfcwd_sw_enable
        return (row.pfc_enable or frozenset()) if chosen is None else chosen
