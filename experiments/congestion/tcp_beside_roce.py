"""TCP and RoCE on the same links: apart in priorities of their own, and together in one."""

from dataclasses import replace
from typing import Any

from xoff import (
    DCQCN_PAPER,
    ROCE_PRIORITY,
    Dcqcn,
    Duration,
    EcnCurve,
    Flow,
    Incast,
    Line,
    Port,
    Rate,
    RoceReport,
    Run,
    Size,
    TcpReport,
    experiment,
    network,
    steady_rates,
)

LINE = Rate("10Gb/s")
LASTS, SETTLED, STEADY = Duration("4ms"), Duration("2ms"), Duration("1900us")
STEP = Rate("200Mb/s")
"""DCQCN's additive increase, in place of 40 Mb/s: a few seconds are enough for the shares to show."""
LOSSY = 0
BUFFER = Size("16kB")
"""The buffers of TCP's sockets; small, because what is in them when the time is up has to drain first."""


@experiment(timeout="120s")
def tcp_beside_roce(run: Run) -> None:
    """A TCP connection by iperf3 and a RoCE flow with DCQCN share a port that marks from 10 kB of queue on.

    In a priority of its own, without PFC and without marks, TCP with cubic loses segments where its queue ends, and
    RoCE keeps half of the line, which are its shares. In RoCE's priority it gets drops in place of marks, because its
    segments are not ECT; with DCTCP they are, and nothing is lost. Together with RoCE in one queue TCP lets it have
    what its own control leaves. In the control case RoCE is alone. RoCE loses nothing in any case.
    """
    (alone,) = _run(run, "RoCE alone", None, 0)
    run.claim("RoCE alone: goodput", alone, at_least=LINE * 85 // 100)
    for control in ("cubic", "dctcp"):
        case = f"{control} in a priority of its own"
        roce, tcp = _run(run, case, control, LOSSY)
        run.claim(f"{case}: goodput of RoCE", roce, at_least=LINE * 40 // 100, at_most=LINE * 60 // 100)
        run.claim(f"{case}: goodput of TCP", tcp.goodput, at_least=LINE * 35 // 100)
    case = "cubic in RoCE's priority"
    roce, tcp = _run(run, case, "cubic", 3)
    run.claim(f"{case}: segments sent again", tcp.retransmits, at_least=1)
    case = "dctcp in RoCE's priority"
    roce, tcp = _run(run, case, "dctcp", 3)
    run.claim(f"{case}: segments sent again", tcp.retransmits, equals=0)
    run.claim(f"{case}: goodput of TCP", tcp.goodput, at_least=LINE // 10)


def _dcqcn(line: Line) -> Dcqcn:
    return Dcqcn(line, replace(DCQCN_PAPER, additive_increase=STEP))


def _run(run: Run, case: str, control: str | None, priority: int) -> Any:
    curve = EcnCurve("10kB", "40kB", "20%")
    topology = Incast(
        n=2,
        port=Port(ecn={ROCE_PRIORITY: curve}),
        hopts={"port": Port()},
        total=6000,
        xoff=1600,
        xon_offset=16,
    )
    flows = [Flow("h1", "r", ROCE_PRIORITY, transport="roce", duration=LASTS, rate_control=_dcqcn)]
    if control:
        flows.append(Flow("h2", "r", priority, transport="tcp", duration=LASTS, rate_control=control, buffer=BUFFER))
    with network(topology, case=case) as net:
        running = net.run(*flows)
        queues = net.fabric.sent("s1-eth3").most_queued_bytes
        losses = net.fabric.losses()
    (roce,) = running.reports_of(RoceReport)
    tcp = running.reports_of(TcpReport)
    goodput = steady_rates([roce], SETTLED, STEADY)[0]
    run.figure(f"{case}: goodput of RoCE", goodput)
    run.figure(
        f"{case}: longest queue of RoCE's priority, and of the lossy one", [queues[ROCE_PRIORITY], queues[LOSSY]]
    )
    run.figure(f"{case}: CNPs", roce.cnps_received)
    run.claim(f"{case}: RoCE packets lost or sent twice", roce.lost + roce.retransmitted, equals=0)
    run.claim(f"{case}: every octet as it was sent", roce.intact, equals=True)
    for report in tcp:
        run.figure(f"{case}: goodput of TCP", report.goodput)
        run.figure(f"{case}: segments sent again", report.retransmits)
        run.figure(f"{case}: frames dropped, by reason", losses)
    return goodput, *tcp
