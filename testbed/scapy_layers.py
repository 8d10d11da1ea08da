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
    ByteEnumField,
    ByteField,
    FlagsField,
    PacketListField,
    XByteField,
    XShortField,
    XStrLenField,
)
from scapy.packet import Packet

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

_OUI = 0x0080C2
_PRIORITIES = [f"p{priority}" for priority in range(8)]
_TSA = {0: "strict", 1: "CBS", 2: "ETS", 255: "vendor"}


def _head(subtype: int, length: int) -> list[Any]:
    return [BitEnumField("_type", 127, 7, LLDPDU.TYPES), BitField("_length", length, 9), *_organisation(subtype)]


def _head_of(subtype: int, fixed: int, variable: str) -> list[Any]:
    """Return the head of a TLV whose length follows from a field."""
    length = BitFieldLenField("_length", None, 9, length_of=variable, adjust=lambda _, size: size + fixed)
    return [BitEnumField("_type", 127, 7, LLDPDU.TYPES), length, *_organisation(subtype)]


def _organisation(subtype: int) -> list[Any]:
    codes = LLDPDUGenericOrganisationSpecific.ORG_UNIQUE_CODES
    return [ThreeBytesEnumField("org_code", _OUI, codes), ByteField("subtype", subtype)]


def _assignment() -> list[Any]:
    return [BitField(f"priority_{number}", 0, 4) for number in range(8)]


def _bandwidth() -> list[Any]:
    return [ByteField(f"bandwidth_{number}", 0) for number in range(8)]


def _selection() -> list[Any]:
    return [ByteEnumField(f"tsa_{number}", 0, _TSA) for number in range(8)]


class _Dcbx(LLDPDU):
    """The base of all DCBX TLVs, which are found by OUI, subtype and length."""

    subtype_here = 0
    lengths = range(0)
    version = ""  # where another format has the same subtype and lengths

    @classmethod
    def _match_organization_specific(cls, payload: bytes) -> bool:
        length = (payload[0] & 1) << 8 | payload[1]
        here = int.from_bytes(payload[2:5], "big") == _OUI and payload[5] == cls.subtype_here and length in cls.lengths
        return here and cls.version in {"", conf.contribs["DCBX"]["version"]}


# The published format


class DcbxEtsConfiguration(_Dcbx):
    name = "DCBX ETS Configuration"
    subtype_here, lengths = 9, range(25, 26)
    fields_desc = [
        *_head(9, 25),
        BitField("willing", 0, 1),
        BitField("cbs", 0, 1),
        BitField("reserved", 0, 3),
        BitField("traffic_classes", 0, 3),  # 0: 8
        *_assignment(),
        *_bandwidth(),
        *_selection(),
    ]


class DcbxEtsRecommendation(_Dcbx):
    name = "DCBX ETS Recommendation"
    subtype_here, lengths = 10, range(25, 26)
    fields_desc = [*_head(10, 25), XByteField("reserved", 0), *_assignment(), *_bandwidth(), *_selection()]


class DcbxPfc(_Dcbx):
    name = "DCBX PFC"
    subtype_here, lengths, version = 11, range(6, 512), "published"
    fields_desc = [
        *_head_of(11, 6, "extra"),
        BitField("willing", 0, 1),
        BitField("mbc", 0, 1),
        BitField("reserved", 0, 2),
        BitField("cap", 8, 4),
        FlagsField("enabled", 0, 8, _PRIORITIES),
        XStrLenField("extra", b"", length_from=lambda tlv: tlv._length - 6),  # a1: our headroom capability
    ]


class DcbxApplicationEntry(Packet):
    name = "DCBX application"
    fields_desc = [
        BitField("priority", 0, 3),
        BitField("reserved", 0, 2),
        BitEnumField("selector", 1, 3, {1: "Ethertype", 2: "TCP", 3: "UDP", 4: "any port", 5: "DSCP"}),
        XShortField("protocol", 0),
    ]

    def extract_padding(self, s: bytes) -> tuple[bytes, bytes]:
        return b"", s


class DcbxApplicationPriority(_Dcbx):
    name = "DCBX Application Priority"
    subtype_here, lengths, version = 12, range(5, 512, 3), "published"
    fields_desc = [
        *_head_of(12, 5, "entries"),
        XByteField("reserved", 0),
        PacketListField("entries", [], DcbxApplicationEntry, length_from=lambda tlv: tlv._length - 5),
    ]


class DcbxCongestionNotification(_Dcbx):
    name = "DCBX Congestion Notification"
    subtype_here, lengths = 8, range(6, 7)
    fields_desc = [
        *_head(8, 6),
        FlagsField("cnpv", 0, 8, _PRIORITIES),
        FlagsField("ready", 0, 8, _PRIORITIES),
    ]


# The draft's format


class DraftTrafficClasses(_Dcbx):
    name = "DCBX draft Traffic Classes Supported"
    subtype_here, lengths = 8, range(5, 6)
    fields_desc = [*_head(8, 5), BitField("reserved", 0, 5), BitField("traffic_classes", 0, 3)]  # 0: 8


class DraftEtsConfiguration(_Dcbx):
    name = "DCBX draft ETS Configuration"
    subtype_here, lengths = 9, range(17, 18)
    fields_desc = [
        *_head(9, 17),
        BitField("reserved", 0, 7),
        BitField("willing", 0, 1),
        *_assignment(),
        *_bandwidth(),
    ]


class DraftEtsRecommendation(_Dcbx):
    name = "DCBX draft ETS Recommendation"
    subtype_here, lengths = 10, range(13, 14)
    fields_desc = [*_head(10, 13), BitField("reserved", 0, 7), BitField("rv", 1, 1), *_bandwidth()]


class DraftPfc(_Dcbx):
    name = "DCBX draft PFC"
    subtype_here, lengths, version = 11, range(6, 512), "draft"
    fields_desc = [
        *_head_of(11, 6, "extra"),
        BitField("willing", 0, 1),
        BitField("reserved", 0, 4),
        BitField("cap", 0, 3),  # 0: 8
        FlagsField("enabled", 0, 8, _PRIORITIES),
        XStrLenField("extra", b"\0", length_from=lambda tlv: tlv._length - 6),  # DefOn; then a1: our capability
    ]


class DraftApplicationEntry(Packet):
    name = "DCBX draft application"
    fields_desc = [
        BitField("priority", 0, 3),
        BitField("reserved", 0, 2),
        BitEnumField("selector", 0, 3, {0: "Ethertype", 1: "TCP", 2: "UDP", 3: "TCP or UDP", 4: "neither"}),
        XShortField("protocol", 0),
    ]

    def extract_padding(self, s: bytes) -> tuple[bytes, bytes]:
        return b"", s


class DraftApplicationPriority(_Dcbx):
    name = "DCBX draft Application Priority"
    subtype_here, lengths, version = 12, range(5, 512, 3), "draft"
    fields_desc = [
        *_head_of(12, 5, "entries"),
        BitField("willing", 0, 1),
        BitField("reserved", 0, 7),
        PacketListField("entries", [], DraftApplicationEntry, length_from=lambda tlv: tlv._length - 5),
    ]


class DraftCongestionNotification(_Dcbx):
    name = "DCBX draft Congestion Notification"
    subtype_here, lengths = 13, range(7, 8)
    fields_desc = [
        *_head(13, 7),
        BitField("willing", 0, 1),
        BitField("reserved", 0, 7),
        FlagsField("enabled", 0, 8, _PRIORITIES),
        FlagsField("defended", 0, 8, _PRIORITIES),
    ]


LLDPDU_CLASS_TYPES[127][:0] = _Dcbx.__subclasses__()
