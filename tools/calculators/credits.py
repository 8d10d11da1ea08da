"""The credits (CBFC) that a cable needs, and the buffer of PFC beside them."""

from __future__ import annotations

import json
from html import escape

from testbed.switch.credits import question
from testbed.switch.credits.question import Asked
from testbed.switch.headroom.annex_n import FIBRE, MEDIA, delay_of
from testbed.units import Duration
from tools.calculators.calculator import Answer, Calculator, Field, Values, grouped, notes, paragraph, picture, table
from tools.drawing import Drawing

_WIDTH, _ROW = 560, 34
RATES = ("100Gb/s", "400Gb/s", "800Gb/s")
LENGTHS = ("5m", "100m", "2km", "50km")


def answer(values: Values) -> Answer:
    given = {name: value for name, value in values.items() if value}
    asked = {"rate": "", "length": "", **given, "whole": bool(given.get("whole"))}
    found = question.answer(Asked(**asked), delay_of)  # type: ignore[arg-type]
    link = found.link
    html = paragraph(
        f"{link.rate} over {found.length}, frames of {link.frame} B: {link.cells} cells of {link.cell} B each", "head"
    )
    html += _drawn(found)
    html += table(
        ("buffer", "time", "frames", "cells", "bytes"),
        (
            (name, str(Duration.from_ps(need.ps)), grouped(need.frames), grouped(need.cells),
             grouped(need.cells * need.cell_bytes))
            for name, need in found.needs
        ),
        "credits and PFC",
    )  # fmt: skip
    html += notes(found.notes)
    for name, need in found.needs:
        rows = ((term.name, str(Duration.from_ps(term.ps)), term.how) for term in need.terms)
        terms = table(("term", "time", "how"), rows, f"terms: {name}")
        html += f"<details><summary>{escape(name)}, term by term</summary>{terms}</details>"
    return Answer(html, json.dumps(question.as_json(found), indent=1))


def _drawn(found: question.Answer) -> str:
    bars = [("credits", ((found.given.cells, "green"),)),
            ("PFC", ((found.headroom.cells, "red"), (found.threshold.cells, "amber")))]  # fmt: skip
    words = (
        f"credits {found.given.cells} cells; PFC {found.headroom.cells} of headroom and {found.threshold.cells} below"
    )
    drawing = Drawing(_WIDTH, 16 + _ROW * len(bars), "Cells by mechanism", words)
    most = max(sum(cells for cells, _ in parts) for _, parts in bars)
    for row, (name, parts) in enumerate(bars):
        y, x = 12 + row * _ROW, 126.0
        drawing.text(118, y + 17, name, "", "end")
        for cells, tone in parts:
            width = max(300 * cells / most, 1)
            drawing.box(x, y, width, 24, f"{tone}box")
            x += width
        drawing.text(x + 6, y + 17, f"{' + '.join(grouped(cells) for cells, _ in parts)} cells", "small")
    return picture(drawing, f"Cells by mechanism: {words}")


def reference() -> str:
    """Return the table of the page: cells of credits, and of PFC, by rate and length."""
    rows = []
    for rate in RATES:
        found = [question.answer(Asked(rate, length), delay_of) for length in LENGTHS]
        cells = (f"{grouped(one.given.cells)}; {grouped(one.headroom.cells + one.threshold.cells)}" for one in found)
        rows.append((rate, *cells))
    return table(("credits; PFC", *LENGTHS), rows, "cells by rate and length")


CALCULATOR = Calculator(
    "credits",
    "switch credits",
    (
        Field("rate", "Rate of the port", "400Gb/s", "100Gb/s, 400Gb/s, 800Gb/s"),
        Field("length", "Length of the cable", "100m", "5m, 100m, 2km"),
        Field("medium", "Medium", FIBRE.name, choices=tuple(MEDIA), kind="choice"),
        Field("frame", "Frames, bytes with FCS", Asked.frame, "1518"),
        Field("cell", "A credit: a cell of the receiver, bytes", Asked.cell, "64"),
        Field("overhead", "Bytes of the buffer that a frame takes beside its own", Asked.overhead, "-4", further=True),
        Field("cf_min", "Least bytes from one CF_Update to the next", Asked.cf_min, "800", further=True),
        Field("longest", "Longest frame of the way back, bytes", "", "as the frames", further=True),
        Field("response", "With PFC: from PAUSE to the queue that stands", Asked.response, "1us", further=True),
        Field("whole", "The receiver passes on whole frames", kind="check", further=True),
    ),
    answer,
    {"rate": "400Gb/s", "length": "100m"},
)
