"""The units of all files of a result: a time or a rate is the hardware's, unless its name has `lab`.

A network is run at two scales. What is the hardware's is the same at both, and what is the lab's is not.
"""

from __future__ import annotations

import csv
import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from testbed import lab

from ..conftest import Runner

SCALES = 1000, 4000
TIMES, RATES = ("_ns", "_us", "_ms", "_s"), ("_bps",)
OF_THE_LAB = {"events.jsonl"}
"""The record of the lab: its `t`, and times in its fields, are the lab's (docs/events.md)."""


def values(content: Any, name: str = "") -> Iterator[tuple[str, float]]:
    """Yield each number that is a time or a rate, with its name."""
    if isinstance(content, dict):
        for key, one in content.items():
            yield from values(one, str(key))
    elif isinstance(content, list):
        for one in content:
            yield from values(one, name)
    elif isinstance(content, (int, float)) and name.endswith((*TIMES, *RATES)):
        yield name, float(content)


def lines(path: Path) -> list[Any]:
    if path.suffix == ".csv":
        with path.open(newline="") as file:
            return [{key: float(one) for key, one in row.items() if _is_number(one)} for row in csv.DictReader(file)]
    return [json.loads(line) for line in path.read_text().splitlines()]


def _is_number(text: str) -> bool:
    return text.removeprefix("-").replace(".", "", 1).isdigit()


def largest(result: lab.Result) -> dict[tuple[str, str], float]:
    """Return the largest value of each field of each file."""
    assert result.folder is not None
    found: dict[tuple[str, str], float] = defaultdict(float)
    for file in set(result.files) - OF_THE_LAB:
        for name, value in values(lines(result.folder / file)):
            found[file, name] = max(found[file, name], abs(value))
    return found


def test_each_time_and_rate_is_of_the_hardware_or_has_lab_in_its_name(run: Runner) -> None:
    one, other = (largest(run("units:logs", scale=scale).check()) for scale in SCALES)
    assert one.keys() == other.keys()
    files = {file for file, _ in one}
    assert files >= {"networks.jsonl", "flows.jsonl", "published.jsonl", "dcbx.jsonl", "series-flows.csv"}
    assert {name for file, name in one if file == "series-flows.csv"} == {"t_ns", "lab_ns", "rate_bps", "round_trip_ns"}
    times = SCALES[1] / SCALES[0]
    assert one["series-flows.csv", "t_ns"] * SCALES[0] == one["series-flows.csv", "lab_ns"]
    for (file, name), value in one.items():
        now = other[file, name]
        if name == "t_ns" or not (value or now):
            continue  # what comes before, such as the set-up, has no scale
        assert value and now, (file, name, value, now)
        ratio = now / value if name.endswith(TIMES) else value / now
        if "lab" in name:
            assert 1.2 < ratio <= times * 1.1, f"{file}: {name} is {value} and {now}: no value of the lab"
        else:
            assert 0.7 < ratio < 1.2, (
                f"{file}: {name} is {value} and {now}: a value of the lab, or none of the hardware"
            )
