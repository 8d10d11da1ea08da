"""PFC: the priorities that can be paused, passed on symmetrically, with optional defense.

    draft      subtype 11, length 6 or 7    W 1, reserved 4, cap 3 (0 is 8); enabled 8; in 7 octets DefOn 8 (decision
                                            0101). After DefOn an octet more may be the private headroom capability.
    published  subtype 11, length 6         W 1, MBC 1, reserved 2, cap 4; enabled 8. An octet more may be the private
                                            headroom capability.

A DefOn bit is reserved where the priority is not enabled: sent as 0 and not read. The published format announces no
defenses. The capability, in how many traffic classes a port can have PFC, is announced and not negotiated.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from testbed.frames import FieldError
from testbed.frames.dcbx.layouts import LAYOUTS
from testbed.frames.dcbx.values import DcbxVersion, check_mask, priorities
from testbed.frames.lldp_tlvs import Flaw, Organisational
from testbed.strict.tables import TomlTable, flag, whole
from testbed.subjects.dcbx.config_values import priority_set, section
from testbed.subjects.dcbx.features.codec import Contents, DcbxReason, codec, flaw, layouts, packed, unpacked
from testbed.subjects.dcbx.features.feature import (
    CommonSettings,
    Data,
    DcbxSettingsError,
    FeatureState,
    View,
    priorities_text,
    priority_list,
    willing_text,
)
from testbed.subjects.dcbx.features.priority_sets import PrioritiesChanged, PrioritySetFeature, defends
from testbed.subjects.dcbx.machines import defense, hold

_DRAFT, _PUBLISHED = (LAYOUTS[version][11] for version in (DcbxVersion.DRAFT, DcbxVersion.PUBLISHED))

HEADROOM_CAPABLE = 0xA1
"""Our private octet at the end of the PFC TLV (decision 0113). Only this value announces headroom measurement: DefOn
of a peer that speaks the other format, or what a later standard puts here, must not be taken for it."""
_CAPABLE = bytes([HEADROOM_CAPABLE])


@dataclass(frozen=True, slots=True)
class Pfc:
    """The priorities on which the sender runs PFC."""

    enabled: int
    willing: bool = False
    cap: int = 8
    """The number of traffic classes that can have PFC at once."""
    mbc: bool = False
    """Published only: True if the sender cannot bypass the delay of its MACsec."""
    defended: int | None = None
    """Draft only: DefOn; None if the TLV has no such octet (decision 0101)."""
    headroom: bool = False
    """True if the sender can measure headroom, by the private octet (decision 0113)."""

    def __post_init__(self) -> None:
        check_mask("PFC enable", self.enabled)
        check_mask("PFC DefOn", self.defended or 0)
        if not 0 <= self.cap <= 15:
            raise FieldError(f"PFC capability {self.cap} does not fit into 4 bits")


@dataclass(frozen=True)
class PfcAdmin:
    """The settings of PFC, which is passed on symmetrically, with optional defense."""

    enabled: int
    """The priorities as a mask, bit n for priority n."""
    willing: bool = False
    cap: int = 8
    """The number of traffic classes that can have PFC at once."""
    defense: bool = False
    defon_octet: bool = True
    """Draft only: True if the TLV has 7 octets, not 6 (decision 0101)."""
    headroom: bool = False
    """True if this port announces that it measures headroom, by a private octet (decision 0113)."""
    hold: bool = False
    """Draft only: True if nothing is sent on a priority until the peer shows DefOn 0 for it (decision 0376)."""

    def __post_init__(self) -> None:
        check_mask("PFC enable", self.enabled)
        if not 1 <= self.cap <= 8:
            raise DcbxSettingsError(
                f"PFC capability is {self.cap}, and has to be 1 to 8; a port without PFC has no PFC settings at all"
            )


@dataclass(frozen=True, slots=True)
class PfcChanged(PrioritiesChanged):
    """Run PFC on these priorities and no other."""


def _encode_draft(pfc: Pfc, _: Contents) -> Organisational:
    if not 1 <= pfc.cap <= 8:
        raise FieldError(
            f"the draft's PFC TLV cannot carry a capability of {pfc.cap}, but 1 to 8; without any, send no PFC TLV"
        )
    if pfc.mbc:
        raise FieldError("the draft's PFC TLV has no MBC bit; leave `mbc` at False")
    if pfc.headroom and pfc.defended is None:
        raise FieldError("in the draft's PFC TLV the headroom capability comes after DefOn; set `defended`, 0 for none")
    defended = b"" if pfc.defended is None else bytes([pfc.defended & pfc.enabled])
    tail = defended + _CAPABLE * pfc.headroom
    return packed(_DRAFT, tail, willing=pfc.willing, cap=pfc.cap, enabled=pfc.enabled)


def _read_draft(info: bytes, flaws: list[Flaw]) -> Pfc | None:
    found = unpacked(_DRAFT, "pfc", info, flaws)
    if found is None:
        return None
    defended = info[2] & found["enabled"] if len(info) > 2 else None
    headroom = _is_capable(info[3:], flaws)
    return Pfc(found["enabled"], bool(found["willing"]), found["cap"] or 8, defended=defended, headroom=headroom)


def _encode_published(pfc: Pfc, _: Contents) -> Organisational:
    if pfc.defended is not None:
        raise FieldError("the published format has no DefOn in its PFC TLV; leave `defended` at None")
    tail = _CAPABLE * pfc.headroom
    return packed(_PUBLISHED, tail, willing=pfc.willing, mbc=pfc.mbc, cap=pfc.cap, enabled=pfc.enabled)


def _read_published(info: bytes, flaws: list[Flaw]) -> Pfc | None:
    found = unpacked(_PUBLISHED, "pfc", info, flaws)
    if found is None:
        return None
    cap = found["cap"]
    if cap > 8:
        flaws.append(flaw("pfc", DcbxReason.UNDEFINED, f"its capability is {cap}, and there are 8 classes at most"))
    headroom = _is_capable(info[2:], flaws)
    return Pfc(found["enabled"], bool(found["willing"]), cap, bool(found["mbc"]), headroom=headroom)


def _is_capable(octets: bytes, flaws: list[Flaw]) -> bool:
    """Read what follows the fields of a PFC TLV: nothing, the private octet, or something that is ignored."""
    if octets and octets[0] != HEADROOM_CAPABLE:
        message = f"octet {octets[0]:#04x} after its fields is not the headroom capability, {HEADROOM_CAPABLE:#04x}"
        flaws.append(flaw("pfc", DcbxReason.UNKNOWN_CAPABILITY, message))
    return octets[:1] == _CAPABLE


class PfcFeature(PrioritySetFeature[PfcAdmin, Pfc]):
    name = "pfc"
    head = "PFC"
    tlv = "PFC TLV"
    is_symmetric = True
    codecs = layouts(
        draft=codec(_DRAFT, "pfc", _read_draft, _encode_draft),
        published=codec(_PUBLISHED, "pfc", _read_published, _encode_published),
    )
    event_type = PfcChanged

    def check(self, admin: PfcAdmin, settings: CommonSettings) -> None:
        if settings.is_draft and admin.headroom and not admin.defon_octet:
            raise DcbxSettingsError(
                "the headroom capability comes after DefOn in the draft's PFC TLV, and defon_octet is off; "
                "turn it on, or headroom off"
            )
        if admin.hold and not settings.is_draft:
            raise DcbxSettingsError(
                "PFC's hold waits for DefOn 0, which the published format has not, so it would never end; "
                "turn it off, or set the version to draft"
            )

    def read_settings(self, top: TomlTable, version: DcbxVersion) -> PfcAdmin | None:
        table = top.table("pfc")
        if table is None:
            return None
        values: dict[str, Any] = {"enabled": table.take("enabled", priority_set, 0), "cap": table.take("cap", whole, 8)}
        for key in ("willing", "defense", "defon_octet", "headroom", "hold"):
            values[key] = table.take(key, flag, key == "defon_octet")
        return table.build(lambda: PfcAdmin(**values))

    def settings_lines(self, admin: PfcAdmin) -> list[str]:
        values = {"enabled": list(priorities(admin.enabled)), "willing": admin.willing, "cap": admin.cap}
        values |= {"defense": admin.defense, "defon_octet": admin.defon_octet}
        return section("pfc", values | {"headroom": admin.headroom, "hold": admin.hold})

    def warnings(self, settings: CommonSettings, states: Mapping[str, FeatureState[Any]]) -> Iterator[str]:
        admin, oper, ets = self.admin(settings), states[self.name].oper, states["ets"].oper
        if admin is None or not oper:
            return
        enabled = list(priorities(oper))
        classes = len({ets.assignment[priority] for priority in enabled} if ets else enabled)
        if classes > admin.cap:
            in_classes = f" in {classes} traffic classes" if ets else ""
            most = f"and this port can have it in {admin.cap} (cap)"
            yield f"PFC is on for {len(enabled)} priorities{in_classes}, {most}"

    def negotiate(self, view: View) -> FeatureState[int]:
        admin, tlv = self.admin(view.settings), view.remote(self.name)
        remote, remote_willing, remote_defended = (tlv.enabled, tlv.willing, tlv.defended) if tlv else (None,) * 3
        if admin is None:
            return FeatureState(None, None, remote, "this port does not run PFC", remote_willing=remote_willing)
        outcome = view.pass_symmetrically(self, admin.enabled, remote, admin.willing, remote_willing)
        return FeatureState(
            admin.enabled,
            outcome.oper,
            remote,
            outcome.why,
            admin.willing,
            remote_willing,
            outcome.pending,
            defense(admin.defense, outcome.oper, remote),
            remote_defended,
            hold(admin.hold, outcome.oper, remote, remote_defended),
        )

    def sent(self, settings: CommonSettings, state: FeatureState[int]) -> Pfc | None:
        admin = self.admin(settings)
        if admin is None or state.oper is None:
            return None
        shows_defense = settings.is_draft and admin.defon_octet
        defended = state.defended if shows_defense else None
        return Pfc(state.oper, admin.willing, admin.cap, defended=defended, headroom=admin.headroom)

    def tlv_data(self, content: Pfc) -> dict[str, Any]:
        masks = {"enabled": priority_list(content.enabled), "defended": priority_list(content.defended)}
        more = {"cap": content.cap, "mbc": content.mbc, "headroom": content.headroom}
        return {"willing": content.willing, **masks, **more}

    def port_data(self, settings: CommonSettings, peer: Contents | None) -> dict[str, Any]:
        """Return in how many traffic classes each end can have PFC, and the peer's MBC."""
        own, far = self.admin(settings), None if peer is None else peer.get(self.name)
        capability = {"local": own and own.cap, "remote": far and far.cap, "remote_mbc": far and far.mbc}
        return {"pfc_capability": capability}

    def tlv_text(self, data: Any, version: str) -> str:
        most = "" if data["cap"] == 8 else f", on {data['cap']} at most"
        enabled = priorities_text(data["enabled"])
        headroom = ", headroom" if data["headroom"] else ""
        return f"PFC {enabled}{most}{willing_text(data)}{defends(data)}{headroom}"

    def details(self, port: Data) -> list[str]:
        capability = port["pfc_capability"]
        if capability["local"] is None:
            return []
        there = "" if capability["remote"] is None else f", {capability['remote']} at the peer"
        mbc = ", whose MACsec cannot be bypassed (MBC)" if capability["remote_mbc"] else ""
        return [f"PFC in up to {capability['local']} traffic classes here{there}{mbc}"]
