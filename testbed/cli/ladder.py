"""`xoff ladder`: how the two ports of a link came to agree, as a diagram from the log of a run. It needs no lab."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from testbed.dcbx.ladder import LadderError, ladder, read
from testbed.dcbx.ladder_svg import as_svg
from testbed.dcbx.ladder_text import as_text
from testbed.errors import UsageError
from testbed.lab.result import Exit

LOG = "dcbx.jsonl"
"""In a result folder: the lines of `testbed.dcbx.show`, each with its port."""


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("result", type=Path, metavar="RESULT", help=f"a result folder with {LOG}")
    parser.add_argument("left", metavar="PORT", help="one end of a link, as in h1-eth0")
    parser.add_argument("right", metavar="PORT", help="the other end")
    parser.add_argument("--svg", type=Path, metavar="FILE", help="a picture in FILE instead of text")


def draw(options: argparse.Namespace) -> int:
    """How the two ports of a link came to agree by DCBX: a ladder diagram from the log of a run."""
    log = options.result / LOG
    *lines, rest = _content(log).split("\n")
    if rest:  # the run was ended while it wrote
        from testbed.cli.console import say

        say(f"{log}: its last line is cut short, and left out")
    try:
        found = ladder(read(lines), options.left, options.right)
    except LadderError as error:
        raise UsageError(f"{log}: {error}") from None
    if options.svg is None:
        sys.stdout.write(as_text(found))
        return Exit.OK
    try:
        options.svg.write_text(as_svg(found), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"--svg {options.svg}: {error.strerror}") from None
    return Exit.OK


def _content(log: Path) -> str:
    if not log.parent.is_dir():
        raise UsageError(f"there is no result folder {log.parent}; xoff run makes one, in results/")
    try:
        return log.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        raise UsageError(f"{log.parent} has no {log.name}: nothing spoke DCBX in that run") from None
    except OSError as error:
        raise UsageError(f"{log}: {error.strerror}") from None
