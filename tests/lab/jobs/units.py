"""One network at a scale, with all logs that have times and rates."""

from __future__ import annotations

from testbed.net.watch import series
from xoff import Duration, Flow, Flows, Incast, Roce, RoceReport, Run, Scale, experiment, network


@experiment(timeout="60s")
def logs(run: Run, scale: int = 1000) -> None:
    """RoCE and UDP flows, DCBX on all ports, and a series of samples."""
    with network(Incast(2, delay="2500ns", scale=Scale(scale), dcbx=True)) as net:
        sampled = Roce(sample=Duration("5us"))
        with Flows(
            [
                Flow("h1", "r", 3, transport=sampled, size="300kB", rate_control="swift"),
                Flow("h2", "r", 3, count=200, rate="2Gb/s"),
            ]
        ) as flows:
            flows.wait()
        series.flows(run, flows.reports_of(RoceReport))
        run.published("goodput", flows.reports[1].goodput, value=flows.reports[1].goodput, source="itself")
        run.figure("cables", len(net.links))
