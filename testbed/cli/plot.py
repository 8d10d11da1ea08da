"""`xoff plot`: figures of a result for papers."""

from __future__ import annotations

import argparse
from pathlib import Path

from testbed.cli.console import say
from testbed.cli.output_file import whole
from testbed.lab.result import Exit
from testbed.report.figures import FIGURES, require_ending
from testbed.report.figures import plot as draw
from testbed.report.folder import read


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("result", type=Path, metavar="RESULT", help="a result folder")
    parser.add_argument("figure", metavar="FIGURE", help=f"one of {', '.join(FIGURES)}")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FILE", help="a .pdf, .svg or .png")


def plot(options: argparse.Namespace) -> int:
    """One figure of a result, by matplotlib (the extra `plot`)."""
    ending = require_ending(options.output)
    folder = read(options.result)
    with whole(options.output, [options.result]) as out:
        draw(folder, options.figure, out, ending)
    print(options.output)
    if folder.damage:
        say(str(folder.damage))
    return Exit.OK
