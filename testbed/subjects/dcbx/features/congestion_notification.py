"""Congestion notification (CN), with required defense; passed on symmetrically in the draft, and not at all in the
published format (decision 0105).

    draft      subtype 13, length 7    W 1, reserved 7; enabled 8; DefOn 8
    published  subtype 8, length 6     enabled (CNPV) 8, ready 8: enabled and not defended; no W

A DefOn bit is reserved where the priority is not enabled: sent as 0 and not read. The published subtype 13 belongs to
another protocol (EVB).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from testbed.frames import FieldError
from testbed.frames.dcbx.layouts import LAYOUTS
from testbed.frames.dcbx.values import DcbxVersion, check_mask, priorities
from testbed.frames.lldp_tlvs import Flaw, Organisational
from testbed.strict.tables import TomlTable, flag
from testbed.subjects.dcbx.config_values import priority_set, section
from testbed.subjects.dcbx.features.codec import Contents, codec, layouts, packed, unpacked
from testbed.subjects.dcbx.features.feature import (
    CommonSettings,
    DcbxSettingsError,
    FeatureState,
    View,
    priorities_text,
    priority_list,
    willing_text,
)
from testbed.subjects.dcbx.features.priority_sets import PrioritiesChanged, PrioritySetFeature, defends
from testbed.subjects.dcbx.machines import Outcome, defense, hold

_DRAFT, _PUBLISHED = LAYOUTS[DcbxVersion.DRAFT][13], LAYOUTS[DcbxVersion.PUBLISHED][8]
_NAME = "congestion_notification"


@dataclass(frozen=True, slots=True)
class CongestionNotification:
    """The priorities with congestion notification, and those on which the sender's defenses are on."""

    enabled: int
    defended: int = 0
    """Defenses on enabled priorities; the published format has the opposite, Ready."""
    willing: bool = False
    """Draft only."""

    def __post_init__(self) -> None:
        check_mask("CN enable", self.enabled)
        check_mask("CN DefOn", self.defended)
        if self.defended & ~self.enabled:
            raise FieldError(
                f"CN DefOn {self.defended:#04x} has priorities that are not enabled, {self.enabled:#04x}: "
                "such bits are reserved"
            )


@dataclass(frozen=True)
class CnAdmin:
    """The settings of congestion notification, whose defense is required."""

    enabled: int
    willing: bool = False
    hold: bool = False
    """True if nothing is sent on a priority until the peer's defenses are off, as with PFC; the published format shows
    that by Ready."""

    def __post_init__(self) -> None:
        check_mask("CN enable", self.enabled)


@dataclass(frozen=True, slots=True)
class CnChanged(PrioritiesChanged):
    """Run congestion notification on these priorities and no other."""


def _encode_draft(cn: CongestionNotification, _: Contents) -> Organisational:
    return packed(_DRAFT, willing=cn.willing, enabled=cn.enabled, defended=cn.defended)


def _read_draft(info: bytes, flaws: list[Flaw]) -> CongestionNotification | None:
    found = unpacked(_DRAFT, _NAME, info, flaws)
    if found is None:
        return None
    return CongestionNotification(found["enabled"], found["enabled"] & found["defended"], bool(found["willing"]))


def _encode_published(cn: CongestionNotification, _: Contents) -> Organisational:
    if cn.willing:
        raise FieldError("the published format has no W in Congestion Notification; leave `willing` at False")
    return packed(_PUBLISHED, cnpv=cn.enabled, ready=cn.enabled & ~cn.defended)


def _read_published(info: bytes, flaws: list[Flaw]) -> CongestionNotification | None:
    found = unpacked(_PUBLISHED, _NAME, info, flaws)
    return None if found is None else CongestionNotification(found["cnpv"], found["cnpv"] & ~found["ready"])


class CnFeature(PrioritySetFeature[CnAdmin, CongestionNotification]):
    name = "cn"
    head = "CN"
    tlv = "Congestion Notification"
    is_symmetric = True
    codecs = layouts(
        draft=codec(_DRAFT, _NAME, _read_draft, _encode_draft, tells=True),
        published=codec(_PUBLISHED, _NAME, _read_published, _encode_published, tells=True),
    )
    event_type = CnChanged

    def check(self, admin: CnAdmin, settings: CommonSettings) -> None:
        if admin.willing and not settings.is_draft:
            raise DcbxSettingsError("the published format cannot pass CN on; leave `willing` of CN at False")

    def read_settings(self, top: TomlTable, version: DcbxVersion) -> CnAdmin | None:
        table = top.table("cn")
        if table is None:
            return None
        enabled, willing = table.take("enabled", priority_set, 0), table.take("willing", flag, False)
        hold = table.take("hold", flag, False)
        return table.build(lambda: CnAdmin(enabled, willing, hold))

    def settings_lines(self, admin: CnAdmin) -> list[str]:
        enabled = list(priorities(admin.enabled))
        return section("cn", {"enabled": enabled, "willing": admin.willing, "hold": admin.hold})

    def negotiate(self, view: View) -> FeatureState[int]:
        admin, tlv = self.admin(view.settings), view.remote(self.name)
        is_draft = view.settings.is_draft
        remote, remote_defended = (tlv.enabled, tlv.defended) if tlv else (None, None)
        remote_willing = tlv.willing if tlv and is_draft else None
        if admin is None:
            return FeatureState(None, None, remote, "this port does not run congestion notification")
        if is_draft:
            outcome = view.pass_symmetrically(self, admin.enabled, remote, admin.willing, remote_willing)
        else:
            outcome = Outcome(admin.enabled, remote is None, "local setting: this format does not negotiate it")
        return FeatureState(
            admin.enabled,
            outcome.oper,
            remote,
            outcome.why,
            admin.willing if is_draft else None,
            remote_willing,
            outcome.pending,
            defense(True, outcome.oper, remote),
            remote_defended,
            hold(admin.hold, outcome.oper, remote, remote_defended),
        )

    def sent(self, settings: CommonSettings, state: FeatureState[int]) -> CongestionNotification | None:
        admin = self.admin(settings)
        if admin is None or state.oper is None:
            return None
        return CongestionNotification(state.oper, state.defended or 0, admin.willing)

    def tlv_data(self, content: CongestionNotification) -> dict[str, Any]:
        masks = {"enabled": priority_list(content.enabled), "defended": priority_list(content.defended)}
        return {"willing": content.willing, **masks}

    def tlv_text(self, data: Any, version: str) -> str:
        willing = willing_text(data) if version == DcbxVersion.DRAFT else ""  # the published format has no W
        return f"CN {priorities_text(data['enabled'])}{willing}{defends(data)}"
