"""DCBX for Scapy: importing this adds the six TLVs to `scapy.contrib.lldp`, in the published format and the draft's.

    from testbed.scapy_layers import DcbxPfc, LLDPDUChassisID, LLDPDUEndOfLLDPDU, LLDPDUPortID, LLDPDUTimeToLive
    frame = (Ether(dst="01:80:c2:00:00:0e") / LLDPDUChassisID(subtype=4, id="02:00:00:00:00:01")
             / LLDPDUPortID(subtype=5, id=b"eth0") / LLDPDUTimeToLive(ttl=121)
             / DcbxPfc(willing=1, cap=8, enabled="p3+p4") / LLDPDUEndOfLLDPDU())

Fields can be set to anything, as Scapy's users expect: what is wrong is built all the same, to try it on a receiver.
Nothing of Xoff uses these layers but tests, which hold them against `testbed.frames` in both directions.

Two TLVs look alike in both formats. What is received is shown as PFC and Application Priority of the published format,
or of the draft's after `conf.contribs["DCBX"]["version"] = "draft"`. A TLV whose length fits no format stays a generic
organisational one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scapy.config import conf
from scapy.contrib.lldp import (
    LLDPDU,
    LLDPDU_CLASS_TYPES,
    LLDPDUChassisID,
    LLDPDUEndOfLLDPDU,
    LLDPDUGenericOrganisationSpecific,
    LLDPDUPortID,
    LLDPDUTimeToLive,
    ThreeBytesEnumField,
)
from scapy.fields import (
    BitEnumField,
    BitField,
    BitFieldLenField,
    ByteField,
    FlagsField,
    PacketListField,
    XShortField,
    XStrLenField,
)
from scapy.packet import Packet

from testbed.frames.dcbx.layouts import ENTRY, LAYOUTS, OUI, Field, Fields, Layout
from testbed.frames.dcbx.values import DRAFT_SELECTORS, PUBLISHED_SELECTORS, DcbxVersion, Selector, Tsa

__all__ = [
    "DcbxApplicationEntry",
    "DcbxApplicationPriority",
    "DcbxCongestionNotification",
    "DcbxEtsConfiguration",
    "DcbxEtsRecommendation",
    "DcbxPfc",
    "DraftApplicationEntry",
    "DraftApplicationPriority",
    "DraftCongestionNotification",
    "DraftEtsConfiguration",
    "DraftEtsRecommendation",
    "DraftPfc",
    "DraftTrafficClasses",
    "LLDPDUChassisID",
    "LLDPDUEndOfLLDPDU",
    "LLDPDUPortID",
    "LLDPDUTimeToLive",
]

conf.contribs["DCBX"] = {"version": "published"}

_PRIORITIES = [f"p{priority}" for priority in range(8)]
_TSA = {int(tsa): tsa.name for tsa in Tsa}
_HEAD = 4
"""The octets of a TLV that its layout does not have: OUI and subtype."""


def _scapys(fields: Fields, selectors: Mapping[int, Selector]) -> list[Any]:
    """Return Scapy's fields for those of a layout."""
    return [one for field in fields.fields for one in _field(field, selectors)]


def _field(field: Field, selectors: Mapping[int, Selector]) -> list[Any]:
    if field.is_set:
        return [FlagsField(field.name, field.usual, field.bits, _PRIORITIES)]
    if field.name == "selector":
        words = {number: selector.value for number, selector in selectors.items()}
        return [BitEnumField(field.name, next(iter(selectors)), field.bits, words)]
    if field.name == "protocol":
        return [XShortField(field.name, 0)]
    if field.count == 1:
        return [BitField(field.name, field.usual, field.bits)]
    names = [f"{field.name}_{number}" for number in range(field.count)]
    return [BitEnumField(n, 0, field.bits, _TSA) if field.name == "tsa" else BitField(n, 0, field.bits) for n in names]


class _Entry(Packet):
    """An entry of Application Priority."""

    def extract_padding(self, s: bytes) -> tuple[bytes, bytes]:
        return b"", s


