"""How long flows are expected to take in the lab, and how many frames pass how many switches."""

from __future__ import annotations

from dataclasses import replace

import pytest

from testbed.net.traffic import Flow
from testbed.net.traffic.demand import Asked, asked_of, demand
from testbed.net.traffic.roce import Roce
from testbed.units import Size

LINE = 10_000_000
BITS = 10_000
"""A frame takes a line for 1 ms."""
MS = 1_000_000


def asked(source: int, frames: int | None = None, **others: object) -> Asked:
    """A flow from one of the hosts through two switches to one target."""
    way = ((f"h{source}", LINE), ("s1", LINE), ("s2", LINE))
    return replace(Asked("udp", frames, BITS, None, 0, None, way), **others)  # type: ignore[arg-type]


def test_one_flow_takes_its_line() -> None:
    found = demand(7, [asked(1, 50)])
    assert found is not None
    assert (found.begin_ns, found.lab_ns, found.end_ns) == (7, 50 * MS, 50 * MS + 7)
    assert (found.frames, found.hops) == ({"udp": 50}, {"udp": 100})


def test_flows_that_share_a_port_wait_for_each_other() -> None:
    found = demand(0, [asked(1, 50), asked(2, 30)])
    assert found is not None
    assert (found.lab_ns, found.frames) == (80 * MS, {"udp": 80})


def test_a_slow_flow_takes_as_long_as_its_rate_wants() -> None:
    found = demand(0, [asked(1, 50, rate_bps=LINE // 10)])
    assert found is not None
    assert found.lab_ns == 500 * MS


def test_a_flow_for_a_time_sends_what_its_part_of_the_bottleneck_takes() -> None:
    found = demand(0, [asked(1, duration_ns=100 * MS), asked(2, duration_ns=100 * MS, transport="roce")])
    assert found is not None
    assert (found.lab_ns, found.frames) == (100 * MS, {"udp": 50, "roce": 50})
    assert found.flows == {"udp": 1, "roce": 1}


def test_what_comes_first_ends_a_flow() -> None:
    for frames, lab_ms in ((5, 5), (500, 100)):
        found = demand(0, [asked(1, frames, duration_ns=100 * MS)])
        assert found is not None
        assert (found.lab_ns, found.frames["udp"]) == (lab_ms * MS, min(frames, 100))


def test_a_later_start_counts() -> None:
    found = demand(0, [asked(1, 10), asked(2, 10, start_ns=200 * MS)])
    assert found is not None
    assert found.lab_ns == 210 * MS


@pytest.mark.parametrize("flows", [[], [asked(1)], [asked(1, 5), asked(2)], [asked(1, 5, way=())]])
def test_flows_without_an_end_or_a_way_have_no_forecast(flows: list[Asked]) -> None:
    assert demand(0, flows) is None


@pytest.mark.parametrize(
    ("flow", "frames", "octets"),
    [
        (Flow("h1", "h2"), None, 1514),
        (Flow("h1", "h2", duration="1s"), None, 1514),
        (Flow("h1", "h2", count=7), 7, 1514),
        (Flow("h1", "h2", size="1473B"), 2, 1514),
        (Flow("h1", "h2", size="100kB", count=3, frame="60B"), 3, 60),
        (Flow("h1", "h2", transport="tcp", size="2944B"), 2, 1514),
        (Flow("h1", "h2", transport="roce", count=2), 2 * 63, 1098),
        (Flow("h1", "h2", transport=Roce(message=Size("100B")), size="1kB"), 10, 174),
        (Flow("h1", "h2", transport="roce", size="2049B"), 3, 1098),
    ],
)
def test_transports_know_how_many_frames_end_a_flow(flow: Flow, frames: int | None, octets: int) -> None:
    found = asked_of(flow, [])
    assert (found.frames, found.frame_bits) == (frames, 8 * (octets + 24))
