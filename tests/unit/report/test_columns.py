"""The columns of tracks: exact columns up to the budget, and envelopes with every extreme beyond it."""

from __future__ import annotations

import random
import zlib
from array import array

from hypothesis import given
from hypothesis import strategies as st

from testbed.report.timeline.columns import BINS, packed
from testbed.report.timeline.tracks import Shape, Track

END_NS = 10**9
times = st.lists(st.integers(0, END_NS), min_size=1, max_size=200).map(sorted)


def track(shape: Shape, t_ns: list[int], values: list[int]) -> Track:
    return Track("panel", "s1-eth1", "priority 3", shape, array("q", t_ns), array("q", values))


def unpacked(stream: bytes, rows: list[int]) -> list[list[int]]:
    """Return the numbers of each column of the stream, by a reader of its own."""
    octets = iter(zlib.decompress(stream, -15))
    columns = []
    for count in rows:
        column = []
        for _ in range(count):
            number = shift = 0
            while (octet := next(octets)) > 127:
                number |= (octet & 127) << shift
                shift += 7
            number |= octet << shift
            column.append(number // 2 if number % 2 == 0 else -(number + 1) // 2)
        columns.append(column)
    assert next(octets, None) is None
    return columns


def sums(differences: list[int]) -> list[int]:
    total, out = 0, []
    for one in differences:
        total += one
        out.append(total)
    return out


@given(times, st.data())
def test_samples_come_back_as_they_were(t_ns: list[int], data: st.DataObject) -> None:
    values = [data.draw(st.integers(-(2**52), 2**52)) for _ in t_ns]
    descriptions, stream = packed([track(Shape.SAMPLES, t_ns, values)], END_NS)
    assert descriptions[0]["rows"] == len(t_ns) and "bin_ns" not in descriptions[0]
    first, second = unpacked(stream, [len(t_ns)] * 2)
    assert (sums(first), sums(second)) == (t_ns, values)


@given(times, st.data())
def test_intervals_come_back_as_starts_and_lengths(t_ns: list[int], data: st.DataObject) -> None:
    ends = [start + data.draw(st.integers(0, 10**6)) for start in t_ns]
    _, stream = packed([track(Shape.INTERVALS, t_ns, ends)], END_NS)
    starts, lengths = unpacked(stream, [len(t_ns)] * 2)
    assert sums(starts) == t_ns
    assert [a + b for a, b in zip(t_ns, lengths, strict=True)] == ends


def test_an_envelope_has_the_extremes_of_each_bin_and_of_the_run() -> None:
    chance = random.Random(1)
    t_ns = sorted(chance.randrange(END_NS) for _ in range(60_000))
    values = [chance.randrange(1000) for _ in t_ns]
    values[41_777] = 10**6  # one peak that a sampling would miss
    (description,), stream = packed([track(Shape.SAMPLES, t_ns, values)], END_NS, budget=70_000)
    width = description["bin_ns"]
    assert width == -(-END_NS // BINS) and description["count"] == 60_000 and len(stream) <= 70_000
    bins, low, high = map(sums, unpacked(stream, [description["rows"]] * 3))
    expected: dict[int, list[int]] = {}
    for at, value in zip(t_ns, values, strict=True):
        expected.setdefault(at // width, []).append(value)
    assert bins == sorted(expected)
    assert low == [min(expected[one]) for one in bins] and high == [max(expected[one]) for one in bins]
    assert max(high) == 10**6


def test_an_envelope_of_intervals_covers_the_same_time_with_the_same_number() -> None:
    chance = random.Random(2)
    starts = [turn * 20_000 + chance.randrange(5000) for turn in range(49_000)]
    ends = [start + chance.randrange(10_000) for start in starts]
    (description,), stream = packed([track(Shape.INTERVALS, starts, ends)], END_NS, budget=60_000)
    _, covered, begun = map(sums, unpacked(stream, [description["rows"]] * 3))
    assert sum(covered) == sum(b - a for a, b in zip(starts, ends, strict=True))
    assert sum(begun) == len(starts)


def test_only_as_many_tracks_become_envelopes_as_the_budget_asks_for() -> None:
    chance = random.Random(3)
    few = track(Shape.SAMPLES, [1, 2, 3], [4, 5, 6])
    t_ns = sorted(chance.randrange(END_NS) for _ in range(60_000))
    many = track(Shape.SAMPLES, t_ns, [chance.randrange(1000) for _ in t_ns])
    descriptions, _ = packed([few, many], END_NS, budget=100_000)
    assert ["bin_ns" in one for one in descriptions] == [False, True]
