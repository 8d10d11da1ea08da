"""Time series of a result as tracks: cells in buffers, and rates of flows. The files are `series-NAME.csv`.

A value holds until the next row of the same port and priority, or flow, and no longer than its network runs. Of the
series `buffer` guaranteed, shared and headroom cells are shown; of any other series each column of numbers, by the
column `flow` or `port`.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator
from dataclasses import dataclass, field

from testbed.lab.results.folder import LATEST_NS, Folder, ReportError
from testbed.lab.results.series import file_of, names
from testbed.report.timeline.tracks import LARGEST, MOST_TRACKS, OCCUPANCY, Shape, Track

PREFIX = "series:"
"""The first part of the names of panels of series."""
LOAD = f"{PREFIX}load of links"
"""The series of what each port sends into its cable, with preamble and gap; it gives the drawing of the network its
colours."""
MARKED, RATES = f"{PREFIX}ECN marks", f"{PREFIX}rates of flows"
_POOLS = {"shared": OCCUPANCY, "headroom": f"{PREFIX}headroom in use", "guaranteed": f"{PREFIX}guaranteed cells in use"}
_PANELS = {
    ("links", "load_bps"): LOAD,
    ("marks", "marked"): MARKED,
    ("rates", "rate_bps"): RATES,
}
_LAB_TIME = "lab_ns"
"""The column of moments in the lab, by which a report orders all that happened; older files have `t_ns` alone."""
_KEYS = ("flow", "port", "priority")
_UNITS = {"bps": "b/s", "bytes": "B", "ns": "ns", "cells": "cells", "sent": "B"}


@dataclass
class _Column:
    """The values of one track, as they are in the file."""

    panel: str
    port: str
    label: str
    unit: str
    t_ns: list[int] = field(default_factory=list)
    values: list[float] = field(default_factory=list)


def tracks(folder: Folder) -> list[Track]:
    """Return the tracks of all series of a result, without those that are zero throughout."""
    found: dict[tuple[str, ...], _Column] = {}
    for name in names(folder.files):
        file = file_of(name)
        for line, row in table_rows(folder, file):
            if (wrong := _add(name, row, found)) is not None:
                folder.damage.add(file, line, wrong)
            if len(found) > MOST_TRACKS:
                raise ReportError(f"{folder.path / file}: line {line}: there are more than {MOST_TRACKS} series")
    lab = folder.scale.k if folder.lab_time else 1
    return [_track(column, lab if column.unit == "b/s" else 1) for column in found.values() if any(column.values)]


def _track(column: _Column, divisor: int) -> Track:
    """Return the track of a column, whose values are divided by a number."""
    most = max(map(abs, column.values))
    is_whole = all(value == int(value) for value in column.values)
    parts = 1 if is_whole else next((one for one in (10**6, 10**3) if most * one < LARGEST), 1)
    track = Track(column.panel, column.port, column.label, Shape.STEPS, unit=column.unit, parts=parts * divisor)
    for t_ns, value in zip(column.t_ns, column.values, strict=True):
        track.add(t_ns, round(value * parts))
    return track


def table_rows(folder: Folder, file: str) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the rows of a table, each with the number of its line."""
    rows = csv.DictReader(line for _, line in folder.files.lines(file))
    try:
        for row in rows:
            if None in row or any(value is None for value in row.values()):
                folder.damage.add(file, rows.line_num, "has other columns")
            else:
                yield rows.line_num, {key: folder.names.get(value, value) for key, value in row.items()}
    except csv.Error as error:
        raise ReportError(f"{folder.path / file}: line {rows.line_num} is of no table: {error}") from None


def _add(name: str, row: dict[str, str], found: dict[tuple[str, ...], _Column]) -> str | None:
    """Add a row to the columns; return the reason if it is damaged, else an empty text."""
    t_ns = _number(row.get(_LAB_TIME) or row.get("t_ns", ""))
    if t_ns is None or abs(t_ns) > LATEST_NS:
        return "has no time"
    wrong: str | None = None
    port, priority = row.get("port", ""), row.get("priority", "")
    label = f"priority {priority}" if priority else row.get("flow", "")
    for column, text in row.items():
        value = _number(text)
        if (
            column in ("t_ns", _LAB_TIME)
            or column in _KEYS
            or value is None
            or (name == "buffer" and column not in _POOLS)
        ):
            continue
        panel = _POOLS[column] if name == "buffer" else _PANELS.get((name, column))
        panel = panel or f"{PREFIX}{name}: {_words(column)}"
        unit = "cells" if name == "buffer" else _UNITS.get(column.rpartition("_")[2], "")
        key = panel, port, label, column
        if key not in found:
            found[key] = _Column(panel, port, f"{label}, {column}" if panel == OCCUPANCY else label, unit)
        one = found[key]
        if abs(value) >= LARGEST:
            wrong = "has a number that is too large"
        elif one.t_ns and t_ns < one.t_ns[-1]:
            wrong = "is earlier than the one before it"
        else:
            one.t_ns.append(int(t_ns))
            one.values.append(value)
    return wrong


def _words(column: str) -> str:
    head, _, tail = column.rpartition("_")
    return (head if head and tail in _UNITS else column).replace("_", " ")


def _number(text: str) -> float | None:
    """Return a number of a text; a whole number stays exact."""
    try:
        return int(text) if len(text) < 20 else None
    except ValueError:
        pass
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
