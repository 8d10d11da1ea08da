"""Measures of flows: rates over the same part of the time, and how fair they are."""

from __future__ import annotations

import pytest

from testbed.measures.outcome import jain_index, percentages, steady_rates, total_rate
from testbed.net.traffic import WINDOW_NS, Report
from testbed.units import Rate, Size

FRAME = Size("1226B")  # 10 kbit on the wire
MS = 10**6


def report(first_ms: int, *windows: int) -> Report:
    frames = sum(windows)
    last_ns = first_ms * MS + len(windows) * WINDOW_NS
    return Report(frames, frames, 0, 0, 0, (), frames * FRAME.bytes, first_ms * MS, last_ns, 0, windows)


def test_rates_are_steady_from_the_first_frame_of_all_on() -> None:
    reports = [report(100, 9, 1, 1), report(110, 2, 2)]
    assert steady_rates(reports, "10ms", "20ms") == [Rate("1Mb/s"), Rate("2Mb/s")]


def test_the_rate_of_all_begins_when_the_first_frame_has_arrived() -> None:
    assert total_rate([report(0, 6, 5), report(0, 5, 5)]) == Rate("10Mb/s")


@pytest.mark.parametrize(
    ("rates", "index"),
    [((4, 4, 4, 4), 1.0), ((4, 0, 0, 0), 0.25), ((1, 3), 0.8), ((0, 0), 0.0)],
)
def test_jains_index_is_between_one_for_equal_rates_and_a_part_for_one_alone(
    rates: tuple[int, ...], index: float
) -> None:
    assert jain_index([Rate.from_bps(rate) for rate in rates]) == index


def test_percentages_are_parts_of_the_sum() -> None:
    assert percentages([Rate("1Mb/s"), Rate("3Mb/s")]) == [25.0, 75.0]
    assert percentages([Rate.from_bps(0)]) == [0.0]
