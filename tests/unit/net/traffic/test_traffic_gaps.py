"""Ranges of missing numbers, beside a set of them."""

from __future__ import annotations

import random

import pytest

from testbed.net.traffic.report import Gaps


def test_a_gap_of_ten_million_numbers_is_one_range() -> None:
    gaps = Gaps()
    gaps.add(250, 10_161_493)
    assert gaps.ranges() == [(250, 10_161_493)] and len(gaps) == 10_161_243
    gaps.add(10_161_493, 10_161_500)
    assert gaps.ranges() == [(250, 10_161_500)], "ranges that meet are one"


@pytest.mark.parametrize(
    ("number", "left"),
    [(10, [(11, 20)]), (19, [(10, 19)]), (15, [(10, 15), (16, 20)]), (9, None), (20, None), (3, None)],
)
def test_a_number_comes_out_of_its_range(number: int, left: list[tuple[int, int]] | None) -> None:
    gaps = Gaps()
    gaps.add(10, 20)
    assert (gaps.fill(number) is None) is (left is None)
    assert gaps.ranges() == (left or [(10, 20)])
    assert gaps.fill(number) is None, "it came once"


def test_a_range_of_one_number_ends_with_it_and_one_of_none_is_not_there() -> None:
    gaps = Gaps()
    gaps.add(5, 5)
    gaps.add(7, 8)
    assert gaps.fill(7) == 0
    assert gaps.ranges() == [] and len(gaps) == 0


@pytest.mark.parametrize("seed", range(20))
def test_ranges_and_a_set_agree_about_numbers_in_any_order(seed: int) -> None:
    draw = random.Random(seed)
    gaps, missing, highest = Gaps(), dict[int, int](), -1
    for _ in range(2000):
        number = highest + draw.randint(1, 30) if draw.random() < 0.3 else draw.randint(0, highest + 5)
        if number > highest:
            gaps.add(highest + 1, number, number)
            missing |= dict.fromkeys(range(highest + 1, number), number)
            highest = number
        else:
            assert gaps.fill(number) == missing.pop(number, None)
        assert len(gaps) == len(missing)
    assert {number for first, end in gaps.ranges() for number in range(first, end)} == missing.keys()
    assert all(end < first for (_, end), (first, _) in zip(gaps.ranges(), gaps.ranges()[1:], strict=False))
