"""RoCE flows over switches that may mark, and what came of them at the ends and at the switches."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from testbed.measures.rates import steady_rates
from testbed.net.build.graph import Topo
from testbed.net.build.network import network
from testbed.net.fabric.port import ROCE, Port
from testbed.net.traffic import Flow, Flows
from testbed.net.traffic.roce import RoceReport
from testbed.switch.ecn.curve import EcnCurve
from testbed.units import Duration, Rate, Size


@dataclass(frozen=True)
class RoceOutcome:
    """The outcome of RoCE flows over switches."""

    reports: tuple[RoceReport, ...]
    first_lab_ns: int
    """The moment at which the first packet of all arrived, by the lab's clock."""
    pauses: int
    """The times that a buffer passed its XOFF threshold, over all ports of switches."""
    most_cells: int
    """The most cells that one port of a switch held."""
    longest_queue: Size
    """The longest queue of a port of a switch, in frames without FCS."""
    paused: dict[str, Duration]
    """The time for which each port was paused, by its name; ports that never were are left out."""
    lasted: Duration
    """The time from the begin of the flows to the end of the last."""

    @property
    def lost(self) -> int:
        """Packets that were lost or sent twice."""
        return sum(report.lost + report.retransmitted for report in self.reports)

    @property
    def is_intact(self) -> bool:
        """True if every flow delivered the octets that were sent."""
        return all(report.intact for report in self.reports)

    @property
    def marks(self) -> int:
        """Packets that arrived with ECN's congestion mark."""
        return sum(report.marked for report in self.reports)

    @property
    def cnps(self) -> int:
        """Congestion notification packets that senders received."""
        return sum(report.cnps_received for report in self.reports)

    @property
    def pause_shares(self) -> dict[str, float]:
        """The part of the time for which each port was paused, of those that were."""
        return {name: round(float(time / self.lasted), 4) for name, time in self.paused.items()}

    def rates(self, settled: Duration | str, lasts: Duration | str) -> list[Rate]:
        """Return the rate of each flow on the wire, in the same part of the time."""
        return steady_rates(self.reports, settled, lasts)

    def utilisation(self, line: Rate | str, settled: Duration | str, lasts: Duration | str) -> float:
        """Return the part of a line that all flows filled together."""
        return round(sum(rate.bps for rate in self.rates(settled, lasts)) / Rate(line).bps, 4)


def marking(curve: EcnCurve | None) -> dict[str, Any]:
    """Return options for a topology whose switches mark RoCE's priority by a curve, and whose hosts do not."""
    port = Port(ecn={ROCE: curve}) if curve else Port()
    return {"port": port, "hopts": {"port": Port()}}


def roce_outcome(topology: Topo, flows: Sequence[Flow], case: str = "") -> RoceOutcome:
    """Run the flows to their end in a network of their own, and return what came of them."""
    with network(topology, case=case) as net:
        begin_ns = time.monotonic_ns()
        with Flows(flows) as running:
            running.wait()
        lasted = net.fabric.units.nearest_real(Duration.from_ns(time.monotonic_ns() - begin_ns))
        names = [port.name for port in net.fabric.ports.values() if port.node in net.switches]
        groups = [net.fabric.group(name, ROCE) for name in names]
        paused = {name: net.fabric.pfc(name, ROCE)["paused_ns"] for name in net.fabric.names()}
        return RoceOutcome(
            tuple(running.reports_of(RoceReport)),
            min(report.first_lab_ns for report in running.reports),
            sum(group.xoffs for group in groups),
            max(group.most_cells for group in groups),
            Size.from_bytes(max(net.fabric.sent(name).most_queued_bytes[ROCE] for name in names)),
            {name: Duration.nearest_ns(paused_ns) for name, paused_ns in paused.items() if paused_ns},
            lasted,
        )
