"""A workload's transfers as RoCE flows, and the completion times of what came of them. Only the lab can run them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from testbed.net.traffic.flow import Flow
from testbed.net.traffic.report import Report
from testbed.net.traffic.roce import Roce
from testbed.units import Duration
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
            start=Duration.from_ns(one.start_ns),
            **options,
        )
        for one in transfers
    ]


def completions(transfers: Sequence[Transfer], reports: Sequence[Report]) -> list[Completion]:
    """Of each transfer: from its start to the arrival of its last packet."""
    return [Completion(one.size, report.completion) for one, report in zip(transfers, reports, strict=True)]


def completion(reports: Sequence[Report]) -> Duration:
    """Of all together: from the first start to the last arrival, which is that of a collective."""
    begin_ns = min(report.begin_ns for report in reports)
    return Duration.from_ns(max(report.last_ns for report in reports) - begin_ns)
