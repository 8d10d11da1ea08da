"""The number of traffic classes of a port: informational, so each port announces its own.

    draft      subtype 8, length 5    reserved 5 bits, traffic classes 3 (0 is 8, decision 0103)
    published                         3 bits of ETS Configuration, which `ets` writes

By the peer's number a port may size its buffer (decision 0377).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from testbed.frames.dcbx.layouts import LAYOUTS
from testbed.frames.dcbx.values import DcbxVersion
from testbed.frames.lldp_tlvs import Flaw, Organisational
from testbed.subjects.dcbx.features.codec import Codec, Contents, codec, layouts, packed, unpacked
from testbed.subjects.dcbx.features.feature import (
    CommonSettings,
    Data,
    DcbxSettingsError,
    Event,
    Feature,
    FeatureState,
    View,
    elected,
)

_DRAFT, _IN_ETS = LAYOUTS[DcbxVersion.DRAFT][8], LAYOUTS[DcbxVersion.PUBLISHED][9]
_NAME = "traffic_classes"


@dataclass(frozen=True, slots=True)
class TrafficClassesChanged(Event):
    """The traffic classes of this port and of its peer, and the number of them that the buffer is to be sized for."""

    local: int
    remote: int | None
    buffered: int | None = None
    """The number that the buffer is sized for; None for all priorities, whatever the peer has."""


def _encode_draft(classes: int, _: Contents) -> Organisational:
    return packed(_DRAFT, traffic_classes=classes)


def _read_draft(info: bytes, flaws: list[Flaw]) -> int | None:
    found = unpacked(_DRAFT, _NAME, info, flaws)
    return None if found is None else found["traffic_classes"] or 8


def _read_published(info: bytes, _: list[Flaw]) -> int:
    return info[0] & 7 or 8


class TrafficClassesFeature(Feature[int, int, int]):
    name = _NAME
    head = "TC"
    tlv = "Traffic Classes Supported"
    event_type = TrafficClassesChanged
    event_field = "local"
    codecs = layouts(
        draft=codec(_DRAFT, _NAME, _read_draft, _encode_draft, tells=True),
        published=Codec(_IN_ETS.subtype, _NAME, _read_published),
    )

    def admin(self, settings: CommonSettings) -> int:
        return settings.traffic_classes

    def check(self, admin: int, settings: CommonSettings) -> None:
        if not 1 <= admin <= 8:
            raise DcbxSettingsError(f"{admin} traffic classes are invalid: there are 1 to 8")

    def negotiate(self, view: View) -> FeatureState[int]:
        own, remote = view.settings.traffic_classes, view.remote(self.name)
        buffered = remote if view.settings.buffer_by_classes else None
        why = "local setting: it is announced only"
        return FeatureState(own, own, remote, why, pending=remote is None, buffered=buffered)

    def sent(self, settings: CommonSettings, state: FeatureState[int]) -> int | None:
        return settings.traffic_classes if settings.is_draft or settings.get("ets") else None

    def event(self, at_ns: int, state: FeatureState[int]) -> Event:
        assert state.oper is not None  # every port has some
        return TrafficClassesChanged(at_ns, state.oper, state.remote, state.buffered)

    def event_data(self, event: TrafficClassesChanged) -> dict[str, Any]:
        return {"local": event.local, "remote": event.remote, **elected(buffered=event.buffered)}

    def value_data(self, value: int) -> int:
        return value

    def tlv_data(self, content: int) -> int:
        return content

    def value_text(self, data: Any) -> str:
        return str(data)

    def tlv_text(self, data: Any, version: str) -> str:
        return f"TC {data}"

    def event_text(self, line: Data, before: Data) -> list[str]:
        return [] if before.get("local") == line["local"] else [f"TC {line['local']}"]

    def notes(self, state: Data) -> list[str]:
        classes = state.get("buffered")
        return [] if classes is None else [f"the buffer is for the peer's {classes} traffic classes"]
