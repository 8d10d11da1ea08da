"""`xoff switch headroom`: the headroom that a port needs, by four models and term by term. It needs no lab."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeVar

from testbed.errors import UsageError
from testbed.lab.results.result import Exit
from testbed.subjects.sonic.commands.fit import extra_options, extras
from testbed.switch.headroom.annex_n import FIBRE, MEDIA, PORT_TYPES, Medium, PortType, port_type_for, worst_case
from testbed.switch.headroom.calculation import (
    CELL_BYTES,
    MAX_FRAME_BYTES,
    SHORTEST_FRAME_BYTES,
    Headroom,
    HeadroomError,
    HeadroomPort,
    adaptive,
    read_alpha,
    readable,
)
from testbed.switch.headroom.extras import Extras, Fec
from testbed.switch.headroom.vendor import MLX5, SHIPPED
from testbed.units import Duration, Length, Rate

Read = TypeVar("Read")

_OPTIONS = {"max_frame": "--max-frame", "shortest_frame": "--min-frame", "cell_bytes": "--cell"}
_WHOLE_NUMBER = re.compile("[0-9]{1,9}", re.ASCII)
_NOTHING = Duration.from_ps(0)


@dataclass(frozen=True)
class _Question:
    """The port and the cable in question, read and checked."""

    port: HeadroomPort
    medium: Medium
    length: Length
    round_trip: Duration
    response: Duration | None  # what the stations take beside `round_trip`; None: not given
    is_measured: bool  # the round trip was given, with the stations in it, and `length` is the longest it allows
    port_type: PortType | None  # None: the one that rate and medium suggest
    extras: Extras


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
    question = _read(options)
    found, unavailable = _answer(question)
    notes = _notes(question, found, unavailable)
    if options.json:
        print(json.dumps(_as_json(question, found, notes), indent=1))
    else:
        _show(question, found, notes)
    return Exit.OK


def _read(options: argparse.Namespace) -> _Question:
    numbers = (
        _option("--rate", Rate, options.rate),
        _option("--max-frame", _whole_number, options.max_frame),
        _option("--min-frame", _whole_number, options.min_frame),
        _option("--cell", _whole_number, options.cell),
        None if options.alpha is None else _option("--alpha", read_alpha, options.alpha),
    )
    try:
        port = HeadroomPort(*numbers)
    except HeadroomError as error:
        raise UsageError(re.sub(r"\w+", lambda word: _OPTIONS.get(word[0], word[0]), str(error))) from None
    medium = MEDIA[options.medium]
    port_type = None if options.port_type is None else PORT_TYPES[options.port_type]
    response = None if options.response is None else _option("--response", Duration, options.response)
    beside = extras(options, Fec.NONE)
    if options.rtt is None:
        length = _option("--length", Length, options.length)
        round_trip = 2 * medium.delay(length)
        return _Question(port, medium, length, round_trip, response, False, port_type, beside)
    if response is not None:
        raise UsageError("--response goes with --length; a measured round trip has it in it")
    if not beside.is_nothing:
        raise UsageError("--fec, --macsec and --optics go with --length; a measured round trip has them in it")
    round_trip = _option("--rtt", Duration, options.rtt)
    longest_mm = int(Fraction(round_trip.ps, 2) / medium.ns_per_metre)
    if longest_mm > Length.limit:
        longest = Length.from_mm(Length.limit)
        raise UsageError(
            f"--rtt {options.rtt} is longer than the {2 * medium.delay(longest)} there and back over {longest} of "
            f"{medium.name}, the longest cable Xoff accepts"
        )
    return _Question(port, medium, Length.from_mm(longest_mm), round_trip, None, True, port_type, beside)


def _option(name: str, read: Callable[[str], Read], text: str) -> Read:
    """Return the value of an option; an error names the option."""
    try:
        return read(text)
    except UsageError as error:
        raise UsageError(f"{name}: {error}") from None


def _whole_number(text: str) -> int:
    if not _WHOLE_NUMBER.fullmatch(text):
        raise UsageError(f"{text[:40]!r} is not a whole number of bytes, such as 2000")
    return int(text)


def _answer(question: _Question) -> tuple[list[Headroom], list[str]]:
    """Return the headroom by each model, and the reason for each model that has none: its tables lack this rate."""
    port, medium, length = question.port, question.medium, question.length
    least, most = (part(port.rate, port.max_frame) for part in (question.extras.least, question.extras.most))
    found = [adaptive(port, question.round_trip, question.response, least)]
    unavailable = []
    if question.port_type is not None:
        found.append(worst_case(port, length, question.port_type, medium, further=most))
    else:
        try:
            found.append(worst_case(port, length, port_type_for(port.rate, medium), medium, further=most))
        except HeadroomError as error:
            unavailable.append(f"no worst case: {error}")
    try:
        found.append(SHIPPED.headroom(port, length))
    except HeadroomError as error:
        unavailable.append(f"no vendor default: {error}")
    found.append(MLX5.headroom(port, length))
    return found, unavailable


def _notes(question: _Question, found: list[Headroom], unavailable: list[str]) -> list[str]:
    notes = dict.fromkeys(headroom.warning for headroom in found if headroom.warning)  # each once
    if not question.is_measured and question.response is None:
        notes["X is the cable alone; add what the stations take with --response, or measure it"] = None
    if question.is_measured and len(found) > 1:
        notes["X has the stations in it; the other models take all of it for cable"] = None
    return [*notes, *unavailable]


def _as_json(question: _Question, found: list[Headroom], notes: list[str]) -> dict[str, Any]:
    port = question.port
    return {
        "rate_bps": port.rate.bps,
        "medium": question.medium.name,
        "length_mm": question.length.mm,
        "length_is_upper_bound": question.is_measured,
        "round_trip_ps": question.round_trip.ps,
        "response_ps": (question.response or _NOTHING).ps,
        "max_frame": port.max_frame,
        "min_frame": port.shortest_frame,
        "cell": port.cell_bytes,
        "models": [headroom.as_json() for headroom in found],
        "notes": notes,
    }


def _show(question: _Question, found: list[Headroom], notes: list[str]) -> None:
    from rich.markup import escape
    from rich.table import Table

    from testbed.cli.screen.console import stdout

    at_most = "at most " if question.is_measured else ""
    stdout.print(
        f"[bold]{question.port.rate}[/bold], {question.round_trip} there and back over {at_most}"
        f"{question.length} of {question.medium.name}",
        soft_wrap=True,
    )
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    for column in ("bits", "bytes", "cells"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column(overflow="fold")
    for headroom in found:
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
    for note in notes:
        stdout.print(f"[dim]note:[/dim] {escape(note)}", soft_wrap=True)
