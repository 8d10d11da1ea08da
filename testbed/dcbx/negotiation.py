"""From settings and the peer's TLVs to the state of every feature. A pure function: no state, no time.

Which machine a feature uses depends on the format:

                          draft                          published
    traffic classes       informational                  informational, inside ETS Configuration
    ETS                   asymmetric, bandwidth          asymmetric, the whole table
    PFC                   symmetric, defense optional    symmetric, defense optional and not announced
    Application Priority  symmetric                      informational; a willing port uses the peer's table (0105)
    CN                    symmetric, defense required    not negotiated, defense required (0105)
    headroom (private)    both announce it or it is off, in both formats (0113)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Generic, TypeVar, cast

from testbed.dcbx.machines import Outcome, asymmetric, defense, hold, symmetric, winner
from testbed.dcbx.recommendation import advise
from testbed.dcbx.settings import DcbxSettings, Recommend
from testbed.frames import Mac
from testbed.frames.dcbx.values import (
    AppEntry,
    ApplicationPriority,
    CongestionNotification,
    DcbxTlvs,
    Ets,
    EtsConfiguration,
    EtsRecommendation,
    Pfc,
)

T = TypeVar("T")
Applications = tuple[AppEntry, ...]


@dataclass(frozen=True, slots=True)
class Peer:
    """The one neighbour, as far as DCBX goes."""

    mac: Mac
    tlvs: DcbxTlvs


@dataclass(frozen=True, slots=True)
class Feature(Generic[T]):
    """One row of what a user is shown. None: not run on this port, not known of the peer, or not in this format."""

    admin: T | None
    oper: T | None
    remote: T | None
    why: str  # oper is what it is
    willing: bool | None = None
    remote_willing: bool | None = None
    pending: bool = False
    defended: int | None = None  # where this port's defenses are on, a mask
    remote_defended: int | None = None  # the peer's, by its DefOn or Ready: it discards what is sent to it there
    held: int | None = None  # where this port sends nothing because of that, a mask; None: it does not wait for it
    buffered: int | None = None  # so many traffic classes of the peer this port's buffer is for; None: any number


@dataclass(frozen=True, slots=True)
class PortState:
    """Everything that is negotiated on a port, and what its frames announce."""

    traffic_classes: Feature[int]
    ets: Feature[Ets]
    recommendation: Feature[EtsRecommendation]  # what this port recommends; remote: what the peer does, or its RV 0
    pfc: Feature[int]
    applications: Feature[Applications]
    cn: Feature[int]
    headroom: Feature[bool]  # oper: both ends can measure
    sent: DcbxTlvs

    def features(self) -> dict[str, Feature[Any]]:
        """By name, in the order of the draft's summary."""
        return {name: getattr(self, name) for name in FEATURES}


FEATURES = ("traffic_classes", "ets", "recommendation", "pfc", "applications", "cn", "headroom")


def negotiate(
    settings: DcbxSettings,
    mac: Mac,
    peer: Peer | None,
    absent: str = "no LLDPDU has been received",
    kept: Mapping[str, object] = MappingProxyType({}),
) -> PortState:
    """`mac` is this port's; `absent` is the reason why there is no peer; `kept`: the features of which it is
    doubted, for now, that the peer's configuration wins, and the values that they keep (decision 0102)."""
    view = _View(settings, mac, peer, absent, kept)
    ets, recommendation, pfc = view.ets(), view.recommendation(), view.pfc()
    applications, cn = view.applications(), view.cn()
    return PortState(
        view.traffic_classes(),
        ets,
        recommendation,
        pfc,
        applications,
        cn,
        view.headroom(),
        DcbxTlvs(
            settings.traffic_classes if settings.is_draft or settings.ets else None,
            _sent_ets(settings, ets),
            _sent_recommendation(settings, recommendation),
            _sent_pfc(settings, pfc),
            _sent_applications(settings, applications),
            _sent_cn(settings, cn),
        ),
    )


