"""The event log as a table: one row for each event, with a column for each field of any event. CSV and Parquet."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from typing import Any, BinaryIO

from testbed.lab.results import parquet
from testbed.lab.results.csv_cells import neutral
from testbed.lab.results.folder import Folder, ReportError
from testbed.units import hardware_times, real_ns

_FIXED = ("t_ns", "lab_ns", "network", "event", "node", "port", "priorities")


def fields(folder: Folder) -> list[str]:
    """Return the names of the columns."""
    found: dict[str, None] = {}
    for event in folder.events():
        found.update(dict.fromkeys(event.fields))
    return [*_FIXED, *sorted(name for name in found if name not in _FIXED)]


def rows(folder: Folder) -> Iterator[dict[str, Any]]:
    """Yield each event with the network that ran then and the node of its port; lists and objects are JSON."""
    for event in folder.events():
        network = next((one for one in folder.networks if one.start_ns <= event.t_ns <= one.end_ns), None)
        found = hardware_times(event.fields, folder.units)
        yield {name: _plain(value) for name, value in found.items() if name not in _FIXED} | {
            "t_ns": real_ns(event.t_ns, folder.units),
            "lab_ns": event.t_ns,
            "network": network.title if network else "",
            "event": event.name,
            "node": network.node_of(event.port) if network else event.port.rpartition("-")[0],
            "port": event.port,
            "priorities": " ".join(map(str, event.priorities)),
        }


def _plain(value: Any) -> Any:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, (list, dict)) else value


def write_csv(folder: Folder, out: BinaryIO) -> None:
    """Write the table as text that is neutral in spreadsheets and terminals."""
    names = fields(folder)
    text = io.TextIOWrapper(out, encoding="utf-8", newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(map(neutral, names))
    writer.writerows([neutral(row.get(name, "")) for name in names] for row in rows(folder))
    text.detach()


def write_parquet(folder: Folder, out: BinaryIO) -> None:
    """Write the table with types; texts are as they were logged."""
    if not parquet.is_available():
        raise ReportError("Parquet takes the Python package pyarrow: pip install pyarrow, or export --csv")
    parquet.write(out, rows(folder), fields(folder))
