"""`xoff export --ladder`: how the two ports of a link came to agree by DCBX, as a diagram."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from testbed.cli.look.export import Export
from testbed.cli.output_file import whole_file
from testbed.cli.screen.console import say
from testbed.errors import UsageError
from testbed.experiment.output import DCBX_LOG
from testbed.lab.results.foreign import ForeignFolder
from testbed.subjects.dcbx.ladder import LadderError, ladder, read
from testbed.subjects.dcbx.ladder.svg import as_svg
from testbed.subjects.dcbx.ladder.text import as_text

LARGEST_LOG = 256 << 20


def draw(result: Path, ports: Sequence[str], out: Path | None) -> None:
    """Write the ladder of two ports into a file as SVG, or as text to standard output."""
    try:
        found = ladder(read(_whole_lines(result)), *ports)
    except LadderError as error:
        raise UsageError(f"{result / DCBX_LOG}: {error}") from None
    if out is None:
        sys.stdout.write(as_text(found))
        return
    with whole_file(out, [result]) as file:
        file.write(as_svg(found).encode())


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


EXPORTS = {
    "ladder": Export(
        ("PORT", "PORT"), "how the two ports of a link came to agree by DCBX, as a diagram", draw, "an SVG"
    )
}
