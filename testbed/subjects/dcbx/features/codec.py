"""The layout of a DCBX TLV in one format, and the parts of it that several TLVs share.

A codec knows one TLV of one format; `testbed.subjects.dcbx.tlvs` puts the codecs of all features together for a whole
frame. Lengths in messages are those of the formats' tables, which count the OUI and the subtype.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from testbed.frames.dcbx.layouts import OUI, Layout
from testbed.frames.dcbx.values import DcbxVersion
from testbed.frames.lldp_tlvs import Flaw, Organisational

C = TypeVar("C")


class Contents(Protocol):
    """The contents of the DCBX TLVs of one frame, by feature."""

    def get(self, name: str) -> Any:
        """Return the content of a feature's TLV, or None if there is no such TLV."""


class DcbxReason(enum.StrEnum):
    """The mistakes in DCBX TLVs; the values are names of counters."""

    BAD_LENGTH = "bad_length"  # left out
    REPEATED = "repeated"  # left out: the first counts
    OTHER_VERSION = "other_version"  # left out: only the other format has it, and this peer uses this one
    BANDWIDTH_SUM = "bandwidth_sum"  # a recommendation is left out; a configuration is for display only (0103)
    UNDEFINED = "undefined"  # a value that means nothing: likewise, but of a PFC capability only itself
    RESERVED_SELECTOR = "reserved_selector"  # that entry is left out
    UNKNOWN_CAPABILITY = "unknown_capability"  # an octet that is not HEADROOM_CAPABLE is not read


@dataclass(frozen=True)
class Codec(Generic[C]):
    """The layout of a feature's TLV in one format."""

    subtype: int
    """The subtype under `oui`."""
    name: str
    """The name of the TLV in counters."""
    read: Callable[[bytes, list[Flaw]], C | None]
    """Returns the content of the octets after the subtype, or None if the TLV is left out. It lists what is wrong."""
    encode: Callable[[C, Contents], Organisational] | None = None
    """Makes the TLV; the second argument has the contents of the frame's other TLVs. None if the feature has no TLV of
    its own but some bits in that of another feature, which writes them."""
    telling_length: int | None = None
    """The number of octets after the subtype by which a receiver knows that the sender uses this format, because the
    other format has no such TLV. None if the two formats cannot be told apart by this TLV."""
    oui: bytes = OUI
    """The organisation whose TLV it is: IEEE 802.1 has those of DCBX."""

    @property
    def place(self) -> tuple[bytes, int]:
        """The organisation and the subtype."""
        return self.oui, self.subtype


def layouts(*, draft: Codec[C] | None = None, published: Codec[C] | None = None) -> Mapping[DcbxVersion, Codec[C]]:
    """Return the layouts of a TLV by format; None for a format that does not have it."""
    both = {DcbxVersion.DRAFT: draft, DcbxVersion.PUBLISHED: published}
    return {version: codec for version, codec in both.items() if codec is not None}


def organisational(subtype: int, *octets: int, table: bytes = b"") -> Organisational:
    return Organisational(OUI, subtype, bytes(octets) + table)


def codec(
    layout: Layout,
    name: str,
    read: Callable[[bytes, list[Flaw]], C | None],
    encode: Callable[[C, Contents], Organisational],
    *,
    tells: bool = False,
) -> Codec[C]:
    """Return the codec of a layout; with `tells` its length tells the format."""
    return Codec(layout.subtype, name, read, encode, layout.octets if tells else None)


def packed(layout: Layout, tail: bytes = b"", /, **values: int | Sequence[int]) -> Organisational:
    """Return a TLV of this layout with these values of its fields, and what follows them."""
    return Organisational(OUI, layout.subtype, layout.pack(values) + tail)


def unpacked(layout: Layout, tlv: str, info: bytes, flaws: list[Flaw]) -> dict[str, Any] | None:
    """Return the values of the fields of a TLV, or None and a flaw if its length is none that it can have."""
    if layout.fits(len(info)):
        return layout.unpack(info)
    flaws.append(bad_length(tlv, info, layout.length))
    return None


def flaw(tlv: str, reason: DcbxReason, message: str) -> Flaw:
    return Flaw(tlv, reason, f"{tlv.replace('_', ' ')}: {message}")


def bad_length(tlv: str, info: bytes, wanted: str) -> Flaw:
    """Return the flaw of a TLV whose length is not `wanted`."""
    return flaw(tlv, DcbxReason.BAD_LENGTH, f"its length is {len(info) + 4}, and has to be {wanted}")
