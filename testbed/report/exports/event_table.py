"""The event log as a table: one row for each event, with a column for each field of any event. CSV and Parquet."""

from __future__ import annotations

import csv
import io
from typing import BinaryIO

from testbed.lab.results import parquet
from testbed.lab.results.csv_cells import neutral
from testbed.lab.results.folder import Folder, ReportError
from testbed.lab.results.tables import event_columns, events


def write_csv(folder: Folder, out: BinaryIO) -> None:
    """Write the table as text that is neutral in spreadsheets and terminals."""
    names = event_columns(folder)
    text = io.TextIOWrapper(out, encoding="utf-8", newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(map(neutral, names))
    writer.writerows([neutral(row.get(name, "")) for name in names] for row in events(folder))
    text.detach()


def write_parquet(folder: Folder, out: BinaryIO) -> None:
    """Write the table with types; texts are as they were logged."""
    if not parquet.is_available():
        raise ReportError("Parquet takes the Python package pyarrow: pip install pyarrow, or export --csv")
    parquet.write(out, events(folder), event_columns(folder))
