"""The replay buffer that Link Layer Retry needs for a cable."""

from __future__ import annotations

import json

from testbed.switch.headroom.annex_n import FIBRE, MEDIA, delay_of
from testbed.switch.link import question
from testbed.switch.link.question import Asked
from tools.calculators.calculator import Answer, Calculator, Field, Values, grouped, notes, paragraph, table

RATES = ("100Gb/s", "200Gb/s", "400Gb/s", "800Gb/s")
LENGTHS = ("5m", "40m", "100m", "500m", "2km")


def answer(values: Values) -> Answer:
    given = {name: value for name, value in values.items() if value}
    found = question.answer(Asked(**{"rate": "", "length": "", **given}), delay_of)
    rows = [(term.name, grouped(term.octets), "", term.how) for term in found.terms]
    rows.append(("replay buffer", grouped(found.octets), grouped(found.frames), "frames as the shortest ones"))
    if found.sample is not None:
        rows.append(("SONiC's sample", grouped(found.sample[1]), grouped(found.sample[0]), "for rate and length"))
    html = paragraph(f"{found.rate} over {found.length}, {found.delay} one way", "head")
    html += table(("term", "bytes", "frames", "how"), rows, "replay buffer, term by term")
    if found.timer is not None:
        html += paragraph(f"Replay timer: {found.timer}")
    return Answer(html + notes(found.notes), json.dumps(question.as_json(found), indent=1))


def reference() -> str:
    """Return the table of the page: frames and bytes by rate and length."""
    rows = []
    for rate in RATES:
        found = [question.answer(Asked(rate, length), delay_of) for length in LENGTHS]
        cells = (f"{grouped(one.frames)}, {grouped(one.octets)} B{'' if one.timer else '; refused'}" for one in found)
        rows.append((rate, *cells))
    return table(("frames, bytes", *LENGTHS), rows, "replay buffer by rate and length")


CALCULATOR = Calculator(
    "replay",
    "switch replay",
    (
        Field("rate", "Rate of the port", "200Gb/s", "100Gb/s, 200Gb/s, 400Gb/s"),
        Field("length", "Length of the cable", "40m", "5m, 40m, 100m"),
        Field("medium", "Medium", FIBRE.name, choices=tuple(MEDIA), kind="choice"),
        Field("response", "What both stations take beside it", Asked.response, "1us"),
        Field("mtu", "MTU, bytes", Asked.mtu, "9216", further=True),
        Field("spacing", "From one acknowledgement to the next, bytes", Asked.spacing, "2048", further=True),
    ),
    answer,
    {"rate": "200Gb/s", "length": "40m"},
)
