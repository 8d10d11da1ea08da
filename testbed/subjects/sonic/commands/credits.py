"""`xoff switch credits`: the buffer that credits need for a cable, and PFC beside it, term by term. No lab."""

from __future__ import annotations

import argparse
import json
from typing import Any

from testbed.errors import UsageError
from testbed.lab.results.result import Exit
from testbed.switch.credits import law
from testbed.switch.credits.law import Link, Need
from testbed.switch.headroom.annex_n import FIBRE, MEDIA
from testbed.units import Duration, Length, Rate


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rate", required=True, metavar="R", help="rate of the port, as in 400Gb/s")
    parser.add_argument("--length", required=True, metavar="L", help="length of the cable, as in 100m")
    parser.add_argument(
        "--medium", choices=list(MEDIA), default=FIBRE.name, help="medium of the cable (default %(default)s)"
    )
    for name, default, what in (
        ("--frame", 1518, "length of the frames, with FCS"),
        ("--cell", 64, "size of a cell, which is what a credit stands for"),
        ("--overhead", -4, "bytes that a frame takes of the buffer beside its own"),
        ("--cf-min", 800, "least bytes of the line from one CF_Update to the next"),
    ):
        parser.add_argument(name, type=int, default=default, metavar="B", help=f"{what} (default {default})")
    parser.add_argument("--longest", type=int, metavar="B", help="longest frame of the way back (default --frame)")
    parser.add_argument("--response", default="0s", metavar="T", help="with PFC: from PAUSE to the queue that stands")
    parser.add_argument(
        "--whole", action="store_true", help="the receiver passes on whole frames, not their first bits"
    )


def credits(options: argparse.Namespace) -> int:
    """Compute the credits for a cable, term by term, and headroom and threshold of PFC beside them: for frames of one
    length, exactly."""
    length = _read("--length", Length, options.length)
    link = Link(
        _read("--rate", Rate, options.rate), MEDIA[options.medium].delay(length), options.frame, options.cell,
        options.overhead, options.longest, _read("--response", Duration, options.response), options.cf_min,
        options.whole,
    )  # fmt: skip
    needs = law.credits(link), law.headroom(link), law.threshold(link)
    if options.json:
        print(json.dumps({one.name: _as_json(one) for one in needs}, indent=1))
    else:
        _show(link, length, needs)
    return Exit.OK


def _read(name: str, kind: Any, text: str) -> Any:
    try:
        return kind(text)
    except UsageError as error:
        raise UsageError(f"{name}: {error}") from None


def _as_json(need: Need) -> dict[str, Any]:
    return {
        "terms": [{"name": term.name, "ps": term.ps, "how": term.how} for term in need.terms],
        "ps": need.ps,
        "frames": need.frames,
        "cells": need.cells,
        "bytes": need.cells * need.cell_bytes,
        "share_with_one_less": need.share_with_one_less,
    }


def _show(link: Link, length: Length, needs: tuple[Need, Need, Need]) -> None:
    from rich.markup import escape
    from rich.table import Table

    from testbed.cli.screen.console import stdout

    stdout.print(
        f"[bold]{link.rate}[/bold] over {length}, frames of {link.frame} B: {link.cells} cells of {link.cell} B each",
        soft_wrap=True,
    )
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    for column in ("time", "frames", "cells", "bytes"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column(overflow="fold")
    for heading, need in zip(("credits", "PFC: headroom", "PFC: below the threshold"), needs, strict=True):
        table.add_row(f"[dim]{heading}[/dim]")
        for term in need.terms:
            table.add_row(f"  {term.name}", str(Duration.from_ps(term.ps)), "", "", "", escape(term.how))
        table.add_row(
            "  [bold]buffer[/bold]", str(Duration.from_ps(need.ps)), str(need.frames), f"[bold]{need.cells}[/bold]",
            str(need.cells * need.cell_bytes), "",
        )  # fmt: skip
    stdout.print(table, crop=False)
    given, headroom, threshold = needs
    paused = headroom.cells + threshold.cells
    stdout.print(
        f"[dim]note:[/dim] with one credit less {given.share_with_one_less:.2%} of the line is left; PFC takes "
        f"{paused} cells, {paused / given.cells:.2f} times as many",
        soft_wrap=True,
    )
