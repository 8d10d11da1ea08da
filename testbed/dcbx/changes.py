"""Two states of a port to the events between them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from testbed.dcbx.events import (
    ApplicationsChanged,
    CnChanged,
    EtsChanged,
    Event,
    HeadroomChanged,
    PendingChanged,
    PfcChanged,
    TrafficClassesChanged,
)
from testbed.dcbx.negotiation import Feature, PortState


def changes(before: PortState | None, after: PortState, at_ns: int) -> list[Event]:
    """The events that lead from `before` to `after`; None: there was no state before.

    A different reason alone is not a change, and a feature that is not run is mentioned only if it was run before.
    """
    events: list[Event] = []
    for name, (make, facts) in _TOLD.items():
        new: Feature[Any] = getattr(after, name)
        old: Feature[Any] | None = None if before is None else getattr(before, name)
        is_run, was_run = new.oper is not None, old is not None and old.oper is not None
        if (is_run or was_run) and (old is None or facts(new) != facts(old)):
            events.append(make(at_ns, new))
    for name, feature in after.features().items():
        was_pending = before is not None and before.features()[name].pending
        if feature.pending != was_pending:
            events.append(PendingChanged(at_ns, name, feature.pending))
    return events


def _pfc(at_ns: int, pfc: Feature[int]) -> Event:
    return PfcChanged(at_ns, pfc.oper or 0, pfc.defended or 0, pfc.remote, pfc.remote_defended, pfc.why, pfc.held)


def _cn(at_ns: int, cn: Feature[int]) -> Event:
    return CnChanged(at_ns, cn.oper or 0, cn.defended or 0, cn.remote, cn.remote_defended, cn.why, cn.held)


def _traffic_classes(at_ns: int, classes: Feature[int]) -> Event:
    assert classes.oper is not None  # every port has some
    return TrafficClassesChanged(at_ns, classes.oper, classes.remote, classes.buffered)


def _oper(feature: Feature[Any]) -> object:
    return feature.oper


def _with_remote(feature: Feature[Any]) -> object:
    seen = feature.defended, feature.remote, feature.remote_defended
    return feature.oper, *seen, feature.held, feature.buffered


_TOLD: dict[str, tuple[Callable[[int, Feature[Any]], Event], Callable[[Feature[Any]], object]]] = {
    "traffic_classes": (_traffic_classes, _with_remote),
    "ets": (lambda at_ns, ets: EtsChanged(at_ns, ets.oper, ets.why), _oper),
    "pfc": (_pfc, _with_remote),
    "applications": (lambda at_ns, table: ApplicationsChanged(at_ns, table.oper or (), table.why), _oper),
    "cn": (_cn, _with_remote),
    "headroom": (lambda at_ns, headroom: HeadroomChanged(at_ns, bool(headroom.oper), headroom.why), _oper),
}
"""For each feature that an agent applies: its event, and the facts that make a new one necessary."""
