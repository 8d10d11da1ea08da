"""`xoff ladder`: how the two ports of a link came to agree, as a diagram from the log of a run. It needs no lab."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from testbed.cli.output_file import whole
from testbed.dcbx.ladder import LadderError, ladder, read
from testbed.dcbx.ladder_svg import as_svg
from testbed.dcbx.ladder_text import as_text
from testbed.errors import UsageError
from testbed.lab.foreign import ForeignFolder
from testbed.lab.result import Exit

LOG = "dcbx.jsonl"
"""In a result folder: the lines of `testbed.dcbx.show`, each with its port."""
LARGEST = 256 << 20


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("result", type=Path, metavar="RESULT", help=f"a result folder with {LOG}")
    parser.add_argument("left", metavar="PORT", help="one end of a link, as in h1-eth0")
    parser.add_argument("right", metavar="PORT", help="the other end")
    parser.add_argument("--svg", type=Path, metavar="FILE", help="a picture in FILE instead of text")


def draw(options: argparse.Namespace) -> int:
    """How the two ports of a link came to agree by DCBX: a ladder diagram from the log of a run."""
    log = options.result / LOG
    try:
        found = ladder(read(_whole_lines(options.result)), options.left, options.right)
    except LadderError as error:
        raise UsageError(f"{log}: {error}") from None
    if options.svg is None:
        sys.stdout.write(as_text(found))
        return Exit.OK
    with whole(options.svg, [options.result], "--svg") as out:
        out.write(as_svg(found).encode())
    return Exit.OK


def _whole_lines(result: Path) -> Iterator[str]:
    files = ForeignFolder(result)
    if not files.is_there():
        raise UsageError(f"there is no result folder {result}; xoff run makes one, in results/")
    try:
        for _, line in files.lines(LOG, LARGEST):
            if line.endswith("\n"):
                yield line
            else:  # the run was ended while it wrote
                from testbed.cli.console import say

                say(f"{result / LOG}: its last line is cut short, and left out")
    except FileNotFoundError:
        raise UsageError(f"{result} has no {LOG}: nothing spoke DCBX in that run") from None