class _View:
    """One port's settings and what its peer has announced: the variables of the machines."""

    def __init__(
        self, settings: DcbxSettings, mac: Mac, peer: Peer | None, absent: str, kept: Mapping[str, object]
    ) -> None:
        self._settings = settings
        self._known = peer is not None
        self._remote = DcbxTlvs() if peer is None else peer.tlvs
        self._wins = None if peer is None else winner(settings.breaks_tie_by, mac, peer.mac)
        self._kept = kept
        self._absent = absent

    def _lacking(self, tlv: str) -> str:
        return f"the peer sends no {tlv} that counts" if self._known else self._absent

    def traffic_classes(self) -> Feature[int]:
        own, remote = self._settings.traffic_classes, self._remote.traffic_classes
        buffered = remote if self._settings.buffer_by_classes else None
        why = "local setting: it is announced only"
        return Feature(own, own, remote, why, pending=remote is None, buffered=buffered)

    def ets(self) -> Feature[Ets]:
        admin, tlv, advice = self._settings.ets, self._remote.ets, self._remote.recommendation
        remote, remote_willing = (tlv.ets, tlv.willing) if tlv else (None, None)
        if admin is None:
            return Feature(None, None, remote, "this port does not run ETS", remote_willing=remote_willing)
        rv = advice.valid if advice else None
        recommended = advice.applied_to(admin.table) if advice and rv else None
        unfit = self._misfit(recommended)
        if unfit:  # as good as no recommendation
            recommended = rv = None
        known, absent = remote is not None, self._lacking("ETS Configuration")
        outcome = asymmetric(admin.table, recommended, rv=rv, local_willing=admin.willing, known=known, absent=absent)
        why = f"local setting: {unfit}" if unfit and admin.willing else outcome.why
        return Feature(admin.table, outcome.oper, remote, why, admin.willing, remote_willing, outcome.pending)

    def _misfit(self, recommended: Ets | None) -> str | None:
        """Why the port cannot do what is recommended. The draft leaves the assignment alone, so it always can."""
        if recommended is None or self._settings.is_draft:
            return None
        highest, classes = max(recommended.assignment), self._settings.traffic_classes
        if highest < classes:
            return None
        return f"the peer recommends traffic class {highest}, and this port has {classes}"

    def recommendation(self) -> Feature[EtsRecommendation]:
        remote, admin = self._remote.recommendation, self._settings.ets
        if admin is None:
            return Feature(None, None, remote, "this port does not run ETS")
        advice = advise(admin, self._remote if self._known else None)
        pending = admin.recommend is not None and advice.table is None
        fixed = admin.recommend.table if isinstance(admin.recommend, Recommend) else None
        return Feature(fixed, advice.table, remote, advice.why, pending=pending)

    def pfc(self) -> Feature[int]:
        admin, tlv = self._settings.pfc, self._remote.pfc
        remote, remote_willing, remote_defended = (tlv.enabled, tlv.willing, tlv.defended) if tlv else (None,) * 3
        if admin is None:
            return Feature(None, None, remote, "this port does not run PFC", remote_willing=remote_willing)
        outcome = self._symmetric("pfc", admin.enabled, remote, admin.willing, remote_willing)
        defended = defense(admin.defense, outcome.oper, remote)
        return Feature(
            admin.enabled,
            outcome.oper,
            remote,
            outcome.why,
            admin.willing,
            remote_willing,
            outcome.pending,
            defended,
            remote_defended,
            hold(admin.hold, outcome.oper, remote, remote_defended),
        )

    def headroom(self) -> Feature[bool]:
        admin = self._settings.pfc.headroom if self._settings.pfc else None
        remote = self._remote.pfc.headroom if self._remote.pfc else None
        if not admin:
            return Feature(admin, admin, remote, "this port does not announce it")
        why = "both ports announce it" if remote else self._lacking("headroom capability")
        return Feature(admin, bool(remote), remote, why)

    def applications(self) -> Feature[Applications]:
        admin, tlv = self._settings.applications, self._remote.applications
        remote = tlv.entries if tlv else None
        remote_willing = tlv.willing if tlv and self._settings.is_draft else None
        if admin is None:
            return Feature(None, None, remote, "this port has no application table", remote_willing=remote_willing)
        if self._settings.is_draft:
            outcome = self._symmetric("applications", admin.entries, remote, admin.willing, remote_willing)
            state = admin.willing, remote_willing, outcome.pending
            return Feature(admin.entries, outcome.oper, remote, outcome.why, *state)
        oper, why = admin.entries, "local setting: this port is not willing"
        if admin.willing and remote is not None:
            oper, why = remote, "the peer's: this port is willing"
        elif admin.willing:
            why = f"local setting: {self._lacking('Application Priority')}"
        return Feature(admin.entries, oper, remote, why, admin.willing, None, remote is None)

    def cn(self) -> Feature[int]:
        admin, tlv = self._settings.cn, self._remote.cn
        remote, remote_defended = (tlv.enabled, tlv.defended) if tlv else (None, None)
        remote_willing = tlv.willing if tlv and self._settings.is_draft else None
        if admin is None:
            return Feature(None, None, remote, "this port does not run congestion notification")
        if self._settings.is_draft:
            outcome = self._symmetric("cn", admin.enabled, remote, admin.willing, remote_willing)
            willing: bool | None = admin.willing
        else:
            outcome = Outcome(admin.enabled, remote is None, "local setting: this format does not negotiate it")
            willing = None
        defended = defense(True, outcome.oper, remote)
        return Feature(
            admin.enabled,
            outcome.oper,
            remote,
            outcome.why,
            willing,
            remote_willing,
            outcome.pending,
            defended,
            remote_defended,
            hold(admin.hold, outcome.oper, remote, remote_defended),
        )

    def _symmetric(
        self, name: str, admin: T, remote: T | None, willing: bool, remote_willing: bool | None
    ) -> Outcome[T]:
        return symmetric(
            admin,
            remote,
            local_willing=willing,
            remote_willing=remote_willing,
            wins=self._wins,
            absent=self._lacking(SYMMETRIC[name]),
            kept=cast("T | None", self._kept.get(name)),
        )


