"""The model of one bottleneck that the lab is compared with."""

from __future__ import annotations

import pytest

from experiments.congestion._bottleneck import Bottleneck, simulate
from testbed.roce.rates import Line
from testbed.switch.ecn.curve import EcnCurve
from testbed.units import Rate, Scale

LINE = Line(Rate("10Mb/s"), Scale(1000))
SECOND = 10**9


def test_one_flow_fills_the_line_and_is_never_marked() -> None:
    found = simulate(Bottleneck(LINE, EcnCurve.step("40kB")), [0], SECOND, SECOND)
    assert found.rates_bps(1106, SECOND)[0][0] == pytest.approx(10e6, rel=0.002)
    assert (found.flows[0].cnps, found.longest_queue) == (0, 1082)


def test_fixed_rates_share_the_line_and_the_queue_grows_by_what_is_too_much() -> None:
    found = simulate(Bottleneck(LINE, None, "fixed"), [0, 0], SECOND, SECOND)
    assert [sum(flow.windows) for flow in found.flows] == [566, 565], "the first leaves at once"
    assert found.longest_queue == pytest.approx(10e6 / 8 * 1082 / 1106, rel=0.01)


def test_notifications_come_no_closer_than_their_interval_and_stop_the_queue() -> None:
    found = simulate(Bottleneck(LINE, EcnCurve.step("40kB")), [0, 0], 10 * SECOND, SECOND)
    assert all(1 <= flow.cnps <= 10 * 20 for flow in found.flows)
    assert found.longest_queue < 200_000
    assert sum(found.flows[0].windows) == pytest.approx(sum(found.flows[1].windows), rel=0.05)
