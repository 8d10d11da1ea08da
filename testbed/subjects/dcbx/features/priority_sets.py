"""The common part of PFC and congestion notification: both are on or off for each priority, and have defenses.

In code a set of priorities is a mask, bit n for priority n; in plain data it is a list.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from testbed.subjects.dcbx.features.feature import (
    Data,
    Event,
    Feature,
    FeatureState,
    elected,
    priorities_text,
    priority_list,
)

A = TypeVar("A")
C = TypeVar("C")


@dataclass(frozen=True, slots=True)
class PrioritiesChanged(Event):
    """Run the feature on these priorities and no other."""

    enabled: int
    defended: int
    """The priorities on which every received frame is to be discarded, but bridge PDUs and LLDP."""
    remote: int | None
    """The priorities on which the peer runs it; what differs from `enabled` is for a local policy."""
    remote_defended: int | None
    """The priorities on which the peer discards what is sent to it; None if it does not announce them."""
    why: str
    held: int | None = None
    """The priorities on which nothing is to be sent yet; None if the port does not wait for the peer's defenses."""


class PrioritySetFeature(Feature[A, int, C]):
    """A feature that is on or off for each priority."""

    event_type: ClassVar[type[PrioritiesChanged]]
    event_field = "enabled"

    def event(self, at_ns: int, state: FeatureState[int]) -> Event:
        masks = state.oper or 0, state.defended or 0, state.remote, state.remote_defended
        return self.event_type(at_ns, *masks, state.why, state.held)

    def event_data(self, event: PrioritiesChanged) -> dict[str, Any]:
        return {
            "enabled": priority_list(event.enabled),
            "defended": priority_list(event.defended),
            "remote": priority_list(event.remote),
            "remote_defended": priority_list(event.remote_defended),
            "why": event.why,
            **elected(held=priority_list(event.held)),
        }

    def value_data(self, value: int) -> list[int] | None:
        return priority_list(value)

    def value_text(self, data: Any) -> str:
        return priorities_text(data)

    def event_text(self, line: Data, before: Data) -> list[str]:
        said = []
        if line["enabled"] != before.get("enabled"):
            said.append(f"{self.head} {priorities_text(line['enabled'])}, {line['why']}")
        if line["defended"] != before.get("defended", []):
            said.append(f"{self.head} defends {priorities_text(line['defended'])}")
        if line.get("held", []) != before.get("held", []):
            said.append(f"{self.head} holds {priorities_text(line['held'])}")
        return said

    def sentence(self, line: Data) -> str:
        defended = f", defended {priorities_text(line['defended'])}" if line["defended"] else ""
        return f"{self.head} {priorities_text(line['enabled'])}{defended}: {line['why']}"


def defends(tlv: Data) -> str:
    """Return the DefOn bits of a TLV, to be appended to its value."""
    return "" if tlv["defended"] is None else f", defends {priorities_text(tlv['defended'])}"
