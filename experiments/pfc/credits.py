"""Credits beside PFC: an incast of eight to one, and a flow that shares a cable with half of it."""

from typing import Annotated, NamedTuple

from testbed.measures.standstill import hops, longest_on_the_way, stood_still
from xoff import Between, Dumbbell, Duration, Flow, Port, Rate, Run, experiment, network, steady_rates

OFFERED, FAR = Rate("4Gb/s"), Rate("1250Mb/s")
LASTS = Duration("2ms")
SETTLED, STEADY = Duration("500us"), Duration("1400us")
CONGESTED, APART = 3, 4


class Outcome(NamedTuple):
    goodput: Rate
    """The goodput of the victim."""
    lost: int
    """Datagrams that all flows lost together."""
    cells: int
    """The most cells that frames from the shared cable took of the buffer, of the congested priority."""
    pauses: int
    """PFC frames that s2 sent to s1."""
    hops: int
    """Cables in a row, back from s2, whose senders stood still, paused or without credits."""
    blocked: Duration
    """The time for which a port on the victim's way stood still in its priority: its head-of-line blocking."""
    stalls: int
    """The times that a frame at s1 had the shared cable and no credits."""


@experiment(timeout="60s")
def credits(run: Run, delay: Annotated[Duration, Between("100ns", "1us")] = Duration("500ns")) -> None:
    """Eight to one with credits (CBFC) and with PFC: neither loses a frame, and credits take less of the buffer.

    h1, h3, h4 and h5 send to r1 over the cable s1-s2, and r2 to r5 beside it. h2 sends to r6, whose port is idle, over
    the same cable. With PFC s2 pauses s1 when its threshold is passed; with credits s1 sends no frame for which s2 has
    no cell, and s2 never holds more than the cells of its credits. Both stop the flow of h2 with the others: that is of
    one priority for all, not of how it is stopped. In a channel of its own the flow of h2 gets all that it sends.
    """
    paused = _run(run, delay, "PFC", Port(), CONGESTED)
    given = _run(run, delay, "credits", Port().with_credits(CONGESTED), CONGESTED)
    apart = _run(run, delay, "credits, a channel apart", Port().with_credits(CONGESTED, APART), APART)
    for name, found in (("PFC", paused), ("credits", given), ("credits, a channel apart", apart)):
        run.claim(f"{name}: lost", found.lost, equals=0)
    for name, found in (("PFC", paused), ("credits", given)):
        run.claim(f"{name}: goodput of the victim", found.goodput, at_most=OFFERED * 60 // 100)
    run.claim("credits, a channel apart: goodput of the victim", apart.goodput, at_least=OFFERED * 99 // 100)
    run.claim("PFC: pauses of the shared cable", paused.pauses, at_least=5)
    run.claim("credits: pauses of the shared cable", given.pauses + apart.pauses, equals=0)
    run.claim("credits: frames that waited for credits", given.stalls, at_least=5)
    for name, found in (("PFC", paused), ("credits", given)):
        run.claim(f"{name}: head-of-line blocking of h2", found.blocked, at_least=Duration("100us"))
        run.claim(f"{name}: cables in a row that stood still", found.hops, equals=2)
    run.claim("credits, a channel apart: head-of-line blocking of h2", apart.blocked, equals=Duration("0s"))
    run.claim("cells that PFC took beyond credits", paused.cells - given.cells, at_least=1)


def _run(run: Run, delay: Duration, case: str, port: Port, priority: int) -> Outcome:
    with network(Dumbbell(n=6, between=delay, port=port, total=4000), case=case) as net:
        flows = [Flow("h2", "r6", priority, rate=OFFERED, duration=LASTS)]
        flows += [Flow(host, "r1", CONGESTED, rate=FAR, duration=LASTS) for host in ("h1", "h3", "h4", "h5")]
        flows += [Flow(host, "r1", CONGESTED, duration=LASTS) for host in ("r2", "r3", "r4", "r5")]
        reports = net.run(*flows).reports
        there, here = net.port("s1", "s2"), net.port("s2", "s1")
        cells = net.fabric.group(here, CONGESTED).most_cells
        pauses = net.fabric.pfc(here, CONGESTED)["xoff_sent"]
        times = stood_still(net, CONGESTED)
        back = hops(net, [name for name, time in times.items() if time.ps], "s2")
        blocked = longest_on_the_way(net, flows[0], stood_still(net, priority))
        stalls = 0
        if port.credits:
            counters = net.fabric.credits(there).vcs[CONGESTED]
            stalls = counters.stalls
            run.claim(
                f"{case}: cells beyond the credits", max(0, cells - counters.sender_credits_used_watermark), equals=0
            )
            run.figure(f"{case}: time without credits", Duration.nearest_ns(counters.stalled_ns))
    rates = steady_rates(reports, SETTLED, STEADY)
    run.figure(f"{case}: goodput of h2", rates[0])
    run.figure(f"{case}: most cells of the buffer from s1", cells)
    run.figure(f"{case}: head-of-line blocking of h2", blocked)
    run.figure(f"{case}: cables in a row that stood still", back)
    return Outcome(rates[0], sum(report.lost for report in reports), cells, pauses, back, blocked, stalls)