SYMMETRIC = {"pfc": "PFC TLV", "applications": "Application Priority", "cn": "Congestion Notification"}
"""The features that are passed on symmetrically, and the TLV of each."""


# Content of the next frame


def _sent_ets(settings: DcbxSettings, ets: Feature[Ets]) -> EtsConfiguration | None:
    if settings.ets is None or ets.oper is None:
        return None
    return EtsConfiguration(ets.oper, settings.ets.willing, settings.ets.cbs)


def _sent_recommendation(settings: DcbxSettings, own: Feature[EtsRecommendation]) -> EtsRecommendation | None:
    if settings.ets is None or settings.ets.recommend is None:
        return None
    if own.oper is None and settings.is_draft:
        return EtsRecommendation(valid=False)
    return own.oper


def _sent_pfc(settings: DcbxSettings, pfc: Feature[int]) -> Pfc | None:
    admin = settings.pfc
    if admin is None or pfc.oper is None:
        return None
    shows_defense = settings.is_draft and admin.defon_octet
    defended = pfc.defended if shows_defense else None
    return Pfc(pfc.oper, admin.willing, admin.cap, defended=defended, headroom=admin.headroom)


def _sent_applications(settings: DcbxSettings, applications: Feature[Applications]) -> ApplicationPriority | None:
    """The published format passes the local setting on, never an adopted table: two willing ports would swap theirs."""
    admin = settings.applications
    if admin is None or applications.oper is None:
        return None
    if settings.is_draft:
        return ApplicationPriority(applications.oper, admin.willing)
    return ApplicationPriority(admin.entries)


def _sent_cn(settings: DcbxSettings, cn: Feature[int]) -> CongestionNotification | None:
    if settings.cn is None or cn.oper is None:
        return None
    return CongestionNotification(cn.oper, cn.defended or 0, settings.cn.willing)
