"""The numbers of figures, by hand: distributions, percentiles by size, means over time, and how values are written."""

from __future__ import annotations

import pytest

from testbed.plot.numbers import MOST_CLASSES, binned, distribution, size_classes, slowdown_by_size, summed
from testbed.plot.quantities import Quantity, wants_log
from testbed.plot.sweeps import scale_of


def test_a_distribution_has_each_value_once() -> None:
    assert distribution([3, 1, 3, 2]) == ([1, 2, 3], [0.25, 0.5, 1.0])
    assert distribution([5]) == ([5], [1.0])


def test_classes_of_sizes_have_about_as_many_flows() -> None:
    assert size_classes(list(range(1, 101))) == [20, 40, 60, 80, 100]
    assert size_classes([7] * 100) == [7]
    assert size_classes([1, 2, 3]) == [3], "a few flows are one class"
    assert len(size_classes(list(range(10_000)))) == MOST_CLASSES
    assert size_classes([1] * 90 + [2] * 10) == [1, 2]


def test_percentiles_by_size_are_those_of_nearest_rank() -> None:
    flows = [(size, float(size)) for size in range(1, 101)] + [(1000, 7.0)]
    small, large = slowdown_by_size(flows, [100, 1000])
    assert (small.upto, small.flows, small.percentiles) == (100, 100, (50.0, 95.0, 99.0))
    assert (large.upto, large.flows, large.percentiles) == (1000, 1, (7.0, 7.0, 7.0))
    assert large.typical == pytest.approx(1000)
    (both,) = slowdown_by_size([(10, 1.0), (1000, 3.0)], [1000])
    assert both.typical == pytest.approx(100), "the geometric mean"


def test_a_mean_over_time_weighs_each_value_by_its_time() -> None:
    # 4 from 1 to 3, then 8 to the end at 4: parts of 2 have 2 = 4/2 and 6 = (4 + 8)/2.
    assert binned([1, 3], [4, 8], 0, 4, 2) == [2.0, 6.0]
    assert binned([-1], [5], 0, 4, 2) == [5.0, 5.0], "a value from before the start"
    assert binned([], [], 0, 4, 2) == [0.0, 0.0]
    assert binned([0, 10], [1, 9], 0, 4, 4) == [1.0] * 4, "a value after the end"


def test_a_sum_of_steps_changes_where_one_of_them_does() -> None:
    assert summed([([0, 2], [1, 0]), ([1, 2], [5, 2])]) == ([0, 1, 2], [1, 6, 2])


@pytest.mark.parametrize(
    ("quantity", "most", "label"),
    [
        (Quantity("time", "ns"), 999, "time (ns)"),
        (Quantity("time", "ns"), 1_500, "time (µs)"),
        (Quantity("time", "ns"), 2_000_000, "time (ms)"),
        (Quantity("time", "ns"), 0, "time (ns)"),
        (Quantity("rate", "b/s"), 4 * 10**10, "rate (Gb/s)"),
        (Quantity("queue", "B"), 120_000, "queue (kB)"),
        (Quantity("shared buffer", "cells"), 4000, "shared buffer (cells)"),
        (Quantity("slowdown"), 4000, "slowdown"),
    ],
)
def test_an_axis_has_the_unit_of_its_range(quantity: Quantity, most: float, label: str) -> None:
    assert quantity.label(most) == label


@pytest.mark.parametrize(
    ("value", "text"), [(1e3, "1 µs"), (5e5, "500 µs"), (1e6, "1 ms"), (200, "200 ns"), (1e9, "1 s"), (2e4, "20 µs")]
)
def test_a_tick_of_a_logarithmic_axis_has_its_unit(value: float, text: str) -> None:
    assert Quantity("time", "ns").written(value) == text


def test_an_axis_is_logarithmic_where_a_linear_one_would_hide_most() -> None:
    assert wants_log([1, 30]) and not wants_log([1, 29]) and not wants_log([0, 100]) and not wants_log([])


@pytest.mark.parametrize(
    ("values", "unit", "places", "has_names"),
    [
        (["1", "2.5"], "", [1, 2.5], False),
        (["10km", "50km"], "m", [10_000, 50_000], False),
        (["1us", "2ms"], "ns", [1_000, 2_000_000], False),
        (["1Gb/s"], "b/s", [10**9], False),
        (["dcqcn", "timely"], "", [0, 1], True),
        (["1", "nan"], "", [0, 1], True),
    ],
)
def test_values_of_a_parameter_stand_where_their_quantity_does(
    values: list[str], unit: str, places: list[float], has_names: bool
) -> None:
    found = scale_of("it", values)
    assert (found.quantity.unit, list(found.places.values()), found.has_names) == (unit, places, has_names)
