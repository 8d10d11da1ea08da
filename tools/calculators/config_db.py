"""`xoff switch check`: what is wrong in the files of SONiC switches."""

from __future__ import annotations

import json
from html import escape

from testbed.errors import UsageError, plain
from testbed.strict.problems import Severity
from testbed.subjects.sonic import verdict
from testbed.subjects.sonic.check import CELL
from tools.calculators.calculator import FILES, Answer, Calculator, Field, Values, files, grouped

_NUMBER = range(1, CELL + 1)


def answer(values: Values) -> Answer:
    given = {name: text.encode() for name, text in files(values[FILES]).items()}
    if not given:
        raise UsageError("choose the config_db.json of a switch; several are a fabric")
    text = values["cell"]
    if not (text.isascii() and text.isdecimal() and len(text) < 9 and int(text) in _NUMBER):
        raise UsageError(f"--cell: {text[:40]!r} is not a whole number from 1 to {CELL}")
    readings = verdict.checked(given, int(text))
    html = ""
    for name, reading in readings.items():
        counts = ", ".join(_counted(one, len(reading.problems.with_severity(one))) for one in Severity)
        html += f"<section><h3>{escape(plain(name))}: {counts}</h3>"
        html += "".join(_items(one, [str(each) for each in reading.problems.with_severity(one)]) for one in Severity)
        rest = [line for line in verdict.lines(reading, int(text))][
            sum(len(reading.problems.with_severity(s)) for s in Severity) :
        ]
        html += f'<ul class="said">{"".join(f"<li>{escape(plain(line))}</li>" for line in rest)}</ul></section>'
    as_json = {name: verdict.as_json(one, int(text)) for name, one in readings.items()}
    return Answer(html, json.dumps(as_json, indent=1))


_LOOKS = {Severity.ERROR: "bad", Severity.WARNING: "doubtful", Severity.IGNORED: "ignored"}


def _counted(severity: Severity, count: int) -> str:
    plural = "s" if count != 1 and severity is not Severity.IGNORED else ""
    return f"{grouped(count)} {severity}{plural}"


def _items(severity: Severity, said: list[str]) -> str:
    if not said:
        return ""
    rows = "".join(f"<li>{escape(plain(one))}</li>" for one in said)
    items = f'<ul class="{_LOOKS[severity]}">{rows}</ul>'
    if severity is Severity.IGNORED:
        return f"<details><summary>{len(said)} parts that Xoff does not model</summary>{items}</details>"
    return items


CALCULATOR = Calculator(
    "check",
    "switch check",
    (
        Field(FILES, "config_db.json", "", "files of several switches are checked as a fabric", kind=FILES),
        Field("cell", "Cell of the buffer, bytes", str(CELL), "208", further=True),
    ),
    answer,
)
