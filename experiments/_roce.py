"""What the RoCE experiments share: a switch whose ports mark, flows on it, and what came of them. Not an experiment."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from testbed.units import Duration, Rate, Size

if TYPE_CHECKING:  # only the lab can import these
    from testbed.net.port import Port
    from testbed.net.traffic import Flow
    from testbed.net.traffic.roce import RoceReport

PRIORITY = 3


@dataclass(frozen=True)
class Outcome:
    """A run of flows over switches."""

    reports: tuple[RoceReport, ...]
    first_ns: int
    """When the first packet of all came."""
    pauses: int
    """How often a buffer passed its XOFF threshold, over all ports of switches."""
    most_cells: int
    """The most that one port of a switch held."""
    longest_queue: Size
    """Of one port of a switch, as frames without FCS."""
    paused: dict[str, Duration]
    """How long each port that was paused was, by its name."""
    lasted: Duration
    """From the begin of the flows to the end of the last."""

    @property
    def lost(self) -> int:
        return sum(report.lost + report.retransmitted for report in self.reports)

    @property
    def is_intact(self) -> bool:
        """Has every flow delivered the octets that were sent?"""
        return all(report.intact for report in self.reports)

    @property
    def marks(self) -> int:
        return sum(report.marked for report in self.reports)

    @property
    def cnps(self) -> int:
        return sum(report.cnps_received for report in self.reports)

    @property
    def pause_shares(self) -> dict[str, float]:
        """The part of the time for which each port was paused, of those that were."""
        return {name: round(float(time / self.lasted), 4) for name, time in self.paused.items()}

    def rates(self, settled: Duration, lasts: Duration) -> list[Rate]:
        """What each flow had on the wire, in the same part of the time."""
        return [report.goodput_over(self.first_ns + settled.ns, lasts) for report in self.reports]

    def utilisation(self, line: Rate, settled: Duration, lasts: Duration) -> float:
        """The part of a line that all flows filled together."""
        return round(sum(rate.bps for rate in self.rates(settled, lasts)) / line.bps, 4)


def marking(curve: Any) -> dict[str, Any]:
    """Options of a topology whose switches mark by a curve, and whose hosts do not."""
    from testbed.net.port import Port

    port: Port = Port(ecn={PRIORITY: curve}) if curve else Port()
    return {"port": port, "hopts": {"port": Port()}}


def outcome(run: Any, topology: Any, flows: Sequence[Flow], case: str = "") -> Outcome:
    """Run the flows to their end."""
    from testbed.net.network import network

    with network(topology, run, case=case, autoStaticArp=True) as net:
        return measured(run, net, flows)


def measured(run: Any, net: Any, flows: Sequence[Flow], during: Callable[[], None] = lambda: None) -> Outcome:
    """Run the flows to their end in a network; `during` is called when they have begun."""
    import time

    from testbed.net.traffic import Flows

    begin_ns = time.monotonic_ns()
    with Flows(flows) as running, run.measuring():
        during()
        running.wait()
    lasted = Duration.from_ns(time.monotonic_ns() - begin_ns)
    names = [port.name for port in net.fabric.ports.values() if port.node in net.switches]
    groups = [net.fabric.group(name, PRIORITY) for name in names]
    paused = {name: net.fabric.pfc(name, PRIORITY)["paused_ns"] for name in net.fabric.names()}
    return Outcome(
        tuple(running.reports),  # type: ignore[arg-type]
        min(report.first_ns for report in running.reports),
        sum(group.xoffs for group in groups),
        max(group.most_cells for group in groups),
        Size.from_bytes(max(net.fabric.sent(name).most_queued_bytes[PRIORITY] for name in names)),
        {name: Duration.from_ns(paused_ns) for name, paused_ns in paused.items() if paused_ns},
        lasted,
    )
