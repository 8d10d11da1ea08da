"""What an administrator decides about DCBX on one port, and what is refused.

A feature that is None is not run: its TLV is not sent, and what the peer announces about it is only shown. Everything
is checked here, once, so that no frame can be built that breaks a rule we know: percents sum to 100, nothing undefined
is sent (decision 0103), and no value is set that the port's format cannot carry.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from testbed.errors import UsageError
from testbed.frames import Mac
from testbed.frames.dcbx.draft import SELECTORS as DRAFT_SELECTORS
from testbed.frames.dcbx.published import SELECTORS as PUBLISHED_SELECTORS
from testbed.frames.dcbx.values import (
    PRIORITIES,
    AppEntry,
    ApplicationPriority,
    DcbxVersion,
    Ets,
    EtsRecommendation,
    Table,
    assignment_problem,
    bandwidth_problem,
    check_mask,
)
from testbed.frames.lldp import LONGEST_PDU, ChassisId, Lldpdu, PortId
from testbed.frames.lldp_tlvs import Tlv
from testbed.units import Duration


class DcbxSettingsError(UsageError):
    """Settings that contradict themselves or the format."""


class TieBreak(enum.StrEnum):
    """Whose configuration wins when both ports are willing (decision 0102), by MAC address."""

    NONE = "none"
    LOWER = "lower"
    HIGHER = "higher"


@dataclass(frozen=True)
class Shares:
    """Draft only: recommend so that these priorities get these percents, whatever groups the peer puts them in.

    The recommendation is worked out from the peer's ETS Configuration, and RV is 0 until that has come.
    """

    percent: Table  # priority -> percent

    def __post_init__(self) -> None:
        if len(self.percent) != 8 or min(self.percent) < 0 or sum(self.percent) != 100:
            raise DcbxSettingsError(f"shares {self.percent} are invalid: give one for each of 8 priorities, 100 in sum")


@dataclass(frozen=True)
class Recommend:
    """Recommend this table: with `wait`, not before the peer's ETS Configuration shows that it fits."""

    table: EtsRecommendation
    wait: bool = False


@dataclass(frozen=True)
class EtsAdmin:
    """Asymmetric passing."""

    table: Ets
    willing: bool = False
    recommend: Recommend | Shares | None = None
    cbs: bool = False  # published only: this port has the credit-based shaper


@dataclass(frozen=True)
class PfcAdmin:
    """Symmetric passing with optional defense."""

    enabled: int  # bit n for priority n
    willing: bool = False
    cap: int = 8  # how many traffic classes can have PFC at once
    defense: bool = False
    defon_octet: bool = True  # draft only: the TLV has 7 octets, not 6 (decision 0101)
    headroom: bool = False  # announce that this port measures headroom; a private octet (decision 0113)
    hold: bool = False  # draft only: send nothing on a priority until the peer shows DefOn 0 for it (decision 0376)

    def __post_init__(self) -> None:
        check_mask("PFC enable", self.enabled)
        if not 1 <= self.cap <= 8:
            raise DcbxSettingsError(
                f"PFC capability is {self.cap}, and has to be 1 to 8; a port without PFC has no PFC settings at all"
            )


@dataclass(frozen=True)
class ApplicationAdmin:
    """Symmetric passing without defense in the draft; informational in the published format (decision 0105)."""

    entries: tuple[AppEntry, ...] = ()
    willing: bool = False

    def __post_init__(self) -> None:
        ApplicationPriority(self.entries)  # refuses what does not fit into the TLV


@dataclass(frozen=True)
class CnAdmin:
    """Symmetric passing with required defense in the draft; in the published format not passed on (decision 0105)."""

    enabled: int
    willing: bool = False
    hold: bool = False  # as that of PFC; in the published format Ready takes the place of DefOn

    def __post_init__(self) -> None:
        check_mask("CN enable", self.enabled)


