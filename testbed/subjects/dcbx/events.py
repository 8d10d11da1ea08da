"""The events of a port, for the agent that acts on them. Each has its time and all that the agent needs.

Events of features are to be applied to the port. At each start they come for every feature that is run, then when
something changes; a feature that is taken out of the settings is off in its last event. Each stands with its feature
(`testbed.subjects.dcbx.features`). The other events, which are here, are for people and logs.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from testbed.frames import Mac
from testbed.frames.dcbx.values import DcbxVersion
from testbed.frames.lldp import ChassisId, PortId
from testbed.subjects.dcbx import features
from testbed.subjects.dcbx.features.applications import ApplicationsChanged
from testbed.subjects.dcbx.features.congestion_notification import CnChanged
from testbed.subjects.dcbx.features.ets import EtsChanged
from testbed.subjects.dcbx.features.feature import Event
from testbed.subjects.dcbx.features.headroom import HeadroomChanged
from testbed.subjects.dcbx.features.pfc import PfcChanged
from testbed.subjects.dcbx.features.traffic_classes import TrafficClassesChanged
from testbed.subjects.dcbx.negotiation import PortState
from testbed.subjects.dcbx.tlvs import DcbxTlvs

__all__ = [
    "ApplicationsChanged",
    "CnChanged",
    "CrowdChanged",
    "EtsChanged",
    "Event",
    "HeadroomChanged",
    "Loss",
    "NeighbourFound",
    "NeighbourLost",
    "PeerChanged",
    "PendingChanged",
    "PfcChanged",
    "TrafficClassesChanged",
    "VersionMismatch",
    "changes",
]


@dataclass(frozen=True, slots=True)
class PendingChanged(Event):
    """The two ends have not agreed on the feature yet (True), or they have; traffic may be held until then."""

    feature: str
    pending: bool


@dataclass(frozen=True, slots=True)
class PeerChanged(Event):
    """The DCBX TLVs of the only neighbour; `mac` is None if there is no single neighbour."""

    mac: Mac | None
    tlvs: DcbxTlvs


class Loss(enum.StrEnum):
    """The reason why a neighbour is gone."""

    EXPIRED = "its TTL is over"
    SHUTDOWN = "it shut down"
    LINK = "the link went down"
    DISABLED = "this port was disabled"
    SILENT = "no frame for 10 minutes, and there are other neighbours"
    FORGOTTEN = "an administrator had it forgotten"


@dataclass(frozen=True, slots=True)
class NeighbourFound(Event):
    """A neighbour's first frame came in."""

    chassis_id: ChassisId
    port_id: PortId
    mac: Mac


@dataclass(frozen=True, slots=True)
class NeighbourLost(Event):
    """A neighbour is gone."""

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
    """The peer speaks `peer_speaks`, the other format, so its DCBX TLVs are ignored; None if that is over."""

    peer_speaks: DcbxVersion | None


def changes(before: PortState | None, after: PortState, at_ns: int) -> list[Event]:
    """Return the events that lead from `before` to `after`; `before` is None if there was no state before.

    A different reason alone is not a change, and a feature that is not run is mentioned only if it was run before.
    """
    events: list[Event] = []
    for feature in features.every():
        new = after.states[feature.name]
        old = None if before is None else before.states[feature.name]
        is_run, was_run = new.oper is not None, old is not None and old.oper is not None
        if (is_run or was_run) and (old is None or feature.facts(new) != feature.facts(old)):
            event = feature.event(at_ns, new)
            events += [] if event is None else [event]
    for name, state in after.states.items():
        was_pending = before is not None and before.states[name].pending
        if state.pending != was_pending:
            events.append(PendingChanged(at_ns, name, state.pending))
    return events
