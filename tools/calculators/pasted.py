"""Frames in hexadecimal, in words and fields: PFC, LLDP with DCBX, RoCEv2 and what else `xoff decode` reads."""

from __future__ import annotations

import json
from html import escape

from testbed.errors import plain
from testbed.frames import capture_file
from testbed.report.exports import hex_text
from testbed.report.exports.frame_text import Layer, as_json, of_captured
from tools.calculators.calculator import Answer, Calculator, Field, Values, paragraph, table

EXAMPLE = """01 80 c2 00 00 01  00 11 22 33 44 55  88 08  01 01 00 08
00 00 00 00 00 00 ff ff 00 00 00 00 00 00 00 00

fe 06 00 80 c2 0b 88 08
fe 08 00 80 c2 0c 00 63 12 b7"""
MOST = 200
"""The most frames that are shown in words; JSON has all."""


def answer(values: Values) -> Answer:
    frames = [capture_file.untimed(octets) for octets in hex_text.read(values["hex"])]
    html, lines = "", []
    for number, frame in enumerate(frames, 1):
        found = of_captured(frame)
        lines.append(json.dumps(as_json(frame, found)))
        if number > MOST:
            continue
        html += f"<section><h3>Frame {number}, {frame.length} octets</h3>"
        html += "".join(_layer(layer, f"frame {number}, layer {place}") for place, layer in enumerate(found, 1))
        html += "</section>"
    if len(frames) > MOST:
        html += paragraph(f"{len(frames) - MOST} more frames are in the JSON below")
    return Answer(html, "\n".join(lines))


def _layer(layer: Layer, name: str) -> str:
    rows = [(name.replace("_", " "), _value(value)) for name, value in layer.fields.items()]
    look = "layer bad" if layer.kind in ("refused", "flaw") else "layer"
    fields = table(("field", "value"), rows, f"{name}: {layer.kind}") if rows else ""
    folded = f"<details><summary>{len(rows)} fields</summary>{fields}</details>" if rows else ""
    return f'<p class="{look}"><b>{escape(layer.kind)}</b> {escape(plain(layer.text))}</p>{folded}'


def _value(value: object) -> str:
    return plain(value if isinstance(value, str) else json.dumps(value))


CALCULATOR = Calculator(
    "decode",
    "decode",
    (Field("hex", "Octets in hexadecimal", EXAMPLE, "frames or LLDP TLVs; a dump of tcpdump -xx will do", kind="hex"),),
    answer,
    {"hex": EXAMPLE},
)
