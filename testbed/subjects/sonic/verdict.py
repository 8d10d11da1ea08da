"""The verdict on config_db.json files: what is wrong, contradictory, risky or not modelled, and the headroom of ports.

Octets of files go in; lines for people or plain data come out. `xoff switch check` and the calculator of the
documentation site show them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from testbed.strict.problems import Severity
from testbed.subjects.sonic.check import check, check_fabric
from testbed.subjects.sonic.headroom import Need, described, divisions, lossless_groups, needed_at
from testbed.subjects.sonic.read import ReadConfig, read
from testbed.subjects.sonic.tables import Tables


def checked(files: Mapping[str, bytes], cell: int) -> dict[str, ReadConfig]:
    """Return what each file has, with all problems that were found, in it and beside the others of its fabric."""
    readings = {name: read(octets) for name, octets in files.items()}
    for reading in readings.values():
        if reading.ok:
            check(reading.tables, reading.problems, cell)
    for name, problem in check_fabric({name: reading.tables for name, reading in readings.items()}):
        readings[name].problems.add(problem)
    return readings


def lines(reading: ReadConfig, cell: int) -> Iterator[str]:
    """Yield what is said of a file: the problems, the worst ones first, then pools, headroom and the sum."""
    for severity in Severity:
        yield from map(str, reading.problems.with_severity(severity))
    if reading.problems.left_out:
        yield f"and {reading.problems.left_out} more"
    if not reading.ok:
        return
    tables = reading.tables
    for pool in divisions(tables):
        parts = f"{pool.size} B: {pool.reserved} reserved, {pool.headroom} headroom, {pool.shared} shared"
        yield f"pool {pool.name} of {parts}"
    yield from _headrooms(tables, cell)
    errors, warnings = len(reading.problems.errors), len(reading.problems.warnings)
    yield f"{tables.hostname or 'no hostname'}, {len(tables.ports)} ports: {errors} errors, {warnings} warnings"


def _headrooms(tables: Tables, cell: int) -> list[str]:
    """Return a line for each kind of lossless port, with the headroom that it has and the headroom that it needs."""
    kinds: dict[tuple[str, str, Need], list[str]] = {}
    for port in tables.ports:
        for group in lossless_groups(tables, port, cell):
            has = "computed" if group.has is None else f"{group.has} B"
            names = kinds.setdefault((described(tables, port), has, group.need), [])
            if port not in names:
                names.append(port)
    return [
        f"headroom of {len(names)} ports, {kind}: {has}; needed {need.least} B at least, {need.most} B for the slowest "
        "that 802.3 allows"
        for (kind, has, need), names in kinds.items()
    ]


def as_json(reading: ReadConfig, cell: int) -> dict[str, Any]:
    """Return what was said of a file as plain data."""
    tables = reading.tables
    return {
        "ok": reading.ok,
        "hostname": tables.hostname,
        "ports": len(tables.ports),
        "problems": [problem.as_json() for problem in reading.problems.found],
        "left_out": reading.problems.left_out,
        "pools": [vars(one) | {"shared": one.shared} for one in divisions(tables)] if reading.ok else [],
        "headroom": {
            port: {"least": need.least, "most": need.most}
            for port in tables.ports
            if tables.pfc_of(port) and (need := needed_at(tables, port, cell))
        },
    }
