"""The headroom capability (decision 0113): both ports announce it, or headroom is not measured on their link.

It has no TLV of its own but a private octet at the end of the PFC TLV, in both formats, and is a setting of PFC.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from testbed.subjects.dcbx.features.feature import CommonSettings, Data, Event, Feature, FeatureState, View


@dataclass(frozen=True, slots=True)
class HeadroomChanged(Event):
    """Both ends can measure headroom, so one may ask the other (True); or no longer."""

    both: bool
    why: str


class HeadroomFeature(Feature[bool, bool, bool]):
    name = "headroom"
    head = "headroom"
    tlv = "headroom capability"
    event_type = HeadroomChanged
    event_field = "both"

    def admin(self, settings: CommonSettings) -> bool | None:
        pfc = settings.get("pfc")
        found: bool | None = pfc.headroom if pfc else None
        return found

    def negotiate(self, view: View) -> FeatureState[bool]:
        admin, pfc = self.admin(view.settings), view.remote("pfc")
        remote = pfc.headroom if pfc else None
        if not admin:
            return FeatureState(admin, admin, remote, "this port does not announce it")
        why = "both ports announce it" if remote else view.lacking(self.tlv)
        return FeatureState(admin, bool(remote), remote, why)

    def event(self, at_ns: int, state: FeatureState[bool]) -> Event:
        return HeadroomChanged(at_ns, bool(state.oper), state.why)

    def facts(self, state: FeatureState[bool]) -> object:
        return state.oper

    def event_data(self, event: HeadroomChanged) -> dict[str, Any]:
        return {"both": event.both, "why": event.why}

    def value_data(self, value: bool) -> bool:
        return value

    def value_text(self, data: Any) -> str:
        return "yes" if data else "no"

    def event_text(self, line: Data, before: Data) -> list[str]:
        if line["both"] is before.get("both", False):
            return []
        return [f"headroom {'can' if line['both'] else 'can not'} be measured, {line['why']}"]