class _Dcbx(LLDPDU):
    """The base of all DCBX TLVs, which are found by OUI, subtype and length."""

    layout: Layout
    version = ""  # where another format has the same subtype and lengths

    @classmethod
    def _match_organization_specific(cls, payload: bytes) -> bool:
        length = (payload[0] & 1) << 8 | payload[1]
        is_here = payload[2:6] == OUI + bytes([cls.layout.subtype]) and cls.layout.fits(length - _HEAD)
        return is_here and cls.version in {"", conf.contribs["DCBX"]["version"]}


def _tlv(layout: Layout, version: DcbxVersion, entry: type[Packet] | None = None) -> Any:
    """Return the layer of a TLV of one format."""
    fixed, more = layout.octets + _HEAD, list[Any]()
    if entry is not None:
        more = [PacketListField("entries", [], entry, length_from=lambda tlv: tlv._length - fixed)]
    elif layout.extra is not None:  # the draft's DefOn, and our headroom capability
        more = [XStrLenField("extra", layout.extra, length_from=lambda tlv: tlv._length - fixed)]
    length: Any = BitField("_length", fixed, 9)
    if more:
        length = BitFieldLenField("_length", None, 9, length_of=more[0].name, adjust=lambda _, size: size + fixed)
    codes = LLDPDUGenericOrganisationSpecific.ORG_UNIQUE_CODES
    fields = [
        BitEnumField("_type", 127, 7, LLDPDU.TYPES), length,
        ThreeBytesEnumField("org_code", int.from_bytes(OUI), codes), ByteField("subtype", layout.subtype),
        *_scapys(layout, {}), *more,
    ]  # fmt: skip
    draft = version is DcbxVersion.DRAFT
    name = f"{'Draft' if draft else 'Dcbx'}{layout.name.replace(' ', '')}"
    shown = f"DCBX {'draft ' if draft else ''}{layout.name}"
    both = str(version) if more else ""
    return type(name, (_Dcbx,), {"name": shown, "layout": layout, "version": both, "fields_desc": fields})


def _entry(name: str, shown: str, selectors: Mapping[int, Selector]) -> Any:
    return type(name, (_Entry,), {"name": shown, "fields_desc": _scapys(ENTRY, selectors)})


_PUBLISHED, _DRAFT = LAYOUTS[DcbxVersion.PUBLISHED], LAYOUTS[DcbxVersion.DRAFT]
DcbxApplicationEntry = _entry("DcbxApplicationEntry", "DCBX application", PUBLISHED_SELECTORS)
DraftApplicationEntry = _entry("DraftApplicationEntry", "DCBX draft application", DRAFT_SELECTORS)

DcbxEtsConfiguration = _tlv(_PUBLISHED[9], DcbxVersion.PUBLISHED)
DcbxEtsRecommendation = _tlv(_PUBLISHED[10], DcbxVersion.PUBLISHED)
DcbxPfc = _tlv(_PUBLISHED[11], DcbxVersion.PUBLISHED)
DcbxApplicationPriority = _tlv(_PUBLISHED[12], DcbxVersion.PUBLISHED, DcbxApplicationEntry)
DcbxCongestionNotification = _tlv(_PUBLISHED[8], DcbxVersion.PUBLISHED)
DraftTrafficClasses = _tlv(_DRAFT[8], DcbxVersion.DRAFT)
DraftEtsConfiguration = _tlv(_DRAFT[9], DcbxVersion.DRAFT)
DraftEtsRecommendation = _tlv(_DRAFT[10], DcbxVersion.DRAFT)
DraftPfc = _tlv(_DRAFT[11], DcbxVersion.DRAFT)
DraftApplicationPriority = _tlv(_DRAFT[12], DcbxVersion.DRAFT, DraftApplicationEntry)
DraftCongestionNotification = _tlv(_DRAFT[13], DcbxVersion.DRAFT)

LLDPDU_CLASS_TYPES[127][:0] = _Dcbx.__subclasses__()
