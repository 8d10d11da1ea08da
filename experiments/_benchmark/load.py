"""Flows over the fabric under test in a network of their own, and what the draft's KPIs are of it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from testbed.measures.fabric_under_test import FabricUnderTest
from testbed.net.traffic.workload import completion
from testbed.switch.ways.settings import Ways
from testbed.workload.statistics import jain
from xoff import ROCE_PRIORITY, Duration, Flow, Flows, Network, Nic, Rate, RoceReport, Run, Size, network

REORDERS = Nic(reorder_time=Duration("50us"), reorder_packets=1024)
"""Receivers that wait for late packets, as NICs for spraying do."""
STRATEGIES: Mapping[str, tuple[Ways, Nic]] = {
    "ECMP": (Ways("hash"), Nic()),
    "flowlet": (Ways("adaptive flowlet"), Nic()),
    "spray": (Ways("spray"), REORDERS),
}
"""The ways to balance load that the draft compares, each with the NIC that goes with it."""


@dataclass(frozen=True)
class Pauses:
    """The PFC of one network: frames, and for how long they stopped ports."""

    frames: int
    longest: Duration
    """The time for which the port was paused that was paused longest."""


@dataclass(frozen=True)
class Load:
    """The results of the flows of one network."""

    reports: Sequence[RoceReport]
    completion: Duration
    """From the first start to the last arrival."""
    goodput: Rate
    """Data without headers of all flows, in that time."""
    pauses: Pauses
    dropped: int
    deepest: Size
    """The longest queue of a switch's port."""
    ways: Sequence[Sequence[int]]
    """The octets that each switch with equal ways gave to each of them; switches that gave nothing are left out."""

    @property
    def packets(self) -> int:
        return sum(one.received for one in self.reports)

    @property
    def marked(self) -> float:
        """The percentage of packets that arrived with a mark."""
        return round(100 * sum(one.marked for one in self.reports) / max(1, self.packets), 3)

    @property
    def sent_again(self) -> int:
        return sum(one.retransmitted for one in self.reports)

    @property
    def out_of_order(self) -> float:
        """The percentage of packets that came out of order."""
        return round(100 * sum(one.out_of_order for one in self.reports) / max(1, self.packets), 3)

    @property
    def balance(self) -> tuple[float, float] | None:
        """The max-mean ratio and Jain's index of the switch whose ways are filled least evenly."""
        if not self.ways:
            return None
        ratios = [max(octets) * len(octets) / sum(octets) for octets in self.ways]
        return round(max(ratios), 3), round(min(jain(octets) for octets in self.ways), 3)

    def per_second(self, count: int) -> int:
        return round(count / max(1e-9, float(self.completion.ps) / 1e12))


def offer(
    fabric: FabricUnderTest,
    flows: Sequence[Flow],
    case: str,
    *,
    meanwhile: Callable[[Network, Flows], None] = lambda *_: None,
    **options: Any,
) -> Load:
    """Run the flows to their ends in a network of their own; `options` are those of `FabricUnderTest.topo`."""
    with network(fabric.topo(**options), case=case) as net:
        with Flows(flows) as running:
            meanwhile(net, running)
            running.wait()
        reports = running.reports_of(RoceReport)
        ports = [port for port in net.fabric.ports.values() if port.node in net.switches]
        took = completion(running.reports)
        return Load(
            reports,
            took,
            rate_of(sum(one.size.bytes for one in reports), took),
            pauses(net),
            net.fabric.dropped(),
            Size.from_bytes(max(net.fabric.sent(port.name).most_queued_bytes[ROCE_PRIORITY] for port in ports)),
            given_ways(net),
        )


def given_ways(net: Network) -> list[list[int]]:
    """Return the octets that each switch with equal ways gave to each of them, of those that gave any."""
    found = [[one.octets for one in net.ways(switch.name)] for switch in net.switches]
    return [octets for octets in found if sum(octets)]


def pauses(net: Network) -> Pauses:
    """Return the PFC frames that switches sent, and the longest time for which a port was paused."""
    frames, longest_ns, switches = 0, 0, {switch.name for switch in net.switches}
    for name in {port.node.name for port in net.fabric.ports.values()}:
        for port in net.fabric.snapshot(name)["ports"].values():
            pfc = port["priorities"][ROCE_PRIORITY]
            frames += pfc["xoff_sent"] if name in switches else 0
            longest_ns = max(longest_ns, pfc["paused_ns"])
    return Pauses(frames, Duration.nearest_ns(longest_ns))


def rate_of(octets: int, time: Duration) -> Rate:
    return Rate.from_bps(octets * 8 * 10**12 // max(1, time.ps))


def share(rate: Rate, of: Rate) -> float:
    """Return a rate in percent of another."""
    return round(100 * rate.bps / max(1, of.bps), 2)


def row(run: Run, name: str, **columns: Any) -> None:
    """Report a row of the test's table; a column's name has spaces in place of `_`, and `_percent` is a unit."""
    for column, value in columns.items():
        words = column.removesuffix("_percent").replace("_", " ")
        run.figure(f"{name}: {words}", value, "%" if column.endswith("_percent") else "")


def balance_of(load: Load) -> dict[str, Any]:
    """Return the columns of a load about how evenly equal ways are filled."""
    if load.balance is None:
        return {}
    return {"MMR": load.balance[0], "JFI": load.balance[1]}


def lossless(run: Run, fabric: FabricUnderTest, name: str, load: Load) -> None:
    """Claim that a lossless fabric dropped nothing, and that all data arrived as they were sent."""
    if fabric.pfc:
        run.claim(f"{name}: frames dropped", load.dropped, equals=0)
    else:
        run.figure(f"{name}: frames dropped", load.dropped)
    run.claim(f"{name}: every octet as it was sent", all(one.intact for one in load.reports), equals=True)
