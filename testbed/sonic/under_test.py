"""Which ports of a switch a conformance run tests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from testbed.errors import UsageError
from testbed.sonic.tables import PortRow, Tables

MOST_PORTS = 4


class NothingToTestError(UsageError):
    """A switch without a port that could be tested."""


def under_test(tables: Tables, most: int = MOST_PORTS) -> Tables:
    """The same switch with only the ports under test up: those of one kind, which are the most, and the first of them.

    A kind is speed, lossless priorities, cable length and maps. Neighbours are left out: testers take their places.
    """
    kinds: dict[object, list[str]] = {}
    for port, row in tables.ports.items():
        if row.admin_up and tables.pfc_of(port):
            maps = tuple(sorted(tables.qos_of(port).maps.items()))
            kinds.setdefault((row.speed, tables.pfc_of(port), tables.cables.get(port), maps), []).append(port)
    if not kinds:
        raise NothingToTestError(
            "no port is up and has pfc_enable in PORT_QOS_MAP, so there is nothing to test; `xoff switch check` shows "
            "what the file has"
        )
    chosen = max(kinds.values(), key=len)[:most]
    rows = {port: replace(row, admin_up=port in chosen) for port, row in tables.ports.items()}
    return replace(tables, ports=rows, neighbours={})


def ports_under_test(tables: Tables) -> Mapping[str, PortRow]:
    """The ports that are up, which of such tables are those under test."""
    return {port: row for port, row in tables.ports.items() if row.admin_up}
