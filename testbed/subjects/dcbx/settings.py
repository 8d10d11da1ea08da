"""The settings of DCBX on one port, and the checks of their values.

A feature that is None is not run: its TLV is not sent, and what the peer announces about it is only shown. The settings
of a feature stand with it (`testbed.subjects.dcbx.features`). Everything is checked when settings are made, once, so
that no frame can be built that breaks a rule we know: percents sum to 100, nothing undefined is sent (decision 0103),
and no value is set that the port's format cannot carry.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from testbed.frames import Mac
from testbed.frames.dcbx.values import Ets, mask, priorities
from testbed.frames.lldp import LONGEST_PDU, ChassisId, Lldpdu, PortId
from testbed.frames.lldp_tlvs import Tlv
from testbed.subjects.dcbx import features
from testbed.subjects.dcbx.features.applications import ApplicationAdmin
from testbed.subjects.dcbx.features.congestion_notification import CnAdmin
from testbed.subjects.dcbx.features.ets import EtsAdmin
from testbed.subjects.dcbx.features.feature import CommonSettings, DcbxSettingsError
from testbed.subjects.dcbx.features.link_layer import LinkLayer
from testbed.subjects.dcbx.features.pfc import PfcAdmin
from testbed.subjects.dcbx.features.recommendation import Recommend, Shares
from testbed.subjects.dcbx.features.virtual_channels import VirtualChannels
from testbed.subjects.dcbx.machines import TieBreak

__all__ = [
    "ApplicationAdmin",
    "CnAdmin",
    "DcbxSettings",
    "DcbxSettingsError",
    "EtsAdmin",
    "LinkLayer",
    "PfcAdmin",
    "PortIdentity",
    "Recommend",
    "Shares",
    "TieBreak",
    "VirtualChannels",
]


@dataclass(frozen=True)
class DcbxSettings(CommonSettings):
    """All settings of DCBX on one port."""

    ets: EtsAdmin | None = None
    pfc: PfcAdmin | None = None
    applications: ApplicationAdmin | None = None
    cn: CnAdmin | None = None
    link: LinkLayer | None = None
    """Ultra Ethernet's link layer, which is announced and compared."""
    virtual_channels: VirtualChannels | None = None

    def __post_init__(self) -> None:
        for feature in features.every():
            admin = feature.admin(self)
            if admin is not None:
                feature.check(admin, self)

    @property
    def lossless(self) -> frozenset[int] | None:
        """The priorities that are lossless until the port finds a peer; None if PFC is not negotiated."""
        return None if self.pfc is None else frozenset(priorities(self.pfc.enabled))

    @property
    def shares(self) -> Ets | None:
        """The shares of the line until the port finds a peer; None if they are not negotiated."""
        return None if self.ets is None else self.ets.table

    @property
    def measures_headroom(self) -> bool:
        """True if the port measures its headroom when its peer does, too."""
        return self.pfc is not None and self.pfc.headroom

    def with_lossless(self, enabled: frozenset[int]) -> DcbxSettings:
        """Return the same settings with these priorities lossless."""
        assert self.pfc is not None
        return replace(self, pfc=replace(self.pfc, enabled=mask(enabled)))

    @classmethod
    def of(cls, by_feature: Mapping[str, Any], **common: Any) -> DcbxSettings:
        """Make settings of those of features, by their names, and of the common ones."""
        own = {name: admin for name, admin in by_feature.items() if name in _FIELDS}
        more = {name: admin for name, admin in by_feature.items() if name not in _FIELDS}
        return cls(**common, **own, more=more)


_FIELDS = frozenset(one.name for one in fields(DcbxSettings))

_ROOM_FOR_DCBX = 620
"""The octets that are reserved for these TLVs. The six of DCBX at their longest, with a full application table, are
593, and the two of Ultra Ethernet 23."""


@dataclass(frozen=True)
class PortIdentity:
    """The identity of a port in LLDP."""

    mac: Mac
    chassis_id: ChassisId
    port_id: PortId
    tlvs: tuple[Tlv, ...] = ()  # names, description, management addresses and the like

    def __post_init__(self) -> None:
        size = len(Lldpdu(self.chassis_id, self.port_id, 0, self.tlvs).encode())
        if size > LONGEST_PDU - _ROOM_FOR_DCBX:
            raise DcbxSettingsError(
                f"the TLVs that are not DCBX take {size} octets of a frame, and {LONGEST_PDU - _ROOM_FOR_DCBX} are "
                "theirs; shorten descriptions or leave some out"
            )

    @classmethod
    def of(cls, mac: Mac, interface: str) -> PortIdentity:
        """Return the least that LLDP needs, a chassis that is named by the port's address."""
        return cls(mac, ChassisId.of_mac(mac), PortId.interface(interface))
