"""A marking curve of ECN, and whether it begins before PAUSE."""

from __future__ import annotations

import json

from testbed.switch.ecn import question
from testbed.switch.ecn.question import Asked
from tools.calculators.calculator import Answer, Calculator, Field, Values, grouped, notes, picture, table
from tools.drawing import Drawing

_LEFT, _RIGHT, _TOP, _FLOOR = 70, 540, 34, 230


def answer(values: Values) -> Answer:
    given = {name: value for name, value in values.items() if value}
    found = question.answer(Asked(**{"kmin": "", "kmax": "", **given}))
    rows = ((grouped(queue), question.readable(share)) for queue, share in found.points)
    html = _drawn(found) + table(("queue, bytes", "packets that are marked"), rows, "marks by queue")
    return Answer(html + notes(found.notes), json.dumps(question.as_json(found), indent=1))


def _drawn(found: question.Answer) -> str:
    low, high, top = found.curve.kmin.bytes, found.curve.kmax.bytes, float(found.curve.pmax)
    most = max(1, high, found.xoff or 0, found.queue or 0) * 1.2
    words = f"no packet is marked below {low} B, {top:.4g} of them just below {high} B, and all from there on"
    drawing = Drawing(560, 282, "A marking curve", words)

    def x(octets: float) -> float:
        return _LEFT + (_RIGHT - _LEFT) * octets / most

    def y(part: float) -> float:
        return _FLOOR - (_FLOOR - _TOP) * part

    drawing.text(_LEFT, 20, "part of the packets that are marked", "soft small")
    drawing.line((_LEFT, _TOP), (_LEFT, _FLOOR), (_RIGHT, _FLOOR))
    drawing.line((_LEFT, _FLOOR), (x(low), _FLOOR), (x(high), y(top)), (x(high), y(1)), (_RIGHT, y(1)), kind="blueline")
    marks = [(0.0, "0 %"), (1.0, "100 %")]
    if 0.08 < top < 0.92:
        marks.append((top, f"{100 * top:.3g} %"))
    for part, word in marks:
        drawing.text(_LEFT - 8, y(part) + 4, word, "small", "end")
    near = x(high) - x(low) < 90
    for octets, word, row in ((low, f"Kmin {grouped(low)} B", 0), (high, f"Kmax {grouped(high)} B", int(near))):
        drawing.line((x(octets), _FLOOR), (x(octets), _FLOOR + 6))
        drawing.text(max(x(octets), _LEFT + 20), _FLOOR + 20 + 16 * row, word, "small", "middle")
    if found.xoff is not None:
        drawing.line((x(found.xoff), _TOP - 6), (x(found.xoff), _FLOOR), kind="redline dashed")
        drawing.text(x(found.xoff) + 5, _TOP + 34, "XOFF", "red bold")
    if found.queue is not None:
        drawing.line((x(found.queue), _TOP + 40), (x(found.queue), _FLOOR), kind="greenline dashed")
        drawing.text(x(found.queue) + 5, _FLOOR - 8, "queue", "green small")
    return picture(drawing, f"Marking curve: {words}")


CALCULATOR = Calculator(
    "ecn",
    "switch ecn",
    (
        Field("kmin", "Kmin: marking begins", "100kB", "100kB"),
        Field("kmax", "Kmax: every packet is marked", "400kB", "400kB"),
        Field("pmax", "Pmax: share just below Kmax", "20%", "20%, 1/5"),
        Field("xoff", "PAUSE is sent at", "200kB", "the threshold of the priority"),
        Field("queue", "A queue in question", "", "130kB", further=True),
    ),
    answer,
    {"kmin": "100kB", "kmax": "400kB", "pmax": "20%", "xoff": "200kB"},
)
