"""The table of all calculators, and what the page asks of it in the browser."""

from __future__ import annotations

import json
from typing import Any

from testbed.errors import XoffError, message
from tools.calculators import config_db, credits, headroom, marking, pasted, replay, thresholds

CALCULATORS = {
    one.name: one
    for one in (
        headroom.CALCULATOR, thresholds.CALCULATOR, marking.CALCULATOR, replay.CALCULATOR, credits.CALCULATOR,
        pasted.CALCULATOR, config_db.CALCULATOR,
    )
}  # fmt: skip


def answered(name: str, given: dict[str, str]) -> dict[str, Any]:
    """Return the answer of a calculator, or what is wrong with the question."""
    calculator = CALCULATORS[name]
    values = calculator.values(given)
    try:
        found = calculator.answer(values)
    except XoffError as error:
        return {"error": message(error), "command": calculator.line(values)}
    return {"html": found.html, "json": found.json, "command": calculator.line(values)}


def ask(name: str, given: str) -> str:
    """Return the answer as JSON to a question in JSON, for the page's script."""
    return json.dumps(answered(name, json.loads(given)))
