"""The settings of DCBX on one port, and the checks of their values.

A feature that is None is not run: its TLV is not sent, and what the peer announces about it is only shown. The settings
of a feature stand with it (`testbed.subjects.dcbx.features`). Everything is checked when settings are made, once, so
that no frame can be built that breaks a rule we know: percents sum to 100, nothing undefined is sent (decision 0103),
and no value is set that the port's format cannot carry.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from testbed.frames import Mac
from testbed.frames.lldp import LONGEST_PDU, ChassisId, Lldpdu, PortId
from testbed.frames.lldp_tlvs import Tlv
from testbed.subjects.dcbx import features
from testbed.subjects.dcbx.features.applications import ApplicationAdmin
from testbed.subjects.dcbx.features.congestion_notification import CnAdmin
from testbed.subjects.dcbx.features.ets import EtsAdmin
from testbed.subjects.dcbx.features.feature import CommonSettings, DcbxSettingsError
from testbed.subjects.dcbx.features.pfc import PfcAdmin
from testbed.subjects.dcbx.features.recommendation import Recommend, Shares
from testbed.subjects.dcbx.machines import TieBreak
from testbed.units import Duration, read_quantities

__all__ = [
    "ApplicationAdmin",
    "CnAdmin",
    "DcbxSettings",
    "DcbxSettingsError",
    "EtsAdmin",
    "LldpTimers",
    "PfcAdmin",
    "PortIdentity",
    "Recommend",
    "Shares",
    "TieBreak",
]


@dataclass(frozen=True)
class DcbxSettings(CommonSettings):
    """All settings of DCBX on one port."""

    ets: EtsAdmin | None = None
    pfc: PfcAdmin | None = None
    applications: ApplicationAdmin | None = None
    cn: CnAdmin | None = None

    def __post_init__(self) -> None:
        for feature in features.every():
            admin = feature.admin(self)
            if admin is not None:
                feature.check(admin, self)

    @classmethod
    def of(cls, by_feature: Mapping[str, Any], **common: Any) -> DcbxSettings:
        """Make settings of those of features, by their names, and of the common ones."""
        own = {name: admin for name, admin in by_feature.items() if name in _FIELDS}
        more = {name: admin for name, admin in by_feature.items() if name not in _FIELDS}
        return cls(**common, **own, more=more)


_FIELDS = frozenset(one.name for one in fields(DcbxSettings))
_SECOND = 10**9


@dataclass(frozen=True)
class LldpTimers:
    """The timers of IEEE 802.1AB 9.2.5 and 10.5.4, with its defaults and ranges, in the standard's time."""

    interval: Duration = Duration("30s")  # msgTxInterval; whole seconds, because the TTL is made of it
    hold: int = 4  # msgTxHold
    fast_interval: Duration = Duration("1s")  # msgFastTx
    fast_count: int = 4  # txFastInit
    reinit_delay: Duration = Duration("2s")
    most_credit: int = 5  # txCreditMax: frames that may follow each other at once; one more comes each second

    def __post_init__(self) -> None:
        read_quantities(self)
        for name, longest in (("interval", "3600s"), ("fast_interval", "3600s"), ("reinit_delay", "10s")):
            value = getattr(self, name)
            if not Duration("1s") <= value <= Duration(longest):
                raise DcbxSettingsError(f"LLDP {name} is {value}, and has to be 1s to {longest}")
        if self.interval.ns % _SECOND:
            raise DcbxSettingsError(
                f"LLDP interval is {self.interval}, and has to be whole seconds: the TTL counts them"
            )
        for name, most in (("hold", 100), ("fast_count", 8), ("most_credit", 10)):
            if not 1 <= getattr(self, name) <= most:
                raise DcbxSettingsError(f"LLDP {name} is {getattr(self, name)}, and has to be 1 to {most}")

    @property
    def ttl(self) -> int:
        """The TTL in sent frames, in seconds: 121 by default."""
        return min(65535, self.interval.ns // _SECOND * self.hold + 1)


_ROOM_FOR_DCBX = 600
"""The octets that are reserved for DCBX's TLVs. All six at their longest, with a full application table, are 593."""


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
