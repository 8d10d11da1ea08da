"""The families that Xoff exports, each with the name of the counter that a SONiC switch has for the same.

SAI has the priority in the name of a counter (SAI_PORT_STAT_PFC_3_RX_PKTS), and OpenMetrics has it in a label, so that
priorities can be summed. So a family has a name by the rules of OpenMetrics, and each of its series has the name that
the counter has in SONiC's COUNTERS_DB as the label `sonic`: `{sonic="SAI_PORT_STAT_PFC_3_RX_PKTS"}` finds it. A series
has that label only where its value is what the switch's counter shows, in the same unit (decision 0520).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from testbed.metrics.openmetrics import Family, Kind, Value


@dataclass(frozen=True)
class Exported:
    """A family that is exported. `sonic` has its other labels in braces, where SONiC's name has them."""

    name: str
    kind: Kind
    help: str
    unit: str = ""
    sonic: str = ""

    @property
    def sample(self) -> str:
        """The name that a query has."""
        return self.name + self.kind.suffix


_PFC, _QUEUE, _GROUP = "SAI_PORT_STAT_PFC_{priority}_", "SAI_QUEUE_STAT_", "SAI_INGRESS_PRIORITY_GROUP_STAT_"
_WATCHDOG = "PFC_WD_QUEUE_STATS_"
_C, _G = Kind.COUNTER, Kind.GAUGE

