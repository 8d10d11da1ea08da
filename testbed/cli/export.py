"""`xoff export`: a result in formats of other programs."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from testbed.cli.console import say
from testbed.cli.output_file import whole
from testbed.lab.result import Exit
from testbed.report import captures, event_table, perfetto
from testbed.report.folder import Folder, read

_FILES = {
    "perfetto": "trace.perfetto-trace",
    "csv": "events.csv",
    "parquet": "events.parquet",
    "pcapng": "captures.pcapng",
}
_WRITERS: dict[str, Callable[[Folder, BinaryIO], None]] = {
    "perfetto": perfetto.write,
    "csv": event_table.write_csv,
    "parquet": event_table.write_parquet,
    "pcapng": captures.write_merged,
}
_WORDS = {
    "perfetto": "for ui.perfetto.dev",
    "csv": "the event log as a table",
    "parquet": "the same for data frames",
    "pcapng": "all captures of run --capture in one file",
}


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("result", type=Path, metavar="RESULT", help="a result folder")
    formats = parser.add_mutually_exclusive_group(required=True)
    for name, words in _WORDS.items():
        formats.add_argument(f"--{name}", action="store_const", const=name, dest="format", help=words)
    names = ", ".join(_FILES.values())
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help=f"default: in RESULT, by format {names}")


def export(options: argparse.Namespace) -> int:
    """The events of a result as a Perfetto trace or as a table, or its captures as one file."""
    folder = read(options.result)
    path = options.output or options.result / _FILES[options.format]
    with whole(path, [options.result]) as out:
        _WRITERS[options.format](folder, out)
    print(path)
    if folder.damage:
        say(str(folder.damage))
    return Exit.OK
