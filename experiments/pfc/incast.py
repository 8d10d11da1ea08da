"""Two into one: with PFC nothing is lost and the bottleneck is full, without PFC frames are lost."""

from typing import Annotated

from xoff import (
    Between,
    Flow,
    FrameCounts,
    Incast,
    Port,
    Rate,
    Report,
    Run,
    Size,
    experiment,
    network,
    total_rate,
)

LINE = Rate("10Gb/s")
FRAME = Size("1514B")
CELLS = 1500
PRIORITY = 3


@experiment(timeout="60s")
def incast(
    run: Run, senders: Annotated[int, Between(2, 16)] = 2, frames: Annotated[int, Between(200, 2000)] = 600
) -> None:
    """Two into one: with PFC the port is busy all the time and nothing is lost, without PFC much is.

    With PFC every frame arrives, once and in order. Senders, receiver and the kernel's counters of all ports have the
    same number of frames. Without PFC, the control case, what does not fit the switch's buffer is lost.
    """
    reports = _overload(run, "with PFC", Port(), senders, frames)
    for number, report in enumerate(reports, 1):
        counted = {"sent": report.sent, "received": report.received, "doubled": report.doubled}
        run.claim(f"with PFC: h{number}", counted, equals={"sent": frames, "received": frames, "doubled": 0})
        run.claim(f"with PFC: h{number}, out of order", report.out_of_order, equals=0)

    reports = _overload(run, "without PFC", Port().without_pfc(), senders, frames)
    sent, lost = (sum(getattr(report, name) for report in reports) for name in ("sent", "lost"))
    # While all send at line rate the port takes one of n frames, and the buffer what n groups of alpha 1 may hold.
    due = sent * (senders - 1) // senders - CELLS // 8 * senders // (senders + 1)
    run.claim("without PFC: lost", lost, at_least=due * 95 // 100, at_most=due * 105 // 100)


def _overload(run: Run, case: str, port: Port, senders: int, frames: int) -> list[Report]:
    with network(Incast(n=senders, port=port, total=CELLS), case=case) as net:
        *hosts, target = net.hosts
        traffic = FrameCounts(net, FRAME)
        flows = net.run(*(Flow(host, target, PRIORITY, FRAME, count=frames) for host in hosts))
        inwards, outwards = traffic.count()
        reports = flows.reports
        dropped = net.fabric.dropped()
        pauses = [net.fabric.pfc(f"{host.name}-eth0", PRIORITY)["xoff_received"] for host in hosts]
    sent, received, lost = (sum(getattr(report, name) for report in reports) for name in ("sent", "received", "lost"))
    left = sum(outwards[f"{host.name}-eth0"] for host in hosts)
    bottleneck = f"s1-eth{senders + 1}"
    run.figure(f"{case}: frames sent, received, lost", [sent, received, lost])
    run.figure(f"{case}: pauses of each sender", pauses)
    run.claim(f"{case}: frames that left the senders' ports", left, equals=sent)
    run.claim(f"{case}: frames that entered the switch", sum(inwards.values()) - inwards["r-eth0"], equals=sent)
    run.claim(f"{case}: frames that left the switch", outwards[bottleneck], equals=sent - lost)
    run.claim(f"{case}: frames that entered the receiver's port", inwards["r-eth0"], equals=received)
    run.claim(f"{case}: frames dropped, by the switch's counters", dropped, equals=lost)
    run.claim(f"{case}: goodput", total_rate(reports), at_least=LINE * 99 // 100, at_most=LINE * 1001 // 1000)
    run.claim(f"{case}: pauses", sum(pauses), **({"at_least": senders} if port.pfc.enabled else {"equals": 0}))
    return reports