@dataclass(frozen=True)
class DcbxSettings:
    """All of one port."""

    version: DcbxVersion = DcbxVersion.PUBLISHED
    tie_break: TieBreak | None = None  # None: as the version has it, see `breaks_tie_by`
    traffic_classes: int = 8
    ets: EtsAdmin | None = None
    pfc: PfcAdmin | None = None
    applications: ApplicationAdmin | None = None
    cn: CnAdmin | None = None
    buffer_by_classes: bool = False  # size this port's buffer for as many classes as the peer has (decision 0377)

    def __post_init__(self) -> None:
        if not 1 <= self.traffic_classes <= 8:
            raise DcbxSettingsError(f"{self.traffic_classes} traffic classes are invalid: there are 1 to 8")
        if self.ets is not None:
            self._check_ets(self.ets)
        if self.pfc is not None and self.is_draft and self.pfc.headroom and not self.pfc.defon_octet:
            raise DcbxSettingsError(
                "the headroom capability comes after DefOn in the draft's PFC TLV, and defon_octet is off; "
                "turn it on, or headroom off"
            )
        if self.pfc is not None and self.pfc.hold and not self.is_draft:
            raise DcbxSettingsError(
                "PFC's hold waits for DefOn 0, which the published format has not, so it would never end; "
                "turn it off, or set the version to draft"
            )
        for entry in self.applications.entries if self.applications else ():
            if entry.selector not in (DRAFT_SELECTORS if self.is_draft else PUBLISHED_SELECTORS).values():
                raise DcbxSettingsError(f"the {self.version} format has no selector for {entry.selector.value}")
        if self.cn is not None and self.cn.willing and not self.is_draft:
            raise DcbxSettingsError("the published format cannot pass CN on; leave `willing` of CN at False")

    @property
    def is_draft(self) -> bool:
        return self.version is DcbxVersion.DRAFT

    @property
    def breaks_tie_by(self) -> TieBreak:
        return self.tie_break or (TieBreak.NONE if self.is_draft else TieBreak.HIGHER)

    def _check_ets(self, ets: EtsAdmin) -> None:
        self._check_version("ETS table", ets.table.version)
        self._check_table("ETS table", ets.table.assignment, ets.table.bandwidth, ets.table.tsa)
        if ets.cbs and self.is_draft:
            raise DcbxSettingsError("the draft has no CBS bit; leave `cbs` at False")
        if isinstance(ets.recommend, Shares):
            self._check_version("recommendation by shares", DcbxVersion.DRAFT)
        elif ets.recommend is not None:
            table = ets.recommend.table
            if not table.valid:
                raise DcbxSettingsError("a recommendation to send has to be one: leave `valid` at True")
            self._check_version("ETS recommendation", table.version)
            wrong = table.assignment and assignment_problem(table.assignment, table.tsa)
            wrong = wrong or bandwidth_problem(table.bandwidth, table.tsa)
            if wrong:
                raise DcbxSettingsError(f"ETS recommendation: {wrong}")

    def _check_version(self, what: str, version: DcbxVersion) -> None:
        if version is not self.version:
            raise DcbxSettingsError(
                f"this {what} is for the {version} format, and the port speaks the {self.version} one; "
                f"{'leave `tsa` out' if self.is_draft else 'give assignment, bandwidth and `tsa`'}"
            )

    def _check_table(self, what: str, assignment: Table, bandwidth: Table, tsa: Table | None) -> None:
        wrong = assignment_problem(assignment, tsa) or bandwidth_problem(bandwidth, tsa)
        if wrong:
            raise DcbxSettingsError(f"{what}: {wrong}")
        for priority in PRIORITIES:
            if self.traffic_classes <= assignment[priority] < 8 and not self.is_draft:
                raise DcbxSettingsError(
                    f"{what}: priority {priority} is assigned to class {assignment[priority]}, and this port has "
                    f"{self.traffic_classes}, 0 to {self.traffic_classes - 1}"
                )


_SECOND = 10**9


@dataclass(frozen=True)
class LldpTimers:
    """Timers of IEEE 802.1AB 9.2.5 and 10.5.4, with its defaults and ranges, in the standard's time."""

    interval: Duration = Duration("30s")  # msgTxInterval; whole seconds, because the TTL is made of it
    hold: int = 4  # msgTxHold
    fast_interval: Duration = Duration("1s")  # msgFastTx
    fast_count: int = 4  # txFastInit
    reinit_delay: Duration = Duration("2s")
    most_credit: int = 5  # txCreditMax: frames that may follow each other at once; one more comes each second

    def __post_init__(self) -> None:
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
"""All six TLVs at their longest, with a full application table, are 593."""


@dataclass(frozen=True)
class PortIdentity:
    """How the port presents itself in LLDP."""

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
        """The least: the chassis is named by the port's address."""
        return cls(mac, ChassisId.of_mac(mac), PortId.interface(interface))
