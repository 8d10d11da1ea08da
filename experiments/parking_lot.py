"""The parking lot: with PFC alone, who joins last gets most."""

from typing import TYPE_CHECKING, Any

from testbed.lab import Run, experiment
from testbed.units import Duration, Rate

if TYPE_CHECKING:
    from testbed.net.port import Port

LINE = Rate("10Mb/s")
LASTS, SETTLED, ENDS = Duration("3s"), Duration("500ms"), Duration("100ms")
HOSTS = 4


@experiment(timeout="60s")
def parking_lot(run: Run) -> None:
    """Senders join a row of switches one after the other: with PFC alone the last one gets most.

    h1 to h4 send to r at the end of the row, as fast as they can. Each switch divides its line evenly between its two
    ports, not between flows. So h4 gets 1/2, h3 1/4, h2 and h1 1/8: nothing is lost, and it is unfair. Control cases:
    the same hosts on one switch get the same each; and without PFC frames are lost.
    """
    from testbed.net.port import Port
    from topologies.incast import Incast
    from topologies.parking_lot import ParkingLot

    rates, lost, fairness = _run(run, "parking lot with PFC", ParkingLot, Port())
    for host, part in zip(("h4", "h3", "h2", "h1"), (2, 4, 8, 8), strict=True):
        due = LINE // part
        # Who gets on sooner after a pause gets a little more at each switch: 2 % here, a host before a switch.
        run.claim(f"parking lot with PFC: {host}", rates[host], at_least=due * 90 // 100, at_most=due * 110 // 100)
    run.claim("parking lot with PFC: Jain's index", fairness, at_most=0.75)
    run.claim("parking lot with PFC: lost", lost, equals=0)

    _, lost, fairness = _run(run, "one switch with PFC", Incast, Port())
    run.claim("one switch with PFC: Jain's index", fairness, at_least=0.99)
    run.claim("one switch with PFC: lost", lost, equals=0)

    _, lost, _ = _run(run, "parking lot without PFC", ParkingLot, Port().with_pfc(), Duration("1s"))
    run.claim("parking lot without PFC: lost", lost, at_least=1000)


def _run(
    run: Run, case: str, topology: Any, port: "Port", lasts: Duration = LASTS
) -> tuple[dict[str, Rate], int, float]:
    """Goodput by host, frames lost, and Jain's index."""
    from experiments._rates import jain, steady
    from testbed.net.network import network
    from testbed.net.port import Buffer
    from testbed.net.traffic import Flow, Flows

    topo = topology(n=HOSTS, port=port, buffer=Buffer(total=1000, xon_offset=16))
    with network(topo, run, autoStaticArp=True) as net:
        *hosts, target = net.hosts
        with Flows([Flow(host, target, duration=lasts) for host in hosts]) as flows, run.measuring():
            flows.wait()
    found = steady(flows.reports, SETTLED, lasts - SETTLED - ENDS)
    rates = {host.name: rate for host, rate in zip(hosts, found, strict=True)}
    run.figure(f"{case}: goodput", rates)
    run.figure(f"{case}: Jain's index", jain(list(rates.values())))
    return rates, sum(report.lost for report in flows.reports), jain(list(rates.values()))
