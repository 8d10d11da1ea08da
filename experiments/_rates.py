"""What flows got: goodput over the same part of the time, alone or together, and how fair it is. Not an experiment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from testbed.units import Duration, Rate, Size

if TYPE_CHECKING:  # only the lab can import it
    from testbed.net.traffic import Report

WIRE = Size("24B")
"""What a frame takes on a line beyond header and payload: preamble, FCS and gap."""


def steady(reports: Sequence[Report], settled: Duration, lasts: Duration) -> list[Rate]:
    """The goodput of each flow over the same time, which begins when the first frame of all has come and is settled."""
    begin_ns = min(report.first_ns for report in reports if report.received) + settled.ns
    return [report.goodput_over(begin_ns, lasts) for report in reports]


def together(reports: Sequence[Report]) -> Rate:
    """Bits on the wire of all flows, from the first frame that arrived to the last."""
    span_ns = max(report.last_ns for report in reports) - min(report.first_ns for report in reports)
    octets = sum(report.octets + WIRE.bytes * report.received for report in reports)
    one = reports[0].octets // max(1, reports[0].received) + WIRE.bytes
    return Rate.from_bps((octets - one) * 8 * 10**9 // span_ns)  # the time begins when the first has arrived


def jain(rates: Sequence[Rate]) -> float:
    """Jain's index: 1 if all get the same, 1/n if one gets everything."""
    values = [rate.bps for rate in rates]
    squares = len(values) * sum(value * value for value in values)
    return round(sum(values) ** 2 / squares, 4) if squares else 0.0
