"""Measures of flows: rates over the same part of the time, and how fair they are."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import pytest

from testbed.measures.outcome import jain_index, percentages, steady_rates, total_rate
from testbed.measures.random_flows import FRAMING, FlowCompletion, flow_completions, flow_sizes, random_flows
from testbed.net.traffic import WINDOW_NS, Report
from testbed.net.traffic.roce import Roce
from testbed.units import Duration, Rate, Size
from testbed.workload.transfers import WorkloadError
from tests import pages
from topologies.fat_tree import FatTree

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


TABLE = "2kB,50\n10kB,90\n100kB,100"


@pytest.mark.slow
def test_random_flows_load_the_lines_of_a_topology_on_the_wire() -> None:
    topology, lasts = FatTree(4, rate="25Gb/s"), Duration("20ms")
    flows = random_flows(topology, TABLE, "40%", dice=random.Random(1), lasts=lasts, priority=4)
    octets = sum(FRAMING.on_wire(flow.size).bytes for flow in flows if flow.size)
    assert octets * 8 / (Rate("25Gb/s").bits_in(lasts) * len(topology.hosts())) == pytest.approx(0.4, rel=0.02)
    assert {flow.source for flow in flows} == set(topology.hosts()) and {flow.priority for flow in flows} == {4}
    assert flows == random_flows(topology, flow_sizes(TABLE), "40%", dice=random.Random(1), lasts="20ms", priority=4)
    short = Roce(message=Size("256B"))  # more headers take more of the line
    assert len(random_flows(topology, TABLE, "40%", dice=random.Random(1), lasts=lasts, transport=short)) < len(flows)
    incast = random_flows(topology, "hadoop", "40%", dice=random.Random(1), count=30, pattern="incast:3")
    assert len(incast) == 30 and {flow.target for flow in incast} == {topology.hosts()[-1]}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "count is 0 and lasts None; give one of the two"),
        ({"count": 3, "lasts": "1ms"}, "count is 3 and lasts 1ms; give one of the two"),
        ({"count": 3, "pattern": "incast:16"}, "incast:16 needs 17 hosts, and FatTree has 16"),
        ({"count": 3, "load": "0.5"}, "load is 0.5; write 50% or 0.5%, whichever is meant"),
    ],
)
def test_a_load_that_cannot_be_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(WorkloadError, match=message):
        random_flows(FatTree(4), TABLE, dice=random.Random(1), **{"load": "50%"} | options)


def test_completions_are_of_flows_that_ended_and_have_their_slowdown() -> None:
    row = {"source": "h1", "target": "h2", "size_bytes": 2000, "completion_ns": 3000, "best_ns": 1500}
    ended: Any = SimpleNamespace(log=[row, row | {"completion_ns": None}, row | {"best_ns": None}])
    assert flow_completions(ended) == [FlowCompletion("h1", "h2", Size("2kB"), Duration("3us"), 2.0)]


def test_own_sizes_over_an_own_fat_tree_are_twelve_lines() -> None:
    """Its page's block, which another test runs in the lab."""
    (text,) = (one.text for one in pages.blocks() if one.page == "docs/workloads.md" and "random_flows" in one.text)
    lines = [line for line in text.splitlines() if line.strip()]
    assert len(lines) <= 12 and [line for line in lines if "import" in line] == [lines[0]]
