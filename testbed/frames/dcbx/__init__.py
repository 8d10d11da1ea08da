"""The six DCBX TLVs in an LLDPDU, in the published format and in the draft's (decision 0100).

`values` has their content, `published` and `draft` have the layouts. A port speaks one format, so a whole frame is
read or written in one. Two TLVs look the same in both (PFC, Application Priority); by the lengths of the others `read`
notices a peer that speaks the other format, and then reads nothing of DCBX in that frame rather than guess.

How strict `read` is: a TLV of another length than that of its format is left out; a PFC TLV may be longer. Of a
repeated one the first counts, right or wrong. Reserved bits are not read. Other organisations' TLVs, and subtypes that
are not DCBX, are no fault. What was found wrong is listed, each with the name of a counter.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from testbed.frames.dcbx import draft, published
from testbed.frames.dcbx.shared import OUI, DcbxReason, flaw
from testbed.frames.dcbx.values import DcbxTlvs, DcbxVersion
from testbed.frames.lldp_tlvs import Flaw, Organisational, Tlv

_FORMATS = {DcbxVersion.PUBLISHED: published, DcbxVersion.DRAFT: draft}


@dataclass(frozen=True, slots=True)
class Reading:
    """The DCBX part of a frame."""

    tlvs: DcbxTlvs
    flaws: tuple[Flaw, ...] = ()
    mismatch: bool = False  # the peer speaks the other format


def encode(version: DcbxVersion, tlvs: DcbxTlvs) -> list[Organisational]:
    """The TLVs to put into an LLDPDU; FieldError for what this format cannot express."""
    made: list[Organisational] = _FORMATS[version].encode(tlvs)
    return made


def read(version: DcbxVersion, tlvs: Iterable[Tlv]) -> Reading:
    """Find the DCBX TLVs among the optional ones of an LLDPDU."""
    ours = [(tlv.subtype, tlv.info) for tlv in tlvs if isinstance(tlv, Organisational) and tlv.oui == OUI]
    shapes = {(subtype, len(info)) for subtype, info in ours}
    foreign = shapes & _FORMATS[version.other].OWN_SHAPES
    if foreign and not shapes & _FORMATS[version].OWN_SHAPES:
        return Reading(DcbxTlvs(), mismatch=True)
    readers = _FORMATS[version].READERS
    found: dict[str, Any] = {}
    flaws: list[Flaw] = []
    for subtype, info in ours:
        is_foreign = bool(foreign) and (subtype, len(info)) in foreign
        if subtype not in readers:
            if is_foreign:
                flaws.append(_of_other_version("congestion_notification", version))
            continue
        field, name, reader = readers[subtype]
        if field in found:
            flaws.append(flaw(name, DcbxReason.REPEATED, "it comes again; the first counts"))
        elif is_foreign:
            flaws.append(_of_other_version(name, version))
            found[field] = None
        else:
            found[field] = reader(info, flaws)
            if version is DcbxVersion.PUBLISHED and field == "ets" and found[field] is not None:
                found["traffic_classes"] = published.read_traffic_classes(info)
    return Reading(DcbxTlvs(**found), tuple(flaws))


def _of_other_version(name: str, version: DcbxVersion) -> Flaw:
    message = f"this is the {version.other} format's, among TLVs of the {version} one"
    return flaw(name, DcbxReason.OTHER_VERSION, message)
