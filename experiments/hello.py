"""The smallest whole lab: four hosts on one switch, ping and iperf3."""

from typing import Annotated

from testbed.net import traffic
from xoff import Between, Duration, Rate, Run, Star, TcpReport, experiment, network


@experiment(timeout="60s")
def hello(
    run: Run,
    hosts: Annotated[int, Between(2, 16)] = 4,
    rate: Annotated[Rate, Between("10Mb/s", "1Gb/s")] = Rate("100Mb/s"),
    delay: Annotated[Duration, Between("0s", "2ms")] = Duration("1ms"),
    duration: Annotated[Duration, Between("1s", "5s")] = Duration("1s"),
) -> None:
    """Four hosts on one switch: everyone pings everyone, then two of them run iperf3."""
    with network(Star(n=hosts, rate=rate, delay=delay)) as net:
        run.event("network started", hosts=hosts)
        first, last = net.hosts[0], net.hosts[-1]
        pairs = [(a, b) for a in net.hosts for b in net.hosts if a is not b]
        traffic.ping(
            first, last, delay * 12 + Duration("1s")
        )  # resolves the addresses, so that the next one measures the path
        with run.measuring():
            answered = [traffic.probe(a, b, delay * 12 + Duration("1s")) for a, b in pairs]
            trip = traffic.probe(first, last, delay * 12 + Duration("1s"))
            print(f"{first} -> {last}: {trip}")
            # A header of 66 bytes is on the wire with every 1448 bytes of TCP data.
            with traffic.Flows([traffic.Flow(first, last, priority=0, transport="tcp", duration=duration)]) as flows:
                flows.wait()
        (flow,) = flows.reports_of(TcpReport)
        print(f"{first} -> {last}: {flow.goodput} of TCP over {rate} for {duration}")
        run.figure("pairs that answered", sum(trip is not None for trip in answered))
        run.figure("round trip", trip)
        run.figure("goodput", flow.goodput)
        run.figure("retransmits", flow.retransmits)
        run.claim("every pair answers", sum(trip is not None for trip in answered), equals=len(pairs))
        run.claim("round trip of four link delays", trip, at_least=delay * 4, at_most=delay * 4 + Duration("1ms"))
        run.claim("TCP fills the link", flow.goodput, at_least=rate * 90 // 100, at_most=rate)
