"""A question about the headroom of a port, as people write it, and its answer by four models.

Words and texts go in, as on the command line, by whose names errors call them; exact sums come out, as an object and as
plain data. `xoff switch headroom` and the calculator of the documentation site ask here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeVar

from testbed.errors import UsageError, nearest
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
)
from testbed.switch.headroom.extras import Extras, Fec
from testbed.switch.headroom.vendor import MLX5, SHIPPED
from testbed.units import Duration, Length, Rate

Read = TypeVar("Read")
Choice = TypeVar("Choice")

_OPTIONS = {"max_frame": "--max-frame", "shortest_frame": "--min-frame", "cell_bytes": "--cell"}
_WHOLE_NUMBER = re.compile("[0-9]{1,9}", re.ASCII)
_NOTHING = Duration.from_ps(0)


@dataclass(frozen=True)
class Asked:
    """A question in the words of the command line; None and the defaults are what is not said."""

    rate: str
    length: str | None = None
    rtt: str | None = None
    response: str | None = None
    medium: str = FIBRE.name
    port_type: str | None = None
    max_frame: str = str(MAX_FRAME_BYTES)
    min_frame: str = str(SHORTEST_FRAME_BYTES)
    cell: str = str(CELL_BYTES)
    fec: str | None = None
    macsec: bool = False
    optics: str = "0s"
    alpha: str | None = None


@dataclass(frozen=True)
class Question:
    """The port and the cable in question, read and checked."""

    port: HeadroomPort
    medium: Medium
    length: Length
    round_trip: Duration
    response: Duration | None  # what the stations take beside `round_trip`; None: not given
    is_measured: bool  # the round trip was given, with the stations in it, and `length` is the longest it allows
    port_type: PortType | None  # None: the one that rate and medium suggest
    extras: Extras


@dataclass(frozen=True)
class Answer:
    """The headroom by each model that has one, and what a reader has to know of it."""

    found: tuple[Headroom, ...]
    notes: tuple[str, ...]


def read(asked: Asked) -> Question:
    """Return the question; UsageError names the option that is wrong."""
    numbers = (
        _option("--rate", Rate, asked.rate),
        _option("--max-frame", _whole_number, asked.max_frame),
        _option("--min-frame", _whole_number, asked.min_frame),
        _option("--cell", _whole_number, asked.cell),
        None if asked.alpha is None else _option("--alpha", read_alpha, asked.alpha),
    )
    try:
        port = HeadroomPort(*numbers)
    except HeadroomError as error:
        raise UsageError(re.sub(r"\w+", lambda word: _OPTIONS.get(word[0], word[0]), str(error))) from None
    medium = _chosen("--medium", MEDIA, asked.medium)
    port_type = None if asked.port_type is None else _chosen("--port-type", PORT_TYPES, asked.port_type)
    response = None if asked.response is None else _option("--response", Duration, asked.response)
    beside = Extras(
        Fec.NONE if asked.fec is None else _chosen("--fec", {str(fec): fec for fec in Fec}, asked.fec),
        asked.macsec,
        _option("--optics", Duration, asked.optics),
    )
    if (asked.rtt is None) == (asked.length is None):
        raise UsageError("the headroom is for a cable of --length or for a measured --rtt; give one of them")
    if asked.length is not None:
        length = _option("--length", Length, asked.length)
        round_trip = 2 * medium.delay(length)
        return Question(port, medium, length, round_trip, response, False, port_type, beside)
    if response is not None:
        raise UsageError("--response goes with --length; a measured round trip has it in it")
    if not beside.is_nothing:
        raise UsageError("--fec, --macsec and --optics go with --length; a measured round trip has them in it")
    round_trip = _option("--rtt", Duration, str(asked.rtt))
    longest_mm = int(Fraction(round_trip.ps, 2) / medium.ns_per_metre)
    if longest_mm > Length.limit:
        longest = Length.from_mm(Length.limit)
        raise UsageError(
            f"--rtt {asked.rtt} is longer than the {2 * medium.delay(longest)} there and back over {longest} of "
            f"{medium.name}, the longest cable Xoff accepts"
        )
    return Question(port, medium, Length.from_mm(longest_mm), round_trip, None, True, port_type, beside)


def _option(name: str, read: Callable[[str], Read], text: str) -> Read:
    """Return the value of an option; an error names the option."""
    try:
        return read(text)
    except UsageError as error:
        raise UsageError(f"{name}: {error}") from None


def _chosen(name: str, choices: Mapping[str, Choice], text: str) -> Choice:
    if text not in choices:
        raise UsageError(f"{name}: {text[:40]!r} is none of its words; {nearest(text[:40], choices)}")
    return choices[text]


def _whole_number(text: str) -> int:
    if not _WHOLE_NUMBER.fullmatch(text):
        raise UsageError(f"{text[:40]!r} is not a whole number of bytes, such as 2000")
    return int(text)


def answer(question: Question) -> Answer:
    """Return the headroom by each model, with notes; one names each model that has none, as its tables lack the
    rate.
    """
    port, medium, length = question.port, question.medium, question.length
    least, most = (part(port.rate, port.max_frame) for part in (question.extras.least, question.extras.most))
    answers = [adaptive(port, question.round_trip, question.response, least)]
    unavailable = []
    if question.port_type is not None:
        answers.append(worst_case(port, length, question.port_type, medium, further=most))
    else:
        try:
            answers.append(worst_case(port, length, port_type_for(port.rate, medium), medium, further=most))
        except HeadroomError as error:
            unavailable.append(f"no worst case: {error}")
    try:
        answers.append(SHIPPED.headroom(port, length))
    except HeadroomError as error:
        unavailable.append(f"no vendor default: {error}")
    answers.append(MLX5.headroom(port, length))
    return Answer(tuple(answers), tuple(_notes(question, answers, unavailable)))


def _notes(question: Question, found: list[Headroom], unavailable: list[str]) -> list[str]:
    notes = dict.fromkeys(headroom.warning for headroom in found if headroom.warning)  # each once
    if not question.is_measured and question.response is None:
        notes["X is the cable alone; add what the stations take with --response, or measure it"] = None
    if question.is_measured and len(found) > 1:
        notes["X has the stations in it; the other models take all of it for cable"] = None
    return [*notes, *unavailable]


def as_json(question: Question, answer: Answer) -> dict[str, Any]:
    """Return the question and its answer as plain data."""
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
        "models": [headroom.as_json() for headroom in answer.found],
        "notes": list(answer.notes),
    }
