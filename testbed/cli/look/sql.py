"""`xoff sql`: a query over the logs of a result."""

from __future__ import annotations

import argparse
import csv
import json
import sys
from pathlib import Path

from testbed.cli.screen.console import say
from testbed.errors import plain
from testbed.lab.results.csv_cells import neutral
from testbed.lab.results.folder import read
from testbed.lab.results.result import Exit
from testbed.report.exports import sql

_WIDEST = 60
"""The most characters of a column on the screen."""


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("result", type=Path, metavar="RESULT", help="a result folder")
    parser.add_argument(
        "query", nargs="?", metavar="QUERY",
        help='SQL of SQLite, as in "select port, sum(duration_ns) from pauses group by port"; without one, the tables '
        "and their columns are listed",
    )  # fmt: skip
    parser.add_argument("--csv", action="store_true", help="the rows as CSV, whole")
    parser.add_argument(
        "--lab-time", action="store_true", help="rates and times of the lab, not of the modelled hardware"
    )


def ask(options: argparse.Namespace) -> int:
    """Answer an SQL query over a run: its events, flows, pauses, samples, frames and more as tables."""
    folder = read(options.result, options.lab_time)
    if options.query is None:
        tables = {name: sql.columns(folder, name) for name in sql.TABLES}
        if options.json:
            print(json.dumps(tables))
            return Exit.OK
        for name, columns in tables.items():
            print(f"{name}: {sql.TABLES[name].summary}")
            print(plain(f"    {', '.join(columns)}"))
        return Exit.OK
    answer = sql.answer(folder, options.query)
    if options.json:
        print(json.dumps([dict(zip(answer.columns, row, strict=True)) for row in answer.rows], default=repr))
    elif options.csv:
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(map(neutral, answer.columns))
        writer.writerows(map(neutral, row) for row in answer.rows)
    else:
        _show(answer)
    if folder.damage:
        say(str(folder.damage))
    return Exit.OK


def _show(answer: sql.Answer) -> None:
    """Print rows in columns as wide as their values, numbers to the right."""
    cells = [[_cell(value) for value in row] for row in answer.rows]
    heads = [_cell(name) for name in answer.columns]
    widths = [max(map(len, column)) for column in zip(heads, *cells, strict=True)]
    is_number = [
        all(isinstance(row[at], int | float | None) for row in answer.rows) and bool(answer.rows)
        for at in range(len(heads))
    ]
    for row in (heads, *cells):
        aligned = [
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, is_number, strict=True)
        ]
        print("  ".join(aligned).rstrip())


def _cell(value: object) -> str:
    text = "" if value is None else plain(str(value)).replace("\n", " ")
    return text if len(text) <= _WIDEST else f"{text[: _WIDEST - 1]}…"
