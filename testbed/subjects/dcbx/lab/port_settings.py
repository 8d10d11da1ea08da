"""The settings of DCBX that announce what a port does: `Port.with_dcbx`."""

from __future__ import annotations

from typing import Any

from testbed.frames.dcbx.values import STRICT, DcbxVersion, Ets, EtsRecommendation, Tsa, mask
from testbed.net.fabric.port import Port
from testbed.subjects.dcbx.settings import DcbxSettings, EtsAdmin, PfcAdmin, Recommend


def negotiate(
    port: Port, *, willing: bool, defense: bool, headroom: bool, ets: bool, version: DcbxVersion, **others: Any
) -> DcbxSettings:
    """Return settings that announce a port's lossless priorities and, with `ets`, its shares."""
    pfc = PfcAdmin(mask(port.pfc.enabled), willing=willing, defense=defense, headroom=headroom)
    table = _table(port, version)
    advice = EtsRecommendation(table.bandwidth, table.assignment if table.tsa else None, table.tsa)
    admin = EtsAdmin(table, willing=willing, recommend=None if willing else Recommend(advice))
    return DcbxSettings(version, pfc=pfc, ets=admin if ets else None, **others)


def _table(port: Port, version: DcbxVersion) -> Ets:
    """Return the shares as an ETS table of whole percentages; the last class gets the rounding error."""
    weights = port.weights()
    percents = [weights.get(priority, 0) // 100 for priority in range(8)]
    if weights:
        percents[max(weights)] += 100 - sum(percents)
    if version is DcbxVersion.DRAFT:
        return Ets(tuple(STRICT if p in port.strict else p for p in range(8)), tuple(percents))
    tsa = tuple(int(Tsa.STRICT if p in port.strict else Tsa.ETS) for p in range(8))
    return Ets(tuple(range(8)), tuple(percents), tsa)
