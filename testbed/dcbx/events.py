"""What happens on a port, for the agent that has to act on it. Each event has the time and all that is needed.

The first group is to be applied to the port. At each start they come for every feature that is run, then when something
changes; a feature that is taken out of the settings is off in its last event. The second group is for people and logs.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from testbed.frames import Mac
from testbed.frames.dcbx.values import AppEntry, DcbxTlvs, DcbxVersion, Ets
from testbed.frames.lldp import ChassisId, PortId


@dataclass(frozen=True, slots=True)
class Event:
    at_ns: int


# To apply


@dataclass(frozen=True, slots=True)
class PfcChanged(Event):
    """Run PFC on these priorities and no other. Sets of priorities are masks, bit n for priority n."""

    enabled: int
    defended: int  # discard every frame received on these, but bridge PDUs and LLDP
    remote: int | None  # where the peer runs it; what differs from `enabled` is for a local policy
    remote_defended: int | None  # the peer discards what is sent on these; None: not announced
    why: str
    held: int | None = None  # send nothing on these yet; None: the port does not wait for the peer's defenses


@dataclass(frozen=True, slots=True)
class EtsChanged(Event):
    """Operate with this table; None: ETS is disabled."""

    ets: Ets | None
    why: str


@dataclass(frozen=True, slots=True)
class ApplicationsChanged(Event):
    """Give these protocols these priorities."""

    entries: tuple[AppEntry, ...]
    why: str


@dataclass(frozen=True, slots=True)
class CnChanged(Event):
    """Run congestion notification on these priorities; masks as in PfcChanged."""

    enabled: int
    defended: int
    remote: int | None
    remote_defended: int | None
    why: str
    held: int | None = None


@dataclass(frozen=True, slots=True)
class TrafficClassesChanged(Event):
    """The traffic classes of this port and of its peer, and the number of them that the buffer is to be sized for."""

    local: int
    remote: int | None
    buffered: int | None = None  # None: for all priorities, whatever the peer has


@dataclass(frozen=True, slots=True)
class HeadroomChanged(Event):
    """Both ends can measure headroom, so one may ask the other; or no longer."""

    both: bool
    why: str


# For logs


@dataclass(frozen=True, slots=True)
class PendingChanged(Event):
    """The two ends have not agreed on the feature yet (True), or they have; traffic may be held until then."""

    feature: str
    pending: bool


@dataclass(frozen=True, slots=True)
class PeerChanged(Event):
    """The DCBX TLVs of the only neighbour; None: there is no single neighbour."""

    mac: Mac | None
    tlvs: DcbxTlvs


class Loss(enum.StrEnum):
    """Why a neighbour is gone."""

    EXPIRED = "its TTL is over"
    SHUTDOWN = "it shut down"
    LINK = "the link went down"
    DISABLED = "this port was disabled"
    SILENT = "no frame for 10 minutes, and there are other neighbours"
    FORGOTTEN = "an administrator had it forgotten"


@dataclass(frozen=True, slots=True)
class NeighbourFound(Event):
    chassis_id: ChassisId
    port_id: PortId
    mac: Mac


@dataclass(frozen=True, slots=True)
class NeighbourLost(Event):
    chassis_id: ChassisId
    port_id: PortId
    why: Loss


@dataclass(frozen=True, slots=True)
class CrowdChanged(Event):
    """More than one neighbour is on the link, so DCBX is off on this port (True); or no longer."""

    crowded: bool
    neighbours: int


@dataclass(frozen=True, slots=True)
class VersionMismatch(Event):
    """The peer speaks the other format, so its DCBX TLVs are ignored; None: that is over."""

    peer_speaks: DcbxVersion | None
