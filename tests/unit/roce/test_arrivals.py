"""Flows that arrive at a load, and distributions of sizes that a user brings."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from testbed.units import Duration, Rate, Size
from testbed.workload.arrivals import Pattern, arrivals, read_load
from testbed.workload.sizes import Distribution, Framing, distribution, read_distribution
from testbed.workload.transfers import WorkloadError

HOSTS = [f"h{number}" for number in range(1, 9)]
LINE = Rate("10Gb/s")
WIRE = Framing(payload=1024, beside=82, message=4096, beside_message=16, padded_to=4)
SMALL = Distribution("small", "", (1000, 9000), (0, 100))


@pytest.mark.parametrize(
    ("text", "octets", "percent"),
    [
        ("1000,0\n9000,100\n", (1000, 9000), (0, 100)),
        ("size,percent\n1kB,0\n9kB,100%\n", (1000, 9000), (0, 100)),
        ("# of a trace\n1000 0\n\n5000 0.25  # a quarter\n9000 1\n", (1000, 5000, 9000), (0, 25, 100)),
        ("1000 1 0.5\n9000 1 1\n", (1000, 1000, 9000), (0, 50, 100)),
        ("0;0\n7;100", (0, 7), (0, 100)),
        ("\ufeffsize,percent\r\n0,0\r\n7,100\r\n", (0, 7), (0, 100)),
    ],
    ids=["percent", "units and a head", "parts and remarks", "half have the first size", "semicolons", "Excel's mark"],
)
def test_a_table_of_sizes(text: str, octets: tuple[int, ...], percent: tuple[float, ...]) -> None:
    found = read_distribution(text, "mine.csv")
    assert (found.octets, found.percent, found.name) == (octets, percent, "mine.csv")


def test_a_first_part_above_zero_are_flows_of_that_size() -> None:
    found = read_distribution("1000,50\n9000,100", "mine.csv")
    assert [found.at(part).bytes for part in (0.1, 0.5, 0.75, 1)] == [1000, 1000, 5000, 9000]
    assert found.mean == Size("3kB")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1000,0\n2000,60\n3000,50\n9000,100", "mine.csv, line 3: the part falls from 60 to 50"),
        ("2000,0\n1000,100", "mine.csv, line 2: the size falls from 2000 to 1000"),
        ("1000,0\n9000,97", "mine.csv, line 2: the last part is 97; it is 100 percent, or 1, of all flows"),
        ("1000,100", "mine.csv has 1 rows; a distribution has two at the least, as in 1000,0 and 9000,100"),
        ("1000,0\n9000", "mine.csv, line 2: a size and a percentage are expected, and not '9000'"),
        ("1000,0\n9000,much", "mine.csv, line 2: 'much' is not a percentage, such as 35 or 0.35"),
        ("1000,0\nnine,100", "mine.csv, line 2: 'nine' is not a size, such as 10000 or 10kB"),
        ("1000,0\n9000,101", "mine.csv, line 2: 9000 101: parts are 0 to 100, and sizes up to 1TB"),
        ("1000,0\n9000,nan", "mine.csv, line 2: 9000 nan: parts are 0 to 100, and sizes up to 1TB"),
    ],
)
def test_a_table_that_is_no_distribution_is_refused_by_its_line(text: str, message: str) -> None:
    with pytest.raises(WorkloadError) as caught:
        read_distribution(text, "mine.csv")
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("text", "part"), [("50%", 0.5), ("50", 0.5), ("0.5%", 0.005), ("100%", 1.0), ("12.5%", 0.125)]
)
def test_a_load_is_a_percentage(text: str, part: float) -> None:
    assert read_load(text) == pytest.approx(part)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0%", "it is above 0% and at most 100%"),
        ("101%", "it is above 0% and at most 100%"),
        ("0.5", "write 50% or 0.5%, whichever is meant"),
        ("1", "write 100% or 1%, whichever is meant"),
        ("half", "a percentage of the line is expected, such as 50%"),
        ("-5%", "a percentage of the line is expected, such as 50%"),
    ],
)
def test_a_load_that_cannot_be_is_refused(text: str, message: str) -> None:
    with pytest.raises(WorkloadError, match="load is") as caught:
        read_load(text)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("octets", "on_wire"),
    [
        (1, 4 + 98),
        (1024, 1024 + 98),
        (1025, 1028 + 98 + 82),
        (4096, 4096 + 98 + 3 * 82),
        (4097, 4100 + 2 * 98 + 3 * 82),
    ],
)
def test_data_has_headers_and_padding_on_the_wire(octets: int, on_wire: int) -> None:
    assert WIRE.on_wire(Size.from_bytes(octets)).bytes == on_wire


@pytest.mark.parametrize("octets", [(0, 5), (99, 100), (1000, 9000), (5, 5, 9000)])
def test_the_mean_on_the_wire_is_that_of_all_sizes(octets: tuple[int, ...]) -> None:
    sizes = Distribution("", "", octets, (0, 100) if len(octets) == 2 else (0, 50, 100))
    halves = []
    for low, high in pairwise(octets):
        every = [WIRE.on_wire(Size.from_bytes(one)).bytes for one in range(max(1, low), high + 1)]
        halves.append(sum(every) / len(every))
    assert WIRE.mean(sizes) == pytest.approx(sum(halves) / len(halves))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["random", "permutation", "incast:4", "all-to-all"])
def test_flows_arrive_at_the_load(name: str) -> None:
    """Over a long time the lines carry the load: the target's of an incast, else those of all hosts."""
    pattern, lasts = Pattern.parse(name), Duration("200ms")
    found = arrivals(HOSTS, pattern, SMALL, load=0.4, line=LINE, framing=WIRE, dice=random.Random(1), lasts=lasts)
    lines = 1 if name == "incast:4" else len(HOSTS)
    offered = sum(WIRE.on_wire(one.size).bits for one in found) / (float(lasts.ps) / 1e12 * LINE.bps * lines)
    assert offered == pytest.approx(0.4, rel=0.03)
    assert all(one.source != one.target and one.start < lasts for one in found)


def test_who_sends_to_whom() -> None:
    def pairs(name: str, count: int) -> list[tuple[str, str]]:
        found = arrivals(
            HOSTS, Pattern.parse(name), SMALL, load=0.5, line=LINE, framing=WIRE, dice=random.Random(1), count=count
        )
        assert len(found) == count and found[0].start == Duration("0s")
        return [(one.source, one.target) for one in found]

    assert pairs("incast:3", 6) == [(f"h{number}", "h8") for number in (1, 2, 3)] * 2
    (first, *_), seven = {source for source, _ in pairs("all-to-all", 7)}, pairs("all-to-all", 7)
    assert {target for _, target in seven} == {*HOSTS} - {first}
    partners = dict(pairs("permutation", 400))
    assert len(partners) == 8 and set(partners) == set(partners.values())
    assert len(set(pairs("random", 400))) == 56


def test_one_seed_gives_one_workload() -> None:
    one, same, other = (
        arrivals(
            HOSTS,
            Pattern.parse("random"),
            distribution("hadoop"),
            load=0.5,
            line=LINE,
            framing=WIRE,
            dice=random.Random(seed),
            count=20,
        )
        for seed in (1, 1, 2)
    )
    assert one == same != other
