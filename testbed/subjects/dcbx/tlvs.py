"""The DCBX TLVs of a frame, in the published format or in the draft's (decision 0100).

Each feature has the layouts of its own TLV. A port speaks one format, so a whole frame is read or written in one. Some
TLVs look the same in both (PFC, Application Priority); by the lengths of the others `read` notices a peer that speaks
the other format, and then reads nothing of DCBX in that frame rather than guess.

How strict `read` is: a TLV of another length than that of its format is left out; a PFC TLV may be longer. Of a
repeated one the first counts, right or wrong. Reserved bits are not read. Other organisations' TLVs, and subtypes that
are not DCBX, are no fault. What was found wrong is listed, each with the name of a counter.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from testbed.frames import FieldError
from testbed.frames.dcbx.layouts import OUI
from testbed.frames.dcbx.values import DcbxVersion, EtsRecommendation
from testbed.frames.lldp_tlvs import Flaw, Organisational, Tlv
from testbed.subjects.dcbx import features
from testbed.subjects.dcbx.features.applications import MOST_ENTRIES, ApplicationPriority
from testbed.subjects.dcbx.features.codec import Codec, DcbxReason, flaw
from testbed.subjects.dcbx.features.congestion_notification import CongestionNotification
from testbed.subjects.dcbx.features.ets import EtsConfiguration
from testbed.subjects.dcbx.features.feature import Feature
from testbed.subjects.dcbx.features.pfc import HEADROOM_CAPABLE, Pfc

__all__ = [
    "HEADROOM_CAPABLE",
    "MOST_ENTRIES",
    "OUI",
    "ApplicationPriority",
    "CongestionNotification",
    "DcbxReason",
    "DcbxTlvs",
    "EtsConfiguration",
    "EtsRecommendation",
    "Pfc",
    "Reading",
    "encode",
    "read",
]


@dataclass(frozen=True)
class DcbxTlvs:
    """The contents of the DCBX TLVs of one frame. None stands for a TLV that is not there."""

    traffic_classes: int | None = None
    """1 to 8; in the published format a part of ETS Configuration."""
    ets: EtsConfiguration | None = None
    recommendation: EtsRecommendation | None = None
    pfc: Pfc | None = None
    applications: ApplicationPriority | None = None
    cn: CongestionNotification | None = None
    more: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """The contents of the TLVs of features that have no field of their own, by the feature's name."""

    def __post_init__(self) -> None:
        if self.traffic_classes is not None and not 1 <= self.traffic_classes <= 8:
            raise FieldError(f"{self.traffic_classes} traffic classes are invalid: there are 1 to 8")

    def __bool__(self) -> bool:
        return self != _NOTHING

    @classmethod
    def of(cls, contents: Mapping[str, Any]) -> DcbxTlvs:
        """Return TLVs with these contents, by the features' names."""
        there = {name: content for name, content in contents.items() if content is not None}
        own = {name: content for name, content in there.items() if name in _FIELDS}
        return cls(**own, more={name: content for name, content in there.items() if name not in _FIELDS})

    def get(self, name: str) -> Any:
        """Return the content of a feature's TLV, or None if there is no such TLV."""
        return getattr(self, name) if name in _FIELDS else self.more.get(name)


_FIELDS = frozenset(one.name for one in fields(DcbxTlvs)) - {"more"}
_NOTHING = DcbxTlvs()


@dataclass(frozen=True, slots=True)
class Reading:
    """The DCBX part of a frame."""

    tlvs: DcbxTlvs
    flaws: tuple[Flaw, ...] = ()
    mismatch: bool = False
    """True if the peer speaks the other format."""


def encode(version: DcbxVersion, tlvs: DcbxTlvs) -> list[Organisational]:
    """Return the TLVs to put into an LLDPDU; FieldError for what this format cannot express."""
    made = []
    for feature, codec in _codecs(version):
        content = tlvs.get(feature.name)
        if content is not None and codec.encode is not None:
            made.append(codec.encode(content, tlvs))
    return made


def read(version: DcbxVersion, tlvs: Iterable[Tlv]) -> Reading:
    """Find the DCBX TLVs among the optional ones of an LLDPDU."""
    ours = [((tlv.oui, tlv.subtype), tlv.info) for tlv in tlvs if isinstance(tlv, Organisational)]
    shapes = {(*place, len(info)) for place, info in ours}
    foreign = shapes & _telling_shapes(version.other)
    if foreign and not shapes & _telling_shapes(version):
        return Reading(DcbxTlvs(), mismatch=True)
    owners = _owners(version)
    parts = [(feature, codec) for feature, codec in _codecs(version) if codec.encode is None]
    found: dict[str, Any] = {}
    flaws: list[Flaw] = []
    for place, info in ours:
        is_foreign = bool(foreign) and (*place, len(info)) in foreign
        if place not in owners:
            if is_foreign:
                flaws.append(_of_other_version(_owners(version.other)[place][1].name, version))
            continue
        feature, codec = owners[place]
        if feature.name in found:
            flaws.append(flaw(codec.name, DcbxReason.REPEATED, "it comes again; the first counts"))
        elif is_foreign:
            flaws.append(_of_other_version(codec.name, version))
            found[feature.name] = None
        else:
            found[feature.name] = codec.read(info, flaws)
            if found[feature.name] is not None:
                found |= {part.name: inside.read(info, flaws) for part, inside in parts if inside.place == place}
    return Reading(DcbxTlvs.of(found), tuple(flaws))


def _codecs(version: DcbxVersion) -> Iterator[tuple[Feature[Any, Any, Any], Codec[Any]]]:
    for feature in features.every():
        if version in feature.codecs:
            yield feature, feature.codecs[version]


def _owners(version: DcbxVersion) -> dict[tuple[bytes, int], tuple[Feature[Any, Any, Any], Codec[Any]]]:
    """Return the feature that each TLV belongs to by organisation and subtype, and its codec."""
    return {codec.place: (feature, codec) for feature, codec in _codecs(version) if codec.encode is not None}


def _telling_shapes(version: DcbxVersion) -> set[tuple[bytes, int, int]]:
    """Return organisations, subtypes and lengths by which a receiver knows that the sender uses this format."""
    return {(*codec.place, codec.telling_length) for _, codec in _codecs(version) if codec.telling_length is not None}


def _of_other_version(name: str, version: DcbxVersion) -> Flaw:
    message = f"this is the {version.other} format's, among TLVs of the {version} one"
    return flaw(name, DcbxReason.OTHER_VERSION, message)
