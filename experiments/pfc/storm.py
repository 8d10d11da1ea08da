"""A PFC storm: a device that never stops sending XOFF. It takes one priority down, whoever it is for, and no other."""

import time
from collections.abc import Iterable

from xoff import (
    Duration,
    Flow,
    Flows,
    Incast,
    Mac,
    PfcFrame,
    Port,
    Rate,
    RawPort,
    Run,
    experiment,
    network,
)

STORMED, LOSSLESS, LOSSY = 3, 4, 0
RATE = Rate("3Gb/s")
STORM = Duration("2ms")
REPEAT = Duration("5us")
SPREAD = Duration("500us")
"""The time in which the switch's buffer is full and the sender is stopped, too."""
OVER = Duration("50us")
RECEIVER = Mac.parse("02:00:00:00:00:01")
QUANTA = 400
"""The pause of one XOFF, 20.5 us at 10 Gb/s: four of the repetitions may be lost before a pause ends."""


@experiment(timeout="60s")
def storm(run: Run) -> None:
    """XOFF of one priority without end: that one stops, the others keep their rate; nothing is lost.

    Three flows share the last link, on two lossless priorities and a lossy one. A fourth, on the stormed priority, goes
    elsewhere: PFC does not distinguish it from the first, so it stops too. In the control case all eight priorities
    have PFC and the storm is of all of them, as a stop of the whole link would be.
    """
    whole, nothing = RATE * 99 // 100, Rate.from_bps(0)
    during, after, lost = _storm_of(run, [STORMED], Port().with_pfc(STORMED, LOSSLESS))
    run.claim("one priority: goodput of the stormed one", during["stormed"], equals=nothing)
    run.claim("one priority: goodput of the stormed one to another host", during["innocent"], equals=nothing)
    run.claim("one priority: goodput of the other lossless one", during["lossless"], at_least=whole)
    run.claim("one priority: goodput of the lossy one", during["lossy"], at_least=whole)
    run.claim("one priority: goodput of the stormed one afterwards", after["stormed"], at_least=whole)
    run.claim("one priority: lost", lost, equals=0)
    during, after, lost = _storm_of(run, range(8), Port().with_pfc(*range(8)))
    for name, goodput in during.items():
        run.claim(f"all priorities: goodput of the {name} one", goodput, equals=nothing)
    run.claim("all priorities: lost", lost, equals=0)


def _storm_of(run: Run, priorities: Iterable[int], port: Port) -> tuple[dict[str, Rate], dict[str, Rate], int]:
    """Return the goodput of the flows during the storm and after it, and the losses."""
    topo = Incast(n=3, port=port, xoff=400)
    with network(topo) as net, RawPort(net["r"], "r-eth0") as wire, run.measuring():
        flows = {
            "stormed": Flow("h1", "r", STORMED, rate=RATE),
            "innocent": Flow("h1", "h2", STORMED, rate=RATE),
            "lossless": Flow("h2", "r", LOSSLESS, rate=RATE),
            "lossy": Flow("h3", "r", LOSSY, rate=RATE),
        }
        with Flows([*flows.values()]) as running:
            time.sleep(0.2)
            begin_ns = time.monotonic_ns()
            wire.repeat(PfcFrame.xoff(RECEIVER, priorities, QUANTA).encode(), net.lab_ns(REPEAT), STORM // REPEAT)
            end_ns = time.monotonic_ns()
            net.sleep(STORM)
        reports = dict(zip(flows, running.reports, strict=True))
        stormed = begin_ns + net.lab_ns(SPREAD), begin_ns + net.lab_ns(STORM)
        over = end_ns + net.lab_ns(OVER), end_ns + net.lab_ns(STORM - OVER)
        during = {name: report.goodput_between(*stormed) for name, report in reports.items()}
        after = {name: report.goodput_between(*over) for name, report in reports.items()}
        return during, after, sum(report.lost for report in reports.values())
