"""Ticks stand at round values, with one unit and no digit too many, and no number has an exponent."""

from __future__ import annotations

import pytest

from testbed.report.pages.axes import linear, logarithmic, short, ticks


@pytest.mark.parametrize(
    ("low", "high", "count", "found"),
    [
        (0, 10, 5, (0, 2, 4, 6, 8, 10)),
        (0, 0.9, 4, (0, 0.5)),
        (875, 2620, 4, (1000, 1500, 2000, 2500)),
        (-3, 3, 3, (-2, 0, 2)),
        (5, 5, 4, (5,)),
        (0, float("inf"), 4, (0,)),
    ],
)
def test_ticks_are_multiples_of_1_2_or_5(low: float, high: float, count: int, found: tuple[float, ...]) -> None:
    assert ticks(low, high, count) == pytest.approx(found)


def test_an_axis_has_one_unit_and_the_digits_of_its_steps() -> None:
    assert linear(0, 2.62e6, "ns", 6).texts == ("0.0", "0.5", "1.0", "1.5", "2.0", "2.5")
    assert linear(0, 2.62e6, "ns", 5).unit == "ms"
    rates = linear(0, 9.9e9, "b/s", 5)
    assert (rates.unit, rates.texts, rates.values[1]) == ("Gb/s", ("0", "2", "4", "6", "8"), 2e9)
    assert linear(0, 0.05, "", 5).texts == ("0.00", "0.01", "0.02", "0.03", "0.04", "0.05")
    assert linear(0, 1200, "cells", 3).texts == ("0", "500", "1,000")


def test_a_logarithmic_axis_has_powers_of_ten_or_parts_of_few() -> None:
    assert logarithmic(300, 2e7, "ns").texts == ("1 us", "10 us", "100 us", "1 ms", "10 ms")
    assert logarithmic(900, 6000, "B").texts == ("1 kB", "2 kB", "5 kB")
    assert logarithmic(1, 12, "").texts == ("1", "2", "5", "10")


@pytest.mark.parametrize(
    ("value", "unit", "words"),
    [
        (0, "ns", "0 ns"),
        (1234567, "ns", "1.23 ms"),
        (0.00001234, "", "0.0000123"),
        (123456789, "", "123,456,789"),
        (10_000_135_000, "b/s", "10 Gb/s"),
        (999.6, "B", "1,000 B"),
        (float("nan"), "", "nan"),
    ],
)
def test_short_values_have_no_exponent(value: float, unit: str, words: str) -> None:
    assert short(value, unit) == words
