"""`xoff export`: a result for other programs, and as the ladder diagram of a negotiation."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from testbed.cli.output_file import whole_file
from testbed.cli.screen.console import say
from testbed.errors import UsageError
from testbed.lab.results.folder import Folder
from testbed.lab.results.folder import read as read_folder
from testbed.lab.results.foreign import ForeignFolder
from testbed.lab.results.result import Exit
from testbed.report.exports import captures, event_table, perfetto
from testbed.subjects.dcbx.ladder import LadderError, ladder, read
from testbed.subjects.dcbx.ladder.svg import as_svg
from testbed.subjects.dcbx.ladder.text import as_text

DCBX_LOG = "dcbx.jsonl"
"""The file in a result folder with the lines of `testbed.subjects.dcbx.show`, each with its port."""
LARGEST_LOG = 256 << 20
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
    "perfetto": "a trace for ui.perfetto.dev",
    "csv": "the event log as a table",
    "parquet": "the same for data frames",
    "pcapng": "all captures of run --capture in one file",
}


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("result", type=Path, metavar="RESULT", help="a result folder")
    formats = parser.add_mutually_exclusive_group(required=True)
    for name, words in _WORDS.items():
        formats.add_argument(f"--{name}", action="store_const", const=name, dest="format", help=words)
    formats.add_argument(
        "--ladder", nargs=2, metavar="PORT", help="how the two ports of a link came to agree by DCBX, as a diagram"
    )
    parser.add_argument(
        "--lab-time", action="store_true", help="rates and times of the lab, not of the modelled hardware"
    )
    names = ", ".join(_FILES.values())
    parser.add_argument(
        "--out", type=Path, metavar="FILE",
        help=f"an SVG for --ladder (default: text); for the others the default is in RESULT: {names}",
    )  # fmt: skip


def export(options: argparse.Namespace) -> int:
    """Write a result as a trace, a table, one capture or a ladder diagram."""
    if options.ladder is not None:
        return _draw_ladder(options)
    folder = read_folder(options.result, options.lab_time)
    path = options.out or options.result / _FILES[options.format]
    with whole_file(path, [options.result]) as out:
        _WRITERS[options.format](folder, out)
    print(path)
    if folder.damage:
        say(str(folder.damage))
    return Exit.OK


def _draw_ladder(options: argparse.Namespace) -> int:
    try:
        found = ladder(read(_whole_lines(options.result)), *options.ladder)
    except LadderError as error:
        raise UsageError(f"{options.result / DCBX_LOG}: {error}") from None
    if options.out is None:
        sys.stdout.write(as_text(found))
        return Exit.OK
    with whole_file(options.out, [options.result]) as out:
        out.write(as_svg(found).encode())
    return Exit.OK


def _whole_lines(result: Path) -> Iterator[str]:
    files = ForeignFolder(result)
    if not files.is_there():
        raise UsageError(f"there is no result folder {result}; xoff run makes one, in results/")
    try:
        for _, line in files.lines(DCBX_LOG, LARGEST_LOG):
            if line.endswith("\n"):
                yield line
            else:  # the run was ended while it wrote
                say(f"{result / DCBX_LOG}: its last line is cut short, and left out")
    except FileNotFoundError:
        raise UsageError(f"{result} has no {DCBX_LOG}: nothing spoke DCBX in that run") from None
