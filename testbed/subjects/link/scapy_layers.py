"""Ultra Ethernet's link layer for Scapy: what captures of lines have, and messages about credits. Provisional.

    from testbed.subjects.link.scapy_layers import LlrFrame, LlrOrderedSet, CfUpdate
    frame = Ether(type=0x88B5) / LlrFrame(sequence=7, flags="replay") / Ether() / IP()

Importing this binds `LlrFrame` and `LlrOrderedSet` to the EtherType of lines. `CfUpdate` and `CcUpdate` are MAC
control, which Scapy has of its own; what is received is read by `CfUpdate(bytes(frame)[14:])`. Fields can be set to
anything, as Scapy's users expect. Nothing of Xoff uses these layers but tests, which hold them against the codecs in
both directions.
"""

from __future__ import annotations

from typing import Any, ClassVar

from scapy.fields import (
    BitField,
    ByteEnumField,
    ByteField,
    FlagsField,
    LEShortField,
    X3BytesField,
    XByteField,
    XIntField,
    XShortField,
)
from scapy.layers.l2 import Ether
from scapy.packet import Packet, bind_layers, bind_top_down

from testbed.frames.headroom import EXTENSION_OPCODE
from testbed.frames.link import credits
from testbed.frames.mac_control import ETHERTYPE as MAC_CONTROL
from testbed.subjects.link.llr import ordered_set, record

__all__ = ["CcUpdate", "CfUpdate", "LlrFrame", "LlrOrderedSet"]

_FATES = {fate.value: fate.name.lower() for fate in record.Fate}
_SETS = {kind.value: kind.label for kind in ordered_set.Kind}


def _shim(kind: int) -> list[Any]:
    """Return the fields before the preamble or the ordered set, by the layout of records."""
    usual = {"version": record.VERSION, "kind": kind}
    words = {"kind": record.KINDS, "fate": _FATES}
    made: list[Any] = []
    for name, _, octets in record.LAYOUT[:-1]:
        assert octets == 1
        if name == "flags":
            made.append(FlagsField(name, 0, 8, ["replay", "plain"]))
        else:
            made.append(ByteEnumField(name, usual.get(name, 0), dict(words.get(name, {}))))
    return made


class LlrFrame(Packet):
    """A frame on a line, with its preamble; behind it is the frame from its destination on."""

    name = "LLR frame"
    fields_desc: ClassVar[list[Any]] = [
        *_shim(1), XIntField("start", 0x555555DD), X3BytesField("sequence", 0), ByteField("control", 0),
    ]  # fmt: skip

    @classmethod
    def dispatch_hook(cls, _pkt: bytes | None = None, *_: Any, **__: Any) -> type[Packet]:
        """Return the layer of what was carried: the second octet says which."""
        return LlrOrderedSet if _pkt is not None and len(_pkt) > 1 and _pkt[1] == 2 else cls

    def guess_payload_class(self, payload: bytes) -> type[Packet]:
        """Return the layer behind it."""
        found: type[Packet] = Ether
        return found


class LlrOrderedSet(Packet):
    """An ordered set on a line."""

    name = "LLR ordered set"
    fields_desc: ClassVar[list[Any]] = [
        *_shim(2), XByteField("block_type", ordered_set.BLOCK_TYPE), ByteEnumField("set", 1, _SETS),
        BitField("sequence", 0, 20), BitField("o_code", ordered_set.O_CODE, 4), LEShortField("data", 0),
        ByteField("reserved", 0),
    ]  # fmt: skip


class CfUpdate(Packet):
    """A CF_Update, in the frame that carries it through the lab."""

    name = "CF_Update"
    fields_desc: ClassVar[list[Any]] = [
        XShortField("opcode", EXTENSION_OPCODE), X3BytesField("extension", int.from_bytes(credits.CARRIER)),
        XByteField("control", credits.CONTROL), XByteField("type", credits.CF_UPDATE),
        BitField("vc", 0, 5), BitField("freed", 0, credits.FREED_BITS), BitField("o_code", credits.O_CODE, 4),
        BitField("second_vc", 0, 5), BitField("second_freed", 0, credits.FREED_BITS), BitField("reserved", 0, 4),
    ]  # fmt: skip


class CcUpdate(Packet):
    """A CC_Update: what a sender has used of sixteen virtual channels."""

    name = "CC_Update"
    fields_desc: ClassVar[list[Any]] = [
        XShortField("opcode", EXTENSION_OPCODE), X3BytesField("extension", int.from_bytes(credits.COMPANY)),
        ByteEnumField("type", 1, {1: "VCs 0 to 15", 2: "VCs 16 to 31"}),
        *(BitField(f"used_{place}", 0, credits.USED_BITS) for place in range(credits.COUNTERS)),
    ]  # fmt: skip


bind_layers(Ether, LlrFrame, type=record.ETHERTYPE)
bind_top_down(Ether, LlrOrderedSet, type=record.ETHERTYPE)
for _layer in (CfUpdate, CcUpdate):
    bind_top_down(Ether, _layer, type=MAC_CONTROL)
