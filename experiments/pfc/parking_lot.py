"""The parking lot: with PFC alone, who joins last gets most."""

from typing import Any

from xoff import (
    Duration,
    Flow,
    Incast,
    ParkingLot,
    Port,
    Rate,
    Run,
    experiment,
    jain_index,
    network,
    steady_rates,
)

LINE = Rate("10Gb/s")
LASTS, SETTLED, ENDS = Duration("3ms"), Duration("500us"), Duration("100us")
HOSTS = 4


@experiment(timeout="60s")
def parking_lot(run: Run) -> None:
    """Senders join a row of switches one after the other: with PFC alone the last one gets most.

    h1 to h4 send to r at the end of the row, as fast as they can. Each switch divides its line evenly between its two
    ports, not between flows. So h4 gets 1/2, h3 1/4, h2 and h1 1/8: nothing is lost, and it is unfair. Control cases:
    the same hosts on one switch get the same each; and without PFC frames are lost.
    """
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

    _, lost, _ = _run(run, "parking lot without PFC", ParkingLot, Port().without_pfc(), Duration("1ms"))
    run.claim("parking lot without PFC: lost", lost, at_least=1000)


def _run(run: Run, case: str, topology: Any, port: Port, lasts: Duration = LASTS) -> tuple[dict[str, Rate], int, float]:
    """Return the goodput by host, the lost frames, and Jain's index."""
    topo = topology(n=HOSTS, port=port, total=1000, xon_offset=16)
    with network(topo) as net:
        *hosts, target = net.hosts
        flows = net.run(*(Flow(host, target, duration=lasts) for host in hosts))
    found = steady_rates(flows.reports, SETTLED, lasts - SETTLED - ENDS)
    rates = {host.name: rate for host, rate in zip(hosts, found, strict=True)}
    run.figure(f"{case}: goodput", rates)
    run.figure(f"{case}: Jain's index", jain_index(list(rates.values())))
    return rates, flows.lost, jain_index(list(rates.values()))
