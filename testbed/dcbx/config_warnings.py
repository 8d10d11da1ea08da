"""Warnings about how a port operates: settings that are legal, and so applied, but probably not intended.

The state machines of DCBX do not check whether a port supports what it takes over. The agent shows these warnings with
the port's state.
"""

from __future__ import annotations

from collections.abc import Iterator

from testbed.dcbx.negotiation import PortState
from testbed.dcbx.settings import DcbxSettings, Recommend
from testbed.frames.dcbx.values import Table, Tsa, priorities

_CLASSES = range(8)


def warnings(settings: DcbxSettings, state: PortState) -> list[str]:
    """About what is operational, and about what this port recommends."""
    found = list(_pfc(settings, state))
    ets = state.ets.oper
    if settings.ets and ets:
        found += _shares("", ets.assignment, ets.bandwidth, ets.tsa)
        found += _selections(settings.ets.cbs, ets.assignment, ets.tsa)
    if settings.ets and isinstance(settings.ets.recommend, Recommend):
        advice = settings.ets.recommend.table
        found += _shares("recommended: ", advice.assignment or (), advice.bandwidth, advice.tsa)
    return found


def _pfc(settings: DcbxSettings, state: PortState) -> Iterator[str]:
    if settings.pfc is None or not state.pfc.oper:
        return
    ets = state.ets.oper
    enabled = list(priorities(state.pfc.oper))
    classes = len({ets.assignment[priority] for priority in enabled} if ets else enabled)
    if classes > settings.pfc.cap:
        in_classes = f" in {classes} traffic classes" if ets else ""
        most = f"and this port can have it in {settings.pfc.cap} (cap)"
        yield f"PFC is on for {len(enabled)} priorities{in_classes}, {most}"


def _shares(what: str, assignment: Table, bandwidth: Table, tsa: Table | None) -> Iterator[str]:
    for number in _CLASSES:
        is_ets = tsa is None or tsa[number] == Tsa.ETS
        share, noun = bandwidth[number], "priority group" if tsa is None else "traffic class"
        if tsa is not None and tsa[number] == Tsa.STRICT and share:
            yield f"{what}{noun} {number} is strict and has {share} %: a strict class has no share"
        elif is_ets and not share and number in assignment:
            yield f"{what}{noun} {number} has priorities and 0 %: ETS leaves it what the others do not use"


def _selections(has_shaper: bool, assignment: Table, tsa: Table | None) -> Iterator[str]:
    for number in sorted(set(assignment)) if tsa else ():
        assert tsa is not None
        if tsa[number] == Tsa.CBS and not has_shaper:
            yield f"traffic class {number} has the credit-based shaper, and this port has none (cbs = false)"
        elif tsa[number] == Tsa.VENDOR:
            yield f"traffic class {number} has a vendor's own transmission selection (255), unknown here"
