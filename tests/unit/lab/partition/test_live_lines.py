"""Lines that the parts of a network report while it runs are one network's to whoever follows it."""

from __future__ import annotations

import random
from typing import Any

import pytest

from testbed.lab.partition.gang import LiveLines


def during(t_ns: int, node: str, *events: list[Any]) -> dict[str, Any]:
    return {"t": t_ns, "used": {node: t_ns}, "events": [*events]}


NETWORK = {"network": {"case": ""}}


@pytest.mark.parametrize("seed", range(5))
def test_lines_of_one_moment_are_one_line_however_they_come(seed: int) -> None:
    found: list[Any] = []
    lines = LiveLines(2, found.append)
    waiting = [
        [NETWORK, during(1, "s1", [7, "x"], [9, "y"]), during(2, "s1"), {"end": 3}, NETWORK, {"end": 9}],
        [NETWORK, during(1, "s2", [8, "z"]), {"end": 4}, NETWORK, during(8, "s2"), {"end": 9}],
    ]
    dice = random.Random(seed)
    while any(waiting):
        part = dice.randrange(2)
        if waiting[part]:
            lines.take(part, waiting[part].pop(0))
    assert found == [
        NETWORK,
        {"t": 1, "used": {"s1": 1, "s2": 1}, "events": [[7, "x"], [8, "z"], [9, "y"]]},
        during(2, "s1"),
        {"end": 3},
        NETWORK,
        during(8, "s2"),
        {"end": 9},
    ]


def test_what_is_no_line_of_a_network_is_left_out() -> None:
    found: list[Any] = []
    lines = LiveLines(2, found.append)
    for line in (7, {"t": "soon", "used": {}, "events": []}, {"t": 1, "used": {"s1": 2}, "events": [[], 3, ["x"]]}):
        lines.take(0, line)
        lines.take(1, during(1, "s2"))
    assert found == [during(1, "s2"), during(1, "s2"), {"t": 1, "used": {"s1": 2, "s2": 1}, "events": []}]


def test_a_part_that_reports_nothing_does_not_have_the_others_fill_the_memory() -> None:
    found: list[Any] = []
    lines = LiveLines(2, found.append)
    for t_ns in range(5000):
        lines.take(0, during(t_ns, "s1"))
    assert found == []
    lines.take(1, during(4000, "s2"))
    assert found == [{"t": 4000, "used": {"s1": 4000, "s2": 4000}, "events": []}]
