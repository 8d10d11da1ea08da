"""`xoff export`: a result for other programs, and what subjects draw of one."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple

from testbed import subject
from testbed.cli.output_file import whole_file
from testbed.cli.screen.console import say
from testbed.lab.results.folder import Folder
from testbed.lab.results.folder import read as read_folder
from testbed.lab.results.result import Exit
from testbed.report.exports import captures, event_table, perfetto


class Export(NamedTuple):
    """An option that a subject adds: what it draws of a result, for `values` such as two ports."""

    values: tuple[str, ...]
    """The values that the option takes, as help shows them."""
    help: str
    draw: Callable[[Path, Sequence[str], Path | None], None]
    """A function that draws a result folder for values into a file, or onto the screen with None."""
    file: str
    """The kind of the file with its article, as in "an SVG"."""


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
    drawings = _of_subjects()
    for name, drawing in drawings.items():
        formats.add_argument(f"--{name}", nargs=len(drawing.values), metavar=drawing.values, help=drawing.help)
    parser.add_argument(
        "--lab-time", action="store_true", help="rates and times of the lab, not of the modelled hardware"
    )
    names = ", ".join(_FILES.values())
    shown = "".join(f"{drawing.file} for --{name} (default: text); " for name, drawing in drawings.items())
    parser.add_argument(
        "--out", type=Path, metavar="FILE",
        help=f"{shown}for the others the default is in RESULT: {names}",
    )  # fmt: skip


def export(options: argparse.Namespace) -> int:
    """Write a result as a trace, a table or one capture, or draw something of it."""
    for name, drawing in _of_subjects().items():
        if (values := getattr(options, name)) is not None:
            drawing.draw(options.result, values, options.out)
            return Exit.OK
    folder = read_folder(options.result, options.lab_time)
    path = options.out or options.result / _FILES[options.format]
    with whole_file(path, [options.result]) as out:
        _WRITERS[options.format](folder, out)
    print(path)
    if folder.damage:
        say(str(folder.damage))
    return Exit.OK


def _of_subjects() -> dict[str, Export]:
    return {name: drawing for exports in subject.loaded("exports") for name, drawing in exports.items()}
