"""`xoff switch headroom`: the headroom that a port needs, by four models and term by term. It needs no lab."""

from __future__ import annotations

import argparse
import json

from testbed.lab.results.result import Exit
from testbed.subjects.sonic.commands.fit import extra_options
from testbed.switch.headroom import question
from testbed.switch.headroom.annex_n import FIBRE, MEDIA, PORT_TYPES
from testbed.switch.headroom.calculation import CELL_BYTES, MAX_FRAME_BYTES, SHORTEST_FRAME_BYTES, readable
from testbed.switch.headroom.question import Answer, Asked, Question


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rate", required=True, metavar="R", help="rate of the port, as in 100Gb/s")
    link = parser.add_mutually_exclusive_group(required=True)
    link.add_argument("--length", metavar="L", help="length of the cable, as in 50km")
    link.add_argument("--rtt", metavar="T", help="measured round trip, (T4-T1)-(T3-T2), as in 500us")
    parser.add_argument("--response", metavar="T", help="with --length: what both stations add to it")
    parser.add_argument(
        "--medium", choices=list(MEDIA), default=FIBRE.name, help="medium of the cable (default %(default)s)"
    )
    parser.add_argument(
        "--port-type", choices=list(PORT_TYPES), metavar="P", help="for the worst case, as in 10GBASE-T; from the rate"
    )
    for name, default, what in (
        ("--max-frame", MAX_FRAME_BYTES, "longest frame on the port, without preamble and gap"),
        ("--min-frame", SHORTEST_FRAME_BYTES, "shortest frame of the lossless priority"),
        ("--cell", CELL_BYTES, "size of a buffer cell"),
    ):
        parser.add_argument(name, default=str(default), metavar="B", help=f"{what}, in bytes (default {default})")
    extra_options(parser, "default none")
    parser.add_argument("--alpha", metavar="A", help="buffer for each byte of line, as in 1.1; from cell and frames")


def headroom(options: argparse.Namespace) -> int:
    """Compute the headroom that a port needs, term by term: from a round trip, in Annex N's worst case, and as vendors
    set it."""
    asked = question.read(Asked(**{name: getattr(options, name) for name in Asked.__dataclass_fields__}))
    answer = question.answer(asked)
    if options.json:
        print(json.dumps(question.as_json(asked, answer), indent=1))
    else:
        _show(asked, answer)
    return Exit.OK


def _show(asked: Question, answer: Answer) -> None:
    from rich.markup import escape
    from rich.table import Table

    from testbed.cli.screen.console import stdout

    at_most = "at most " if asked.is_measured else ""
    stdout.print(
        f"[bold]{asked.port.rate}[/bold], {asked.round_trip} there and back over {at_most}"
        f"{asked.length} of {asked.medium.name}",
        soft_wrap=True,
    )
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    for column in ("bits", "bytes", "cells"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column(overflow="fold")
    for headroom in answer.found:
        table.add_row(f"[dim]{headroom.model}[/dim]")
        for term in headroom.terms:
            sizes = (term.bits, term.bytes, term.cells(headroom.cell_bytes))
            table.add_row(f"  {term.name}", *map(str, sizes), escape(term.how))
        if len(headroom.terms) > 1:
            dv = headroom.delay_value
            table.add_row("  delay value", str(dv), str(-(-dv // 8)), "", "the sum")
        alpha = f"x {readable(headroom.alpha)}, {headroom.alpha_how}"
        table.add_row(
            "  [bold]headroom[/bold]", "", str(headroom.bytes), f"[bold]{headroom.cells}[/bold]", escape(alpha)
        )
    stdout.print(table, crop=False)
    for note in answer.notes:
        stdout.print(f"[dim]note:[/dim] {escape(note)}", soft_wrap=True)
