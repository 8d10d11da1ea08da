"""`xoff report`: one HTML file from result folders."""

from __future__ import annotations

import argparse
from pathlib import Path

from testbed.cli.output_file import whole_file
from testbed.lab.results.result import Exit, Result
from testbed.report.pages.page import report

FILE = "report.html"
"""The name of the report in a result folder; `--out` names another place."""


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "result",
        nargs="+",
        type=Path,
        metavar="RESULT",
        help="folders of results or of benchmarks, side by side; or a sweep's folder",
    )
    parser.add_argument("--out", type=Path, metavar="FILE", help=f"default: {FILE} in the first folder")
    parser.add_argument(
        "--lab-time", action="store_true", help="rates and times of the lab, not of the modelled hardware"
    )


def make(options: argparse.Namespace) -> int:
    """Write one HTML file with claims, topology, pauses, buffers, drops and provenance of results. It opens offline."""
    path = options.out or options.result[0] / FILE
    write(options.result, path, options.lab_time)
    print(path)
    return Exit.OK


def write(folders: list[Path], path: Path, lab_time: bool = False) -> None:
    """Write the report of result folders, whole or not at all."""
    page = report(folders, lab_time=lab_time)
    with whole_file(path, folders) as out:
        out.write(page.encode())


def of_results(results: list[Result]) -> Path | None:
    """Write the report of runs that have just ended into the folder of the first; return its path, or None if there is
    no run."""
    folders = [result.folder for result in results if result.folder is not None]
    if not folders:
        return None
    write(folders, folders[0] / FILE)
    return folders[0] / FILE
