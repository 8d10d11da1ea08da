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
"""The word, in place of a profile's name, for the profile of the port's speed and cable length."""
GLOBAL = "global"
"""The word, in place of a port in PORT_QOS_MAP, for all ports that have no map of their own."""
Row = TypeVar("Row")
Ports = Mapping[str, Row]
Places = Mapping[tuple[str, int], Row]
"""Names by port, and number of the priority group or queue."""


class PoolType(enum.StrEnum):
    INGRESS = "ingress"
    EGRESS = "egress"
    BOTH = "both"


class Mode(enum.StrEnum):
    STATIC = "static"
    DYNAMIC = "dynamic"


class Ecn(enum.StrEnum):
    """The colours that WRED marks instead of dropping."""

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


class DiscardAction(enum.StrEnum):
    """The action for a packet that its queue has no room for."""

    DROP = "drop"
    TRIM = "trim"


class LlrMode(enum.StrEnum):
    """The origin of a port's LLR_PORT settings: the file, or negotiation by LLDP."""

    STATIC = "static"
    DYNAMIC = "dynamic"


class LlrFrameAction(enum.StrEnum):
    """The action for frames while a sender has no numbers for them."""

    DISCARD = "discard"
    BLOCK = "block"
    BEST_EFFORT = "best_effort"


FROM_TC, DYNAMIC = "from-tc", "dynamic"
"""The words, in place of numbers, for a DSCP by the egress port's map and for a queue by the packet's new class."""
DISABLE_TRIM = "DISABLE_TRIM"
TRAFFIC_CLASSES = range(16)


class MapKind(enum.StrEnum):
    """The tables of maps, by the field of PORT_QOS_MAP that names one."""

    DSCP_TO_TC = "dscp_to_tc_map"
    DOT1P_TO_TC = "dot1p_to_tc_map"
    TC_TO_PG = "tc_to_pg_map"
    TC_TO_QUEUE = "tc_to_queue_map"
    PFC_TO_QUEUE = "pfc_to_queue_map"
    PFC_TO_PG = "pfc_to_pg_map"
    TC_TO_DSCP = "tc_to_dscp_map"

    @property
    def table(self) -> str:
        return _MAP_TABLES[self]

    @property
    def sources(self) -> range:
        """The values that the map maps."""
        if self is MapKind.DSCP_TO_TC:
            return range(64)
        return TRAFFIC_CLASSES if self in (MapKind.TC_TO_PG, MapKind.TC_TO_QUEUE, MapKind.TC_TO_DSCP) else range(8)

    @property
    def targets(self) -> range:
        """The values that it maps to in the lab, whose model has eight groups and eight queues."""
        if self is MapKind.TC_TO_DSCP:
            return range(64)
        return TRAFFIC_CLASSES if self in (MapKind.DSCP_TO_TC, MapKind.DOT1P_TO_TC) else range(8)


_MAP_TABLES = {
    MapKind.DSCP_TO_TC: "DSCP_TO_TC_MAP",
    MapKind.DOT1P_TO_TC: "DOT1P_TO_TC_MAP",
    MapKind.TC_TO_PG: "TC_TO_PRIORITY_GROUP_MAP",
    MapKind.TC_TO_QUEUE: "TC_TO_QUEUE_MAP",
    MapKind.PFC_TO_QUEUE: "MAP_PFC_PRIORITY_TO_QUEUE",
    MapKind.PFC_TO_PG: "PFC_PRIORITY_TO_PRIORITY_GROUP_MAP",
    MapKind.TC_TO_DSCP: "TC_TO_DSCP_MAP",
}


@dataclass(frozen=True)
class PortRow:
    """A row of PORT."""

    speed: int
    lanes: str = ""
    alias: str = ""
    mtu: int | None = None
    admin_up: bool = True
    """True if the port is up, also if the file has no status: a user who checks a file means its ports."""
    fec: str = ""
    """The forward error correction: rs, fc, none or auto; empty if the file has none."""


