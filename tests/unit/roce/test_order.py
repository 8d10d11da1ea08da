"""Reordering and its extent, beside the definitions of RFC 4737 word by word."""

from __future__ import annotations

import random

import pytest

from testbed.net.traffic.report import Gaps
from testbed.roce.order import Order


def by_definition(arrivals: list[int]) -> tuple[int, int]:
    """Return the reordered packets and the largest extent, of arrivals in which each number's first one counts."""
    first = list(dict.fromkeys(arrivals))
    extents = []
    for place, number in enumerate(first):
        higher = [at for at in range(place) if first[at] > number]
        if higher:
            extents.append(place - higher[0])
    return len(extents), max(extents, default=0)


@pytest.mark.parametrize(
    ("arrivals", "reordered", "extent"),
    [
        ([0, 1, 2, 3], 0, 0),
        ([0, 2, 1, 3], 1, 1),
        ([0, 2, 3, 4, 1, 5], 1, 3),
        ([3, 2, 1, 0], 3, 3),
        ([0, 3, 3, 3, 1, 1, 2], 2, 2),  # duplicates are no arrivals
        ([1, 2, 0], 1, 2),
    ],
)
def test_cases_by_hand(arrivals: list[int], reordered: int, extent: int) -> None:
    order = Order(0)
    for number in arrivals:
        order.arrive(number)
    assert (order.counters.reordered, order.counters.extent) == (reordered, extent) == by_definition(arrivals)


@pytest.mark.parametrize("seed", range(10))
def test_any_arrivals_are_counted_as_the_definitions_say_by_roce_and_by_udp(seed: int) -> None:
    draw = random.Random(seed)
    late = draw.choice([1, 5, 80])
    sent = [number for number in range(600) if draw.random() > 0.05]
    times = sorted((number + (draw.uniform(0, late) if draw.random() < 0.3 else 0), number) for number in sent)
    arrivals = [number for _, number in times for _ in range(draw.choice([1, 1, 1, 2]))]
    order, gaps, highest, distinct, extents = Order(0), Gaps(), -1, 0, [0]
    for number in arrivals:
        order.arrive(number)
        if number > highest:
            gaps.add(highest + 1, number, distinct)
            highest, distinct = number, distinct + 1
        elif (since := gaps.fill(number)) is not None:
            extents.append(distinct - since)
            distinct += 1
    assert (
        (order.counters.reordered, order.counters.extent) == by_definition(arrivals) == (len(extents) - 1, max(extents))
    )


def test_packets_in_a_row_are_the_same_as_one_by_one() -> None:
    rows = [(0, 10), (12, 3), (10, 4), (15, 1)]
    together, single = Order(0), Order(0)
    for first, many in rows:
        together.arrive_in_row(first, many)
        for number in range(first, first + many):
            single.arrive(number)
    assert vars(together) == vars(single) and together.counters.reordered == 2


def test_a_number_that_is_too_late_is_not_known_any_more() -> None:
    order = Order(5)
    order.arrive(5 + 2048)
    order.arrive(5)
    assert order.counters.reordered == 0
    order.arrive(6)
    assert (order.counters.reordered, order.counters.extent) == (1, 1)
