"""The packet-level model of Swift and HPCC at one port: 1, 2 and 8 flows, beside what their equations say."""

from __future__ import annotations

import math

import pytest

from experiments.congestion._windows import Found, Queue, simulate
from testbed.measures.outcome import jain_index
from testbed.roce.rates import Line, Swift
from testbed.units import Rate, Scale

SCALE = Scale(1000)
LINE = Line(SCALE.lab(Rate("10Gb/s")), SCALE)
MS = 1_000_000_000
"""A millisecond of hardware, in the lab's nanoseconds."""
WIRE = 1106
PARTS = 6


def found(name: str, flows: int, wire_octets: int = WIRE) -> Found:
    model = Queue(LINE, name, 985_000, 400_000, wire_octets, wire_octets - 24)
    return simulate(model, [number * 10_000 for number in range(flows)], PARTS * MS, MS)


def loads(model: Found, wire_octets: int = WIRE) -> list[float]:
    """The line's load in each part, as a share of the line."""
    return [sum(flow.windows[part] for flow in model.flows) * wire_octets * 8 / 1e7 for part in range(PARTS)]


@pytest.mark.parametrize("flows", [1, 2, 8])
def test_flows_of_swift_fill_the_line_evenly_and_their_delay_is_the_target(flows: int) -> None:
    model = found("swift", flows)
    assert min(loads(model)[1:]) > 0.99
    shares = [Rate.from_bps(sum(flow.windows[3:])) for flow in model.flows]
    assert jain_index(shares) > 0.999
    if flows > 1:
        for flow in model.flows:
            assert isinstance(flow.control, Swift)
            assert flow.control.round_trip_lab_ns == pytest.approx(flow.control.target_lab_ns, rel=0.1)
            # N windows are what is under way: the line times the delay.
            under_way = flow.control.target_lab_ns * LINE.rate.bps / (WIRE * 8e9)
            assert flow.control.packets == pytest.approx(under_way / flows, rel=0.25)
    else:
        assert model.longest_queue == 0


@pytest.mark.parametrize("flows", [1, 2, 8])
def test_flows_of_hpcc_keep_the_line_just_below_full_without_a_queue(flows: int) -> None:
    wire = WIRE + 84
    model = found("hpcc", flows, wire)
    # eta of what ports count; windows are whole packets, and eight flows have one or two each
    assert all(0.88 < load < 1.0 for load in loads(model, wire)[2:])
    assert max(model.queues[2:]) <= 8 * wire
    shares = [Rate.from_bps(sum(flow.windows[3:])) for flow in model.flows]
    assert jain_index(shares) > 0.9


def test_without_a_window_the_queue_is_what_eight_lines_bring() -> None:
    model = found("fixed", 8)
    assert model.longest_queue > 1_000_000
    assert math.isclose(loads(model)[-1], 1.0, rel_tol=0.01)
