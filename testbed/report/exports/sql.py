"""SQL over a run: the logs of a result folder as tables of SQLite, read only.

A query names tables, and only those are read and filled; docs/sql.md describes them. Times are those of the modelled
hardware, and of the lab in a folder that is read with `lab_time`; columns `lab_ns` are always the lab's. The database
is a temporary one that nobody else sees, and once it is filled nothing but reading is allowed.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from typing import Any, NamedTuple

from testbed.errors import UsageError, listed, plain
from testbed.experiment.output import CAPTURES
from testbed.frames import capture_file
from testbed.lab.results import tables
from testbed.lab.results.folder import Folder, read
from testbed.lab.results.result import Result
from testbed.lab.results.tables import Row
from testbed.report.exports.captures import open_captures
from testbed.report.exports.frame_text import layers
from testbed.report.timeline import series
from testbed.report.timeline.tracks import ASSERTED, PAUSED, STORM, TUNNEL, Shape
from testbed.report.timeline.tracks import tracks as tracks_of
from testbed.units import real_ns

_READING = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE}
_STEPS = 100_000
"""The steps of SQLite's machine after which Python looks whether Ctrl-C was pressed."""
_INTERVALS = {PAUSED: "paused", ASSERTED: "xoff", STORM: "storm", TUNNEL: "tunnel"}


class Table(NamedTuple):
    """A table: what is in it, its columns, and its rows. Columns that depend on the result follow those named here."""

    summary: str
    columns: tuple[str, ...]
    rows: Callable[[Folder], Iterable[Row]]
    further: Callable[[Folder], Sequence[str]] = lambda _: ()


class Answer(NamedTuple):
    """The rows that a query gave."""

    columns: list[str]
    rows: list[tuple[Any, ...]]


def sql(result: Result, query: str) -> Any:
    """Return what a query in the SQL of SQLite finds in a run, as a DataFrame of pandas or polars.

    docs/sql.md has the tables.
    """
    if result.folder is None:
        raise UsageError(f"{result.experiment} has no folder, and so no tables")
    answer_of_query = answer(read(result.folder), query)
    return tables.frame(
        (dict(zip(answer_of_query.columns, row, strict=True)) for row in answer_of_query.rows), answer_of_query.columns
    )


def answer(folder: Folder, text: str) -> Answer:
    """Return the answer to a query; UsageError with SQLite's reason if it is none."""
    words = {word.lower() for word in re.findall(r"\w+", text)}
    with closing(sqlite3.connect("")) as base:
        for name, table in TABLES.items():
            if name in words:
                _fill(base, name, table, folder)
        base.set_authorizer(lambda action, *_: sqlite3.SQLITE_OK if action in _READING else sqlite3.SQLITE_DENY)
        base.set_progress_handler(lambda: 0, _STEPS)
        try:
            cursor = base.execute(text)
            found = cursor.fetchall()
        except (sqlite3.Error, sqlite3.Warning, UnicodeEncodeError) as error:
            reason = str(error)
            if reason == "interrupted":
                raise KeyboardInterrupt from None  # Ctrl-C, which SQLite has heard of through the progress handler
            if "not authorized" in reason or "prohibited" in reason:
                reason = "a query only reads: SELECT, or WITH ... SELECT"
            elif "no such table" in reason:
                reason = f"{reason}; there are {listed(TABLES)}"
            elif "no such column" in reason:
                named = [f"{name} ({', '.join(columns(folder, name))})" for name in TABLES if name in words]
                reason = f"{reason}; columns are {'; '.join(named)}"
            raise UsageError(f"SQL: {plain(reason)}") from None
        if cursor.description is None:
            raise UsageError("SQL: there is no query; xoff sql RESULT lists the tables")
        return Answer([str(column[0]) for column in cursor.description], found)


def columns(folder: Folder, name: str) -> list[str]:
    """Return the names of a table's columns. SQLite's have no case: of two that differ in it alone one is left out."""
    table = TABLES[name]
    named = {column.casefold(): column for column in reversed((*table.columns, *table.further(folder)))}
    return list(reversed(named.values()))


def _fill(base: sqlite3.Connection, name: str, table: Table, folder: Folder) -> None:
    names = columns(folder, name)
    quoted = ", ".join('"' + _text(column).replace('"', '""') + '"' for column in names)
    base.execute(f"create table {name} ({quoted})")
    places = ", ".join("?" * len(names))
    rows = ([_value(row.get(column)) for column in names] for row in table.rows(folder))
    base.executemany(f"insert into {name} values ({places})", rows)


def _value(value: Any) -> Any:
    """Return a value as SQLite has it: no integers beyond 64 bits, and no text that is not Unicode."""
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return float(value) if abs(value) < 2**1000 else None
    return json.dumps(value) if isinstance(value, (list, dict)) else value


def _text(value: str) -> str:
    return value.encode(errors="replace").decode().replace("\0", "\ufffd")


def _networks(folder: Folder) -> Iterator[Row]:
    for one in folder.networks:
        times = {"start_ns": real_ns(one.start_ns, folder.units), "end_ns": real_ns(one.end_ns, folder.units)}
        yield {"network": one.title, "topology": one.topology, **times}


