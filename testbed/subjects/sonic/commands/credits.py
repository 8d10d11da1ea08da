"""`xoff switch credits`: the buffer that credits need for a cable, and PFC beside it, term by term. No lab."""

from __future__ import annotations

import argparse
import json

from testbed.lab.results.result import Exit
from testbed.switch.credits import question
from testbed.switch.credits.question import Answer, Asked
from testbed.switch.headroom.annex_n import FIBRE, MEDIA, delay_of
from testbed.units import Duration


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rate", required=True, metavar="R", help="rate of the port, as in 400Gb/s")
    parser.add_argument("--length", required=True, metavar="L", help="length of the cable, as in 100m")
    parser.add_argument(
        "--medium", choices=list(MEDIA), default=FIBRE.name, help="medium of the cable (default %(default)s)"
    )
    for name, default, what in (
        ("--frame", Asked.frame, "length of the frames, with FCS"),
        ("--cell", Asked.cell, "size of a cell, which is what a credit stands for"),
        ("--overhead", Asked.overhead, "bytes that a frame takes of the buffer beside its own"),
        ("--cf-min", Asked.cf_min, "least bytes of the line from one CF_Update to the next"),
    ):
        parser.add_argument(name, default=default, metavar="B", help=f"{what} (default {default})")
    parser.add_argument("--longest", metavar="B", help="longest frame of the way back (default --frame)")
    parser.add_argument("--response", default="0s", metavar="T", help="with PFC: from PAUSE to the queue that stands")
    parser.add_argument(
        "--whole", action="store_true", help="the receiver passes on whole frames, not their first bits"
    )


def credits(options: argparse.Namespace) -> int:
    """Compute the credits for a cable, term by term, and headroom and threshold of PFC beside them: for frames of one
    length, exactly."""
    answer = question.answer(Asked(**{name: getattr(options, name) for name in Asked.__dataclass_fields__}), delay_of)
    if options.json:
        print(json.dumps(question.as_json(answer), indent=1))
    else:
        _show(answer)
    return Exit.OK


def _show(answer: Answer) -> None:
    from rich.markup import escape
    from rich.table import Table

    from testbed.cli.screen.console import stdout

    link = answer.link
    stdout.print(
        f"[bold]{link.rate}[/bold] over {answer.length}, frames of {link.frame} B: {link.cells} cells of "
        f"{link.cell} B each",
        soft_wrap=True,
    )
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    for column in ("time", "frames", "cells", "bytes"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column(overflow="fold")
    for heading, need in answer.needs:
        table.add_row(f"[dim]{heading}[/dim]")
        for term in need.terms:
            table.add_row(f"  {term.name}", str(Duration.from_ps(term.ps)), "", "", "", escape(term.how))
        table.add_row(
            "  [bold]buffer[/bold]", str(Duration.from_ps(need.ps)), str(need.frames), f"[bold]{need.cells}[/bold]",
            str(need.cells * need.cell_bytes), "",
        )  # fmt: skip
    stdout.print(table, crop=False)
    for note in answer.notes:
        stdout.print(f"[dim]note:[/dim] {escape(note)}", soft_wrap=True)
