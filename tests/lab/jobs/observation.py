"""Flows whose rate controls are sampled, or not."""

from __future__ import annotations

from typing import Any

from xoff import Duration, Flow, Flows, Incast, Roce, RoceReport, Run, experiment, network

CONTROLS = ("dcqcn", "dcqcn-connectx", "timely", "swift")
"""The kernel serves flows of the first and the third, and a process those of the others."""


@experiment(timeout="60s")
def sampled(run: Run, interval: Duration = Duration("0s")) -> None:
    """Two senders to one port, for each rate control; an interval of 0s takes no samples."""
    transport = Roce(sample=interval if interval.ns else None)
    many, fields = 0, dict[str, Any]()
    for control in CONTROLS:
        with network(Incast(2, delay="2500ns"), case=control):
            with Flows(
                [Flow(name, "r", transport=transport, size="300kB", rate_control=control) for name in ("h1", "h2")]
            ) as flows:
                flows.wait()
            reports = flows.reports_of(RoceReport)
            for report in reports:
                run.figure_of_each(f"{control}: completion", report.completion)
                run.figure_of_each(f"{control}: lost, sent again", [report.lost, report.retransmitted])
                many += len(report.samples)
            fields[control] = reports[0].samples[-1:]
    run.figure("samples", many)
    run.figure("last samples", fields)