@dataclass(frozen=True)
class NeighbourRow:
    """A row of DEVICE_NEIGHBOR."""

    name: str
    port: str = ""


@dataclass(frozen=True)
class PoolRow:
    """A row of BUFFER_POOL."""

    type: PoolType
    mode: Mode
    size: int | None = None
    """The bytes, or None if the switch divides its memory itself (dynamic buffer model)."""
    xoff: int | None = None
    """The headroom that all groups share, or None if each has its own."""


@dataclass(frozen=True)
class ProfileRow:
    """A row of BUFFER_PROFILE."""

    pool: str
    size: int = 0
    """The reserved bytes."""
    xon: int | None = None
    xon_offset: int | None = None
    xoff: int | None = None
    """The bytes of headroom. A profile that has it is for lossless groups."""
    dynamic_th: int | None = None
    """The exponent of alpha, which is a power of two."""
    static_th: int | None = None
    packet_discard_action: DiscardAction | None = None

    @property
    def lossless(self) -> bool:
        return self.xoff is not None


@dataclass(frozen=True)
class QosRow:
    """A row of PORT_QOS_MAP."""

    maps: Mapping[MapKind, str] = field(default_factory=dict)
    pfc_enable: frozenset[int] | None = None
    pfcwd_sw_enable: frozenset[int] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "maps", MappingProxyType(dict(self.maps)))


@dataclass(frozen=True)
class WredRow:
    """The green part of a row of WRED_PROFILE. Switches that mark give RoCE no other colour."""

    ecn: Ecn = Ecn.NONE
    green_min_threshold: int | None = None
    green_max_threshold: int | None = None
    green_drop_probability: int | None = None
    """The probability in percent."""


@dataclass(frozen=True)
class SchedulerRow:
    """A row of SCHEDULER."""

    type: SchedulerType
    weight: int | None = None


@dataclass(frozen=True)
class QueueRow:
    """A row of QUEUE."""

    scheduler: str | None = None
    wred_profile: str | None = None


@dataclass(frozen=True)
class WatchdogRow:
    """A row of PFC_WD."""

    action: WatchdogAction = WatchdogAction.DROP
    detection_time: int = 0
    restoration_time: int | None = None


@dataclass(frozen=True)
class TrimmingRow:
    """The row GLOBAL of SWITCH_TRIMMING: numbers, or the words `from-tc` and `dynamic`."""

    size: int | None = None
    dscp_value: int | str | None = None
    tc_value: int | None = None
    queue_index: int | str | None = None

    @property
    def is_complete(self) -> bool:
        """True if the row says all that a switch needs to trim."""
        needs_class = self.dscp_value == FROM_TC and self.tc_value is None
        return None not in (self.size, self.dscp_value, self.queue_index) and not needs_class


@dataclass(frozen=True)
class AclTableRow:
    """A row of ACL_TABLE."""

    type: str
    stage: str = "ingress"
    ports: tuple[str, ...] = ()
    policy_desc: str = ""


@dataclass(frozen=True)
class AclRuleRow:
    """A row of ACL_RULE with the action DISABLE_TRIM; others are not modelled."""

    priority: int
    matches: Mapping[str, str] = field(default_factory=dict)
    """The packets' fields by SONiC's names, as SRC_IP."""


@dataclass(frozen=True)
class LlrPortRow:
    """A row of LLR_PORT."""

    mode: LlrMode | None = None
    """The mode; None is that of LLR_CONFIG, which is static without it."""
    local: bool = False
    """True if the port receives with LLR."""
    remote: bool = False
    """True if the port sends with LLR."""
    profile: str | None = None
    """The profile of LLR_PROFILE; None is that of the port's speed and cable length."""


@dataclass(frozen=True)
class LlrProfileRow:
    """A row of LLR_PROFILE. Times are nanoseconds, and 0 is none."""

    max_outstanding_frames: int
    max_outstanding_bytes: int
    max_replay_count: int = 1
    max_replay_timer: int = 0
    pcs_lost_timeout: int = 0
    data_age_timeout: int = 0
    ctlos_spacing_bytes: int = 2048
    init_action: LlrFrameAction = LlrFrameAction.BEST_EFFORT
    flush_action: LlrFrameAction = LlrFrameAction.BEST_EFFORT


