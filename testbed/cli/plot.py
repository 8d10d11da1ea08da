"""`xoff plot`: figures of a result for papers."""

from __future__ import annotations

import argparse
from pathlib import Path

from testbed.errors import UsageError
from testbed.lab.result import Exit
from testbed.report.figures import FIGURES
from testbed.report.figures import plot as draw
from testbed.report.folder import read


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("result", type=Path, metavar="RESULT", help="a result folder")
    parser.add_argument("figure", metavar="FIGURE", help=f"one of {', '.join(FIGURES)}")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FILE", help="a .pdf, .svg or .png")


def plot(options: argparse.Namespace) -> int:
    """One figure of a result, by matplotlib (the extra `plot`)."""
    try:
        draw(read(options.result), options.figure, options.output)
    except OSError as error:
        raise UsageError(f"-o {options.output}: {error.strerror}") from None
    print(options.output)
    return Exit.OK
