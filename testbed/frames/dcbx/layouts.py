"""The layouts of DCBX's TLVs in both formats: the fields behind OUI and subtype, in the order of their bits.

Who packs or reads these TLVs does it by this table: the features of DCBX (`testbed.subjects.dcbx.features`), Scapy's
layers (`testbed.scapy_layers`) and the dissector for Wireshark (`xoff.lua`, whose part `tools/dissector_tables.py`
writes). What the values mean, and which are wrong, is the features'.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from testbed.frames.dcbx.values import DcbxVersion

OUI = bytes.fromhex("0080c2")
"""IEEE 802.1."""


@dataclass(frozen=True, slots=True)
class Field:
    """A number of some bits, or with `count` a table of them."""

    name: str
    bits: int
    count: int = 1
    usual: int = 0
    """Its value in a TLV that says nothing of it."""
    is_set: bool = False
    """True for a set of priorities."""


class Fields:
    """Fields one behind the other, of whole octets together."""

    def __init__(self, *fields: Field) -> None:
        self.fields = fields
        self.octets = sum(field.bits * field.count for field in fields) // 8

    def pack(self, values: Mapping[str, int | Sequence[int]]) -> bytes:
        """Return the octets of these values; fields that are not among them are 0."""
        whole = 0
        for field in self.fields:
            value = values.get(field.name, 0)
            for one in value if isinstance(value, Sequence) else (value,) * field.count:
                whole = whole << field.bits | one & (1 << field.bits) - 1
        return whole.to_bytes(self.octets, "big")

    def unpack(self, octets: bytes) -> dict[str, Any]:
        """Return the values in the first octets by the fields' names: numbers, and tuples of those with a count."""
        whole, left = int.from_bytes(octets[: self.octets], "big"), self.octets * 8
        values: dict[str, Any] = {}
        for field in self.fields:
            left -= field.bits * field.count
            shifts = range(left + field.bits * (field.count - 1), left - 1, -field.bits)
            found = tuple(whole >> shift & (1 << field.bits) - 1 for shift in shifts)
            values[field.name] = found if field.count > 1 else found[0]
        return values


ENTRY = Fields(Field("priority", 3), Field("reserved", 2), Field("selector", 3), Field("protocol", 16))
"""An entry of Application Priority."""


class Layout(Fields):
    """A TLV of one format; `entries` or other octets follow its fields."""

    def __init__(
        self, subtype: int, name: str, *fields: Field, entries: bool = False, extra: bytes | None = None
    ) -> None:
        super().__init__(*fields)
        self.subtype = subtype
        self.name = name
        self.has_entries = entries
        self.extra = extra
        """The usual content of the octets that can follow; None if none can."""

    def fits(self, octets: int) -> bool:
        """Report whether such a TLV can have this number of octets behind its subtype."""
        more = octets - self.octets
        return more >= 0 and (more % ENTRY.octets == 0 if self.has_entries else self.extra is not None or more == 0)

    @property
    def length(self) -> str:
        """The length that the TLV has to have, in words, with OUI and subtype."""
        return f"{self.octets + 4}{f' and a multiple of {ENTRY.octets}' if self.has_entries else ''}" + (
            " at least" if self.extra is not None else ""
        )


_WILLING, _CLASSES, _BANDWIDTH = Field("willing", 1), Field("traffic_classes", 3), Field("bandwidth", 8, 8)
_TABLES = Field("priority", 4, 8), _BANDWIDTH, Field("tsa", 8, 8)
_ENABLED, _DEFENDED = Field("enabled", 8, is_set=True), Field("defended", 8, is_set=True)


def _reserved(bits: int) -> Field:
    return Field("reserved", bits)


LAYOUTS: Mapping[DcbxVersion, Mapping[int, Layout]] = MappingProxyType({
    DcbxVersion.PUBLISHED: {one.subtype: one for one in (
        Layout(8, "Congestion Notification", Field("cnpv", 8, is_set=True), Field("ready", 8, is_set=True)),
        Layout(9, "ETS Configuration", _WILLING, Field("cbs", 1), _reserved(3), _CLASSES, *_TABLES),
        Layout(10, "ETS Recommendation", _reserved(8), *_TABLES),
        Layout(11, "PFC", _WILLING, Field("mbc", 1), _reserved(2), Field("cap", 4, usual=8), _ENABLED, extra=b""),
        Layout(12, "Application Priority", _reserved(8), entries=True),
    )},
    DcbxVersion.DRAFT: {one.subtype: one for one in (
        Layout(8, "Traffic Classes", _reserved(5), _CLASSES),
        Layout(9, "ETS Configuration", _reserved(7), _WILLING, *_TABLES[:2]),
        Layout(10, "ETS Recommendation", _reserved(7), Field("rv", 1, usual=1), _BANDWIDTH),
        Layout(11, "PFC", _WILLING, _reserved(4), Field("cap", 3), _ENABLED, extra=b"\0"),
        Layout(12, "Application Priority", _WILLING, _reserved(7), entries=True),
        Layout(13, "Congestion Notification", _WILLING, _reserved(7), _ENABLED, _DEFENDED),
    )},
})  # fmt: skip
"""The layouts by format and subtype. A number of traffic classes of 0 is 8, and so is the draft's capability of PFC."""