_SHARED_SIZES = ("mlnx", "nvidia")


@dataclass(frozen=True)
class Tables:
    """The tables of one switch."""

    hostname: str = ""
    platform: str = ""
    """The platform, as in "x86_64-mlnx_msn2700-r0"."""
    ports: Ports[PortRow] = field(default_factory=dict)
    cables: Ports[str] = field(default_factory=dict)
    """The length of each port's cable (CABLE_LENGTH), as in "300m"."""
    neighbours: Ports[NeighbourRow] = field(default_factory=dict)
    pools: Mapping[str, PoolRow] = field(default_factory=dict)
    profiles: Mapping[str, ProfileRow] = field(default_factory=dict)
    groups: Places[str] = field(default_factory=dict)
    """The profile of each priority group (BUFFER_PG), or NULL."""
    queue_profiles: Places[str] = field(default_factory=dict)
    """The profile of each queue (BUFFER_QUEUE)."""
    qos: Ports[QosRow] = field(default_factory=dict)
    maps: Mapping[tuple[MapKind, str], Mapping[int, int]] = field(default_factory=dict)
    wred: Mapping[str, WredRow] = field(default_factory=dict)
    schedulers: Mapping[str, SchedulerRow] = field(default_factory=dict)
    queues: Places[QueueRow] = field(default_factory=dict)
    watchdogs: Ports[WatchdogRow] = field(default_factory=dict)
    watchdog_poll: int | None = None
    over_subscribe: int | None = None
    """By how much the sum of all headrooms exceeds the headroom pool (`over_subscribe_ratio`) where a pool has no
    `xoff`; None: there is no shared headroom pool then."""
    channels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The members of each port channel (PORTCHANNEL_MEMBER). Each is a link of its own to PFC and to buffers."""
    trimming: TrimmingRow | None = None
    acl_types: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = field(default_factory=dict)
    """The matches and actions of each type of ACL tables (ACL_TABLE_TYPE)."""
    acl_tables: Mapping[str, AclTableRow] = field(default_factory=dict)
    """The ACL tables that have a rule with DISABLE_TRIM, or whose type has this action."""
    acl_rules: Mapping[tuple[str, str], AclRuleRow] = field(default_factory=dict)
    """The rules with DISABLE_TRIM, by table and name."""
    llr_mode: LlrMode | None = None
    """The mode of ports whose rows have none (LLR_CONFIG)."""
    llr_ports: Ports[LlrPortRow] = field(default_factory=dict)
    llr_profiles: Mapping[str, LlrProfileRow] = field(default_factory=dict)
    own: Mapping[str, Mapping[str, Mapping[str, str]]] = field(default_factory=dict)
    """Xoff's own tables, for settings that SONiC has no field for, as they stand in the file."""

    def profile_name(self, port: str, group: int) -> str | None:
        """Return the profile of a priority group, with NULL resolved, or None if the group has none."""
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
        """Return the port's row. Maps that it does not name are those of `global`."""
        own, common = self.qos.get(port, QosRow()), self.qos.get(GLOBAL, QosRow())
        return QosRow({**common.maps, **own.maps}, own.pfc_enable, own.pfcwd_sw_enable)

    def map_of(self, port: str, kind: MapKind) -> Mapping[int, int] | None:
        """Return the map that a port uses, or None if it names none."""
        name = self.qos_of(port).maps.get(kind)
        return None if name is None else self.maps.get((kind, name))

    def pfc_of(self, port: str) -> frozenset[int]:
        return self.qos_of(port).pfc_enable or frozenset()

    def watched(self, port: str) -> frozenset[int]:
        """Return the priorities that the watchdog watches: those of pfcwd_sw_enable, or all with PFC."""
        row = self.qos_of(port)
        chosen = row.pfcwd_sw_enable
        return (row.pfc_enable or frozenset()) if chosen is None else chosen
