"""A workload's transfers as RoCE flows, and what came of them together. Only the lab can run them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from testbed.net.traffic.flow import Flow
from testbed.net.traffic.report import WINDOW_NS, Report
from testbed.net.traffic.roce import Roce
from testbed.units import Duration, Rate, Scale, Size
from testbed.workload.statistics import Completion
from testbed.workload.transfers import Transfer


def flows(transfers: Sequence[Transfer], transport: Roce | None = None, first: int = 0, **options: Any) -> list[Flow]:
    """A flow for each transfer; `options` are those of `Flow`, such as priority and rate_control.

    `first` is the place of the first of them among all flows that run together.
    """
    settings = transport or Roce()
    return [
        Flow(
            one.source,
            one.target,
            transport=replace(
                settings,
                message=one.block or settings.message,
                after=tuple(first + place for place in one.after),
                lag=one.lag,
            ),
            size=one.size,
            start=one.start,
            **options,
        )
        for one in transfers
    ]


def completions(transfers: Sequence[Transfer], reports: Sequence[Report]) -> list[Completion]:
    """Return the completion time of each transfer, from its start to the arrival of its last packet."""
    return [Completion(one.size, report.completion) for one, report in zip(transfers, reports, strict=True)]


def completion(reports: Sequence[Report]) -> Duration:
    """Return the time from the first start to the last arrival, which is a collective's completion time."""
    begin_ns = min(report.begin_lab_ns for report in reports)
    took = Duration.from_ns(max(report.last_lab_ns for report in reports) - begin_ns)
    return reports[0].scale.nearest_real(took)


def goodput(reports: Sequence[Report]) -> list[Rate]:
    """Return the rate of all flows together in each 10 ms of the lab from the first packet on.

    The windows of a flow begin with its first packet; each counts where it begins.
    """
    came = [report for report in reports if report.received]
    begin_ns = min((report.first_lab_ns for report in came), default=0)
    bits: Counter[int] = Counter()
    for report in came:
        first = (report.first_lab_ns - begin_ns) // WINDOW_NS
        for place, packets in enumerate(report.windows):
            bits[first + place] += packets * report.wire_bits
    scale = reports[0].scale if reports else Scale(1)
    windows = range(max(bits, default=-1) + 1)
    return [scale.real(Rate.from_bps(bits[place] * 10**9 // WINDOW_NS)) for place in windows]


def by_source(transfers: Sequence[Transfer], reports: Sequence[Report]) -> dict[str, Size]:
    """Return the octets of frames that arrived from each source."""
    found: Counter[str] = Counter()
    for one, report in zip(transfers, reports, strict=True):
        found[one.source] += report.octets
    return {source: Size.from_bytes(octets) for source, octets in found.items()}