def _ports(folder: Folder) -> Iterator[Row]:
    for network in folder.networks:
        far = {
            end: other
            for cable in network.cables
            for end, other in zip(cable["ends"], cable["ends"][::-1], strict=True)
        }
        for port in network.ports:
            node, other = network.node_of(port), far.get(port)
            yield {
                "network": network.title, "node": node, "kind": network.nodes.get(node), "port": port,
                "far_port": other, "far_node": network.node_of(other) if other else None,
            }  # fmt: skip


def _parameters(folder: Folder) -> Iterator[Row]:
    for name, value in folder.result["parameters"].items():
        yield {"name": name, "value": value}


def _figures(folder: Folder) -> Iterator[Row]:
    for one in folder.figures:
        yield {"name": one.name, "value": one.value, "unit": one.unit}


def _claims(folder: Folder) -> Iterator[Row]:
    for one in folder.claims:
        yield {
            "name": one.name,
            "passed": one.passed,
            "measured": one.measured,
            "expected": one.expected,
            "unit": one.unit,
        }


def _pauses(folder: Folder) -> Iterator[Row]:
    for track in tracks_of(folder).tracks:
        if track.shape is not Shape.INTERVALS or track.panel not in _INTERVALS:
            continue
        for start, end in zip(track.t_ns, track.values, strict=True):
            yield {
                **_at(folder, start), "kind": _INTERVALS[track.panel], **_place(folder, start, track.port),
                "priority": int(track.label.rpartition(" ")[2]) if track.label[-1:].isdigit() else None,
                "end_ns": real_ns(end, folder.units), "duration_ns": real_ns(end - start, folder.units),
            }  # fmt: skip


def _samples(folder: Folder) -> Iterator[Row]:
    for track in series.tracks(folder):
        name = track.panel.removeprefix(series.PREFIX)
        for t_ns, value in zip(track.t_ns, track.values, strict=True):
            yield {
                **_at(folder, t_ns), "series": name, **_place(folder, t_ns, track.port), "label": track.label,
                "value": value / track.parts if track.parts > 1 else value, "unit": track.unit,
            }  # fmt: skip


def _frames(folder: Folder) -> Iterator[Row]:
    if not folder.files.listing(CAPTURES):
        raise UsageError(
            f"{folder.path} has no captures, of which the table frames is made; xoff run --capture makes them"
        )
    with ExitStack() as stack:
        try:
            for frame in capture_file.merged(open_captures(folder.path, stack)):
                sender, _, receiver = frame.interface.partition(" > ")
                found = layers(frame.octets) if frame.link_type == capture_file.ETHERNET else []
                fields = {f"{layer.kind}.{name}": value for layer in found for name, value in layer.fields.items()}
                yield {
                    **_at(folder, frame.t_ns or 0), **_place(folder, frame.t_ns or 0, receiver), "sender": sender,
                    "octets": frame.length, "kind": found[-1].kind if found else "other",
                    "layers": " ".join(layer.kind for layer in found), "fields": fields,
                    "words": "; ".join((*(layer.text for layer in found), *frame.comments)),
                }  # fmt: skip
        except capture_file.CaptureError as error:
            raise UsageError(f"a capture of {folder.path}: {error}") from None


def _at(folder: Folder, t_ns: int) -> Row:
    return {"t_ns": real_ns(t_ns, folder.units), "lab_ns": t_ns}


def _place(folder: Folder, t_ns: int, port: str) -> Row:
    network = tables.network_at(folder, t_ns)
    node = network.node_of(port) if network else port.rpartition("-")[0]
    return {"network": network.title if network else "", "node": node, "port": port}


_WHERE = ("t_ns", "lab_ns", "network", "node", "port")
TABLES: dict[str, Table] = {
    "events": Table("the event log", tables.EVENTS, tables.events, tables.event_columns),
    "flows": Table("a row for each flow that has ended", tables.FLOWS, tables.flows),
    "pauses": Table(
        "from XOFF to its end at a port that waits, and the like: kind is paused, xoff, storm or tunnel",
        (*_WHERE, "priority", "kind", "end_ns", "duration_ns"), _pauses,
    ),
    "counters": Table("pauses and drops of each port and priority", tables.COUNTERS, tables.counters),
    "samples": Table("time series, of run --series", (*_WHERE, "series", "label", "value", "unit"), _samples),
    "frames": Table(
        "captured frames, of run --capture, with the port that received each",
        (*_WHERE, "sender", "octets", "kind", "layers", "words", "fields"), _frames,
    ),
    "networks": Table("the networks of the run", ("network", "topology", "start_ns", "end_ns"), _networks),
    "ports": Table("the ports of networks", ("network", "node", "kind", "port", "far_port", "far_node"), _ports),
    "claims": Table("what was claimed", ("name", "passed", "measured", "expected", "unit"), _claims),
    "figures": Table("what was reported", ("name", "value", "unit"), _figures),
    "parameters": Table("the parameters of the run", ("name", "value"), _parameters),
}  # fmt: skip
"""The tables, by name."""
