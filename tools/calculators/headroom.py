"""The headroom of a cable, by four models."""

from __future__ import annotations

import json
from html import escape

from testbed.switch.headroom import question
from testbed.switch.headroom.annex_n import FIBRE, MEDIA, PORT_TYPES
from testbed.switch.headroom.calculation import (
    CELL_BYTES,
    MAX_FRAME_BYTES,
    SHORTEST_FRAME_BYTES,
    Headroom,
    Model,
    readable,
)
from testbed.switch.headroom.extras import Fec
from testbed.switch.headroom.question import Asked
from tools.calculators.calculator import (
    Answer,
    Calculator,
    Field,
    Values,
    grouped,
    notes,
    paragraph,
    picture,
    table,
)
from tools.drawing import Drawing

_WIDTH, _ROW = 560, 34
_TONES = {Model.ADAPTIVE: "green", Model.WORST_CASE: "red", Model.VENDOR: "blue", Model.DRIVER: "amber"}
RATES = ("25Gb/s", "100Gb/s", "200Gb/s", "400Gb/s")
LENGTHS = ("5m", "40m", "300m", "2km", "10km", "50km")


def asked(values: Values) -> Asked:
    """Return the question of a form. What is empty was not said."""
    given = {name: value for name, value in values.items() if value}
    return Asked(**{**given, "rate": given.get("rate", ""), "macsec": bool(given.get("macsec"))})  # type: ignore[arg-type]


def answer(values: Values) -> Answer:
    asked_for = question.read(asked(values))
    found = question.answer(asked_for)
    most = "at most " if asked_for.is_measured else ""
    head = (
        f"{asked_for.port.rate}, {asked_for.round_trip} there and back over {most}{asked_for.length} of "
        f"{asked_for.medium.name}"
    )
    html = paragraph(head, "head") + _drawn(found.found)
    html += table(
        ("model", "cells", "bytes", "delay value, bits", "buffer for each byte of line"),
        (
            (str(one.model), grouped(one.cells), grouped(one.bytes), grouped(one.delay_value),
             f"{readable(one.alpha)}, {one.alpha_how}")
            for one in found.found
        ),
        "headroom by model",
    )  # fmt: skip
    html += notes(found.notes)
    for one in found.found:
        rows = ((term.name, grouped(term.bits), grouped(term.bytes), term.how) for term in one.terms)
        terms = table(("term", "bits", "bytes", "how"), rows, f"terms: {one.model}")
        html += f"<details><summary>{escape(str(one.model))}, term by term</summary>{terms}</details>"
    return Answer(html, json.dumps(question.as_json(asked_for, found), indent=1))


def _drawn(found: tuple[Headroom, ...]) -> str:
    words = ", ".join(f"{one.model} {one.bytes} B" for one in found)
    drawing = Drawing(_WIDTH, 16 + _ROW * len(found), "Headroom by model", words)
    most = max(one.bytes for one in found)
    for row, one in enumerate(found):
        y = 12 + row * _ROW
        width = 300 * one.bytes / most
        drawing.text(118, y + 17, str(one.model), "", "end")
        drawing.box(126, y, max(width, 1), 24, f"{_TONES[one.model]}box")
        drawing.text(132 + width, y + 17, f"{grouped(one.bytes)} B", "small")
    return picture(drawing, f"Headroom by model: {words}")


def reference() -> str:
    """Return the table of the page: bytes by rate and length, from the cable alone to the worst that 802.3 allows."""
    rows = []
    for rate in RATES:
        cells = []
        for length in LENGTHS:
            by_model = {one.model: one for one in question.answer(question.read(Asked(rate, length))).found}
            least, most = by_model[Model.ADAPTIVE], by_model[Model.WORST_CASE]
            cells.append(f"{_kilobytes(least.bytes)} to {_kilobytes(most.bytes)}")
        rows.append((rate, *cells))
    return table(("kB", *LENGTHS), rows, "headroom by rate and length")


def _kilobytes(octets: int) -> str:
    return grouped(-(-octets // 1000))


CALCULATOR = Calculator(
    "headroom",
    "switch headroom",
    (
        Field("rate", "Rate of the port", "100Gb/s", "25Gb/s, 100Gb/s, 400Gb/s"),
        Field("length", "Length of the cable", "2km", "5m, 300m, 10km"),
        Field("medium", "Medium", FIBRE.name, choices=tuple(MEDIA), kind="choice"),
        Field("fec", "Forward error correction", str(Fec.NONE), choices=tuple(map(str, Fec)), kind="choice"),
        Field("rtt", "Measured round trip, in place of a length", "", "500us", further=True),
        Field("response", "What both stations take beside it", "", "1us", further=True),
        Field("optics", "What one optical module takes", "0s", "5us for a coherent one", further=True),
        Field("macsec", "The link has MACsec", kind="check", further=True),
        Field("max_frame", "Longest frame, bytes", str(MAX_FRAME_BYTES), "9216", further=True),
        Field("min_frame", "Shortest lossless frame, bytes", str(SHORTEST_FRAME_BYTES), "64", further=True),
        Field("cell", "Cell of the buffer, bytes", str(CELL_BYTES), "208", further=True),
        Field("alpha", "Buffer for each byte of line", "", "from cell and frames", further=True),
        Field("port_type", "Port type of the worst case", "", choices=("", *PORT_TYPES), kind="choice", further=True),
    ),
    answer,
    {"rate": "100Gb/s", "length": "2km"},
)
