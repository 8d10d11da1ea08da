"""The negotiation: a pure function from settings and the peer's TLVs to the state of every feature.

Which machine a feature uses depends on the format:

                          draft                          published
    traffic classes       informational                  informational, inside ETS Configuration
    ETS                   asymmetric, bandwidth          asymmetric, the whole table
    PFC                   symmetric, defense optional    symmetric, defense optional and not announced
    Application Priority  symmetric                      informational; a willing port uses the peer's table (0105)
    CN                    symmetric, defense required    not negotiated, defense required (0105)
    headroom (private)    both announce it or it is off, in both formats (0113)
    UE link, UE VCs       both announce it or it is off, in both formats; provisional
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from testbed.frames import Mac
from testbed.frames.dcbx.values import AppEntry, Ets, EtsRecommendation
from testbed.subjects.dcbx import features
from testbed.subjects.dcbx.features.feature import FeatureState, View
from testbed.subjects.dcbx.machines import winner
from testbed.subjects.dcbx.settings import DcbxSettings
from testbed.subjects.dcbx.tlvs import DcbxTlvs


@dataclass(frozen=True, slots=True)
class Peer:
    """The one neighbour, as far as DCBX goes."""

    mac: Mac
    tlvs: DcbxTlvs


@dataclass(frozen=True)
class PortState:
    """Everything that is negotiated on a port, and what its frames announce."""

    states: Mapping[str, FeatureState[Any]]
    """The state of each feature by its name, in the order of the draft's summary."""
    sent: DcbxTlvs

    @property
    def traffic_classes(self) -> FeatureState[int]:
        return self.states["traffic_classes"]

    @property
    def ets(self) -> FeatureState[Ets]:
        return self.states["ets"]

    @property
    def recommendation(self) -> FeatureState[EtsRecommendation]:
        """The state of the recommendation that this port makes; `remote` is the peer's, or its RV 0."""
        return self.states["recommendation"]

    @property
    def pfc(self) -> FeatureState[int]:
        return self.states["pfc"]

    @property
    def applications(self) -> FeatureState[tuple[AppEntry, ...]]:
        return self.states["applications"]

    @property
    def cn(self) -> FeatureState[int]:
        return self.states["cn"]

    @property
    def headroom(self) -> FeatureState[bool]:
        """The headroom capability; `oper` is True if both ends can measure."""
        return self.states["headroom"]


def negotiate(
    settings: DcbxSettings,
    mac: Mac,
    peer: Peer | None,
    absent: str = "no LLDPDU has been received",
    pinned: Mapping[str, object] = MappingProxyType({}),
) -> PortState:
    """Compute the state of a port.

    `mac` is this port's; `absent` is the reason why there is no peer. `pinned` has the values of features that do not
    follow the peer for now, although its configuration wins (decision 0102).
    """
    wins = None if peer is None else winner(settings.breaks_tie_by, mac, peer.mac)
    view = View(settings, None if peer is None else peer.tlvs, wins, absent, pinned)
    states = {feature.name: feature.negotiate(view) for feature in features.every()}
    sent = {feature.name: feature.sent(settings, states[feature.name]) for feature in features.every()}
    return PortState(states, DcbxTlvs.of(sent))


def warnings(settings: DcbxSettings, state: PortState) -> list[str]:
    """Return warnings about what is operational and what this port recommends.

    They are about values that are legal, and so applied, but probably not intended. The state machines of DCBX do not
    check whether a port supports what it takes over.
    """
    return [text for feature in features.every() for text in feature.warnings(settings, state.states)]
