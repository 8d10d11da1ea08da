"""Lesson 3: ECN and DCQCN. The solution."""

from xoff import (
    Buffer,
    Duration,
    EcnCurve,
    Flow,
    Incast,
    Port,
    Roce,
    RoceReport,
    Run,
    Static,
    experiment,
    network,
    steady_rates,
)

# ---- Your part -------------------------------------------------------------------------------------------------------

KMIN, KMAX, PMAX = "40kB", "160kB", "20%"
"""Step 1: the marking curve of the switch's ports."""

RATE_CONTROL = "dcqcn"
"""Step 2: how a sender answers a CNP; "fixed" does not."""

XOFF = 800
"""Step 3: the XOFF threshold of each port, in cells of 208 octets."""


# ---- Keep this part --------------------------------------------------------------------------------------------------


@experiment(timeout="120s")
def congestion(run: Run) -> None:
    """Four RoCE flows into one port: with PFC alone, and as you set it."""
    _run(run, "PFC alone", None, "fixed", 800)
    _run(run, "yours", EcnCurve(KMIN, KMAX, PMAX), RATE_CONTROL, XOFF)


def _run(run: Run, case: str, curve: object, rate_control: str, xoff: int) -> None:
    hosts = [f"h{number}" for number in range(1, 5)]
    marks = Port(ecn={3: curve}) if curve else Port()  # type: ignore[dict-item]
    buffer = Buffer(total=6000, xoff=Static(xoff), xon_offset=16)
    with network(Incast(4, port=marks, buffer=buffer, hopts={"port": Port()}), case=case) as net:
        wanted = [
            Flow(
                host,
                "r",
                transport=Roce(sample=Duration("10us")),
                duration="6ms",
                rate_control=rate_control,
            )
            for host in hosts
        ]
        flows = net.run(*wanted)
        pauses = sum(net.fabric.group(f"s1-eth{number}", 3).xoffs for number in range(1, 5))
    reports = flows.reports_of(RoceReport)
    run.figure(f"{case}: pauses", pauses)
    run.figure(f"{case}: packets received", sum(report.received for report in reports))
    run.figure(f"{case}: marked packets", sum(report.marked for report in reports))
    run.figure(f"{case}: CNPs received, by host", [report.cnps_received for report in reports])
    run.figure(f"{case}: goodput in the second half, by host", steady_rates(reports, "3ms", "2500us"))
    run.figure(f"{case}: lost or sent twice", sum(report.lost + report.retransmitted for report in reports))
