"""`xoff switch replay`: the replay buffer that LLR needs for a cable, term by term. It needs no lab."""

from __future__ import annotations

import argparse
import json

from testbed.lab.results.result import Exit
from testbed.switch.headroom.annex_n import FIBRE, MEDIA, delay_of
from testbed.switch.link import question
from testbed.switch.link.question import Answer, Asked


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rate", required=True, metavar="R", help="rate of the port, as in 400Gb/s")
    parser.add_argument("--length", required=True, metavar="L", help="length of the cable, as in 40m")
    parser.add_argument(
        "--medium", choices=list(MEDIA), default=FIBRE.name, help="medium of the cable (default %(default)s)"
    )
    for name, default, what in (
        ("--mtu", Asked.mtu, "MTU of the ports"),
        ("--spacing", Asked.spacing, "of the line from one acknowledgement to the next"),
    ):
        parser.add_argument(name, default=default, metavar="B", help=f"{what}, in bytes (default {default})")
    parser.add_argument(
        "--response", default=Asked.response, metavar="T",
        help="what both stations take beside the cable (default none, as in the lab)",
    )  # fmt: skip


def replay(options: argparse.Namespace) -> int:
    """Compute the replay buffer that Link Layer Retry needs for a cable, term by term, and show SONiC's beside it."""
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

    stdout.print(f"[bold]{answer.rate}[/bold] over {answer.length}, {answer.delay} one way", soft_wrap=True)
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    for column in ("bytes", "frames"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column(overflow="fold")
    for term in answer.terms:
        table.add_row(term.name, str(term.octets), "", escape(term.how))
    how = "frames are counted as the shortest ones"
    table.add_row("[bold]replay buffer[/bold]", f"[bold]{answer.octets}[/bold]", f"[bold]{answer.frames}[/bold]", how)
    if answer.timer is not None:
        table.add_row("[bold]replay timer[/bold]", "", "", str(answer.timer))
    stdout.print(table, crop=False)
    for note in answer.notes:
        stdout.print(f"[dim]note:[/dim] {escape(note)}", soft_wrap=True)
