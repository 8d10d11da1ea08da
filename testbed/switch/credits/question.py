"""A question about the credits of a cable, as people write it, and its answer: the buffer, and that of PFC beside it.

Texts go in, as on the command line, by whose names errors call them. `xoff switch credits` and the calculator of the
documentation site ask here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from testbed.errors import UsageError
from testbed.switch.credits import law
from testbed.switch.credits.law import Link, Need
from testbed.units import Duration, Length, Rate

Read = TypeVar("Read")


@dataclass(frozen=True)
class Asked:
    """A question in the words of the command line; None and the defaults are what is not said."""

    rate: str
    length: str
    medium: str = "fibre"
    frame: str = "1518"
    cell: str = "64"
    overhead: str = "-4"
    cf_min: str = "800"
    longest: str | None = None
    response: str = "0s"
    whole: bool = False


@dataclass(frozen=True)
class Answer:
    """The buffer of a direction of a cable by credits, and by PFC: headroom, and what is below the threshold."""

    link: Link
    length: Length
    given: Need
    headroom: Need
    threshold: Need
    notes: tuple[str, ...]

    @property
    def needs(self) -> tuple[tuple[str, Need], ...]:
        """The three with a heading each."""
        return ("credits", self.given), ("PFC: headroom", self.headroom), ("PFC: below the threshold", self.threshold)


def answer(asked: Asked, delay_of: Callable[[str, Length], Duration]) -> Answer:
    """Return the buffers; UsageError names the option that is wrong.

    `delay_of` gives the delay of a cable by its medium and length (`testbed.switch.headroom.annex_n`).
    """
    length = _read("--length", Length, asked.length)
    link = Link(
        _read("--rate", Rate, asked.rate), delay_of(asked.medium, length), _whole("--frame", asked.frame),
        _whole("--cell", asked.cell), _whole("--overhead", asked.overhead),
        None if asked.longest is None else _whole("--longest", asked.longest),
        _read("--response", Duration, asked.response), _whole("--cf-min", asked.cf_min), asked.whole,
    )  # fmt: skip
    given, headroom, threshold = law.credits(link), law.headroom(link), law.threshold(link)
    paused = headroom.cells + threshold.cells
    note = (
        f"with one credit less {given.share_with_one_less:.2%} of the line is left; PFC takes {paused} cells, "
        f"{paused / given.cells:.2f} times as many"
    )
    return Answer(link, length, given, headroom, threshold, (note,))


def as_json(found: Answer) -> dict[str, Any]:
    """Return an answer as plain data; times are in picoseconds."""
    return {need.name: _need(need) for _, need in found.needs}


def _need(need: Need) -> dict[str, Any]:
    return {
        "terms": [{"name": term.name, "ps": term.ps, "how": term.how} for term in need.terms],
        "ps": need.ps,
        "frames": need.frames,
        "cells": need.cells,
        "bytes": need.cells * need.cell_bytes,
        "share_with_one_less": need.share_with_one_less,
    }


def _read(name: str, kind: Callable[[str], Read], text: str) -> Read:
    try:
        return kind(text)
    except UsageError as error:
        raise UsageError(f"{name}: {error}") from None


def _whole(name: str, text: str) -> int:
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) < 10):
        raise UsageError(f"{name}: {text[:20]!r} is no whole number of bytes")
    return int(text)