PFC_RECEIVED = Exported(
    "xoff_pfc_received_frames", _C, "PFC frames received for a priority, obeyed or not.", "frames", f"{_PFC}RX_PKTS"
)
PFC_SENT = Exported("xoff_pfc_sent_frames", _C, "PFC frames sent for a priority.", "frames", f"{_PFC}TX_PKTS")
PFC_PAUSED = Exported(
    "xoff_pfc_paused_seconds", _C, "Time for which a priority was not sent because of PFC, in the lab's time.",
    "seconds",
)  # fmt: skip
PFC_CONGESTED = Exported("xoff_pfc_congestions", _C, "Times that a priority's buffer crossed its XOFF threshold.")
STORMS = Exported(
    "xoff_pfc_watchdog_storms", _C, "Storms that the PFC watchdog has detected.", "", f"{_WATCHDOG}DEADLOCK_DETECTED"
)
STORMS_ENDED = Exported(
    "xoff_pfc_watchdog_storms_ended", _C, "Storms whose end the PFC watchdog has seen.", "",
    f"{_WATCHDOG}DEADLOCK_RESTORED",
)  # fmt: skip
STORMED = Exported("xoff_pfc_watchdog_stormed", _G, "1 while the PFC watchdog holds PFC off for a priority, else 0.")
BLOCKED = Exported(
    "xoff_pfc_watchdog_dropped_frames", _C, "Frames to a queue that the PFC watchdog dropped during storms.", "frames",
    f"{_WATCHDOG}TX_DROPPED_PACKETS",
)  # fmt: skip
QUEUE_FRAMES = Exported("xoff_queue_frames", _C, "Frames put into a queue.", "frames", f"{_QUEUE}PACKETS")
QUEUE_BYTES = Exported("xoff_queue_bytes", _C, "Octets of the frames put into a queue.", "bytes", f"{_QUEUE}BYTES")
QUEUE_DROPPED = Exported(
    "xoff_queue_dropped_frames", _C, "Frames that a queue's limits dropped.", "frames", f"{_QUEUE}DROPPED_PACKETS"
)
QUEUE_TRIMMED = Exported(
    "xoff_queue_trimmed_frames", _C, "Frames for a queue that was full that were trimmed.", "frames",
    f"{_QUEUE}TRIM_PACKETS",
)  # fmt: skip
RESTS_SENT = Exported(
    "xoff_queue_trimmed_sent_frames", _C, "Those of them of which the rest was sent, by another queue.", "frames"
)
RESTS_DROPPED = Exported(
    "xoff_queue_trimmed_dropped_frames", _C, "Those of them of which the rest found no room.", "frames"
)
QUEUE_OCCUPANCY = Exported(
    "xoff_queue_occupancy_bytes", _G, "Octets of the frames that wait in a queue.", "bytes",
    f"{_QUEUE}CURR_OCCUPANCY_BYTES",
)  # fmt: skip
QUEUE_WATERMARK = Exported(
    "xoff_queue_watermark_bytes", _G, "The most octets that have waited in a queue.", "bytes",
    f"{_QUEUE}WATERMARK_BYTES",
)  # fmt: skip
ECN_MARKED = Exported(
    "xoff_port_ecn_marked_frames", _C, "Frames that ECN has marked at a port.", "frames",
    "SAI_PORT_STAT_ECN_MARKED_PACKETS",
)  # fmt: skip
GROUP_FRAMES = Exported(
    "xoff_priority_group_frames", _C, "Frames that a priority group has admitted.", "frames", f"{_GROUP}PACKETS"
)
GROUP_DROPPED = Exported(
    "xoff_priority_group_dropped_frames", _C, "Frames of a priority group that found no room.", "frames",
    f"{_GROUP}DROPPED_PACKETS",
)  # fmt: skip
GROUP_SHARED = Exported(
    "xoff_priority_group_shared_occupancy_bytes", _G, "Shared buffer that a priority group uses, in whole cells.",
    "bytes", f"{_GROUP}SHARED_CURR_OCCUPANCY_BYTES",
)  # fmt: skip
GROUP_HEADROOM = Exported(
    "xoff_priority_group_headroom_occupancy_bytes", _G, "Headroom that a priority group uses, in whole cells.",
    "bytes", f"{_GROUP}XOFF_ROOM_CURR_OCCUPANCY_BYTES",
)  # fmt: skip
GROUP_SHARED_WATERMARK = Exported(
    "xoff_priority_group_shared_watermark_bytes", _G, "The most shared buffer that a priority group has used.",
    "bytes", f"{_GROUP}SHARED_WATERMARK_BYTES",
)  # fmt: skip
GROUP_HEADROOM_WATERMARK = Exported(
    "xoff_priority_group_headroom_watermark_bytes", _G, "The most headroom that a priority group has used.",
    "bytes", f"{_GROUP}XOFF_ROOM_WATERMARK_BYTES",
)  # fmt: skip
POOL_OCCUPANCY = Exported(
    "xoff_buffer_pool_occupancy_bytes", _G, "Shared buffer of a pool in use, in whole cells.", "bytes",
    "SAI_BUFFER_POOL_STAT_CURR_OCCUPANCY_BYTES",
)  # fmt: skip
POOL_WATERMARK = Exported(
    "xoff_buffer_pool_watermark_bytes", _G, "The most shared buffer of a pool that was in use.", "bytes",
    "SAI_BUFFER_POOL_STAT_WATERMARK_BYTES",
)  # fmt: skip
LLR_COUNTER = Exported(
    "xoff_llr_counter", _C, "What a port with Link Layer Retry has counted: frames or ordered sets, by SONiC's names.",
    "", "SAI_PORT_STAT_LLR_{counter}",
)  # fmt: skip
LLR_FLUSHES = Exported("xoff_llr_flushes", _C, "Times that a sender with Link Layer Retry has given up what it kept.")
LINE_LOST = Exported(
    "xoff_line_lost_frames", _C, "Frames that a port has sent and its cable has lost or damaged, replays too.", "frames"
)
CREDITS_CONSUMED = Exported(
    "xoff_credits_consumed", _C, "Credits that frames of a virtual channel have taken at their sender."
)
CREDITS_FREED = Exported("xoff_credits_freed", _C, "Credits of a virtual channel that have come back to their sender.")
CREDITS_USED = Exported("xoff_credits_used", _G, "Credits of a virtual channel that are out.")
CREDITS_WATERMARK = Exported("xoff_credits_used_watermark", _G, "The most credits of a virtual channel that were out.")
CREDITS_STALLS = Exported("xoff_credits_stalls", _C, "Times that a frame could have had the line and had no credits.")
CREDITS_STALLED = Exported(
    "xoff_credits_stalled_seconds", _C, "Time for which that was so, in the lab's time.", "seconds"
)
CREDITS_LOST = Exported("xoff_credits_lost", _C, "Credits of frames that were lost, which CC_Updates brought back.")
CREDIT_MESSAGES = Exported("xoff_credit_messages", _C, "Messages about credits, by kind and direction.")
LAB_TIME = Exported("xoff_lab_time_seconds", _G, "The lab's time since the network started.", "seconds")
LAB_SCALE = Exported("xoff_lab_scale", _G, "How many times slower than the hardware the lab's links are.")
NETWORK = Exported("xoff_network", Kind.INFO, "The topology of the network.")
LLDP_SENT = Exported("xoff_lldp_sent_frames", _C, "LLDP frames that the agent has put on the wire.", "frames")
LLDP_RECEIVED = Exported("xoff_lldp_received_frames", _C, "LLDP frames that the agent has received.", "frames")
LLDP_REFUSED = Exported("xoff_lldp_refused_frames", _C, "LLDP frames that the agent did not take, by reason.", "frames")
LLDP_NEIGHBOURS = Exported("xoff_lldp_neighbours", _G, "Neighbours that the agent knows at an interface.")
DCBX_CHANGES = Exported("xoff_dcbx_changes", _C, "Times that the operational value of a DCBX feature has changed.")
DCBX_PFC = Exported("xoff_dcbx_pfc_enabled", _G, "1 if DCBX has PFC on for a priority, else 0.")
LINK_UP = Exported("xoff_port_up", _G, "1 if the interface is up and has a carrier, else 0.")
PORT_FRAMES = Exported("xoff_port_sent_frames", _C, "Frames that an interface has sent.", "frames")
PORT_BYTES = Exported(
    "xoff_port_sent_bytes", _C, "Octets that an interface has sent.", "bytes", "SAI_PORT_STAT_IF_OUT_OCTETS"
)

EXPORTED = tuple(one for one in list(globals().values()) if isinstance(one, Exported))
"""All families, in the order in which they are written."""


class Exposition:
    """The families of one exposition, filled one value at a time."""

    def __init__(self, always: Mapping[str, str] | None = None, repeated_after_ns: int = 0) -> None:
        """`always` are labels that every series has. A value with a time that equals the one before it is left out
        until so much time has passed.
        """
        self._always, self._repeated_after_ns = dict(always or {}), repeated_after_ns
        self._families = {one.name: Family(one.name, one.kind, one.help, one.unit) for one in EXPORTED}

    def add(
        self, what: Exported, value: Value, t_ns: int | None, labels: Mapping[str, str], is_last: bool = False
    ) -> bool:
        """Add a value of a family, with the name that SONiC has for it, and return False if it was left out. The last
        value of a series is never left out.
        """
        found = self._always | dict(labels)
        if what.sonic:
            found["sonic"] = what.sonic.format_map(labels)
        family = self._families[what.name]
        before = family.last(found)
        is_same = before is not None and before[0] == value and not is_last
        if is_same and before and t_ns is not None and t_ns - (before[1] or 0) < self._repeated_after_ns:
            return False
        family.add(found, value, t_ns)
        return True

    @property
    def families(self) -> list[Family]:
        return list(self._families.values())
