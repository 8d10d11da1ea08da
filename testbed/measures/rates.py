"""Rates that flows got over the same part of the time, alone and together, and how fair they are."""

from __future__ import annotations

from collections.abc import Sequence

from testbed.net.traffic.report import WIRE_OCTETS, Report
from testbed.units import Duration, Rate


def steady_rates(reports: Sequence[Report], settled: Duration | str, lasts: Duration | str) -> list[Rate]:
    """Return the goodput of each flow over the same time.

    The time begins `settled` after the first frame of all has arrived, and is `lasts` long.
    """
    first = min((report for report in reports if report.received), key=lambda report: report.first_lab_ns)
    begin_lab_ns = first.first_lab_ns + first.scale.lab(Duration(settled)).ns
    end_lab_ns = begin_lab_ns + first.scale.lab(Duration(lasts)).ns
    return [report.goodput_between(begin_lab_ns, end_lab_ns) for report in reports]


def total_rate(reports: Sequence[Report]) -> Rate:
    """Return the rate of all flows together on the wire, from the first frame that arrived to the last."""
    span_ns = max(report.last_lab_ns for report in reports) - min(report.first_lab_ns for report in reports)
    octets = sum(report.octets + WIRE_OCTETS * report.received for report in reports)
    one = reports[0].octets // max(1, reports[0].received) + WIRE_OCTETS
    rate = Rate.from_bps((octets - one) * 8 * 10**9 // span_ns)  # the time begins when the first has arrived
    return reports[0].scale.real(rate)


def jain_index(rates: Sequence[Rate]) -> float:
    """Return Jain's fairness index: 1 if all rates are the same, 1/n if one of n has everything."""
    values = [rate.bps for rate in rates]
    squares = len(values) * sum(value * value for value in values)
    return round(sum(values) ** 2 / squares, 4) if squares else 0.0


def percentages(rates: Sequence[Rate]) -> list[float]:
    """Return the part that each rate is of their sum, in percent."""
    total = sum(rate.bps for rate in rates)
    return [round(100 * rate.bps / total, 2) if total else 0.0 for rate in rates]
