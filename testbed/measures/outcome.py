"""Outcomes of flows: rates and fairness, progress, and for RoCE the packets that were marked and notified.

RoCE flows over switches that may mark, and what came of them at the ends and at the switches.

Rates that flows got over the same part of the time, alone and together, and how fair they are.

The progress of flows under a load: does traffic go on, or does it stand still for good?
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from testbed.net.build.graph import Topo
from testbed.net.build.network import network
from testbed.net.fabric.fabric import Fabric
from testbed.net.fabric.port import ROCE, Port
from testbed.net.traffic import Flow, Flows
from testbed.net.traffic.report import WIRE_OCTETS, Report
from testbed.net.traffic.roce import RoceReport
from testbed.switch.ecn.curve import EcnCurve
from testbed.units import Duration, Rate, Size
from testbed.workload.statistics import jain


@dataclass(frozen=True)
class Progress:
    """Datagrams of all flows together."""

    halfway: int
    """Received when half of the load was over."""
    at_the_end: int
    """Received when the load was over."""
    received: int
    """Received in all."""
    least: int
    """Received in the second half of the load by the flow that received least."""
    lost: int
    """Sent, and never received."""


def progress(
    flows: Sequence[Flow], load: Duration | str, wait: Duration | str, settle: Duration | str | None = None
) -> Progress:
    """Run all flows at once for as long as `load`, wait for what may still come, and return their progress."""
    units = Fabric.current().units
    half, rest = units.lab(Duration(load)).ns / 2e9, units.lab(Duration(wait)).ns / 1e9
    with Flows(flows, settle=settle) as running:
        time.sleep(half)
        halfway = [running.received_by(index) for index in range(len(flows))]
        time.sleep(half)
        at_the_end = [running.received_by(index) for index in range(len(flows))]
        running.stop_sending()
        time.sleep(rest)
    return Progress(
        halfway=sum(halfway),
        at_the_end=sum(at_the_end),
        received=running.received,
        least=min(after - before for before, after in zip(halfway, at_the_end, strict=True)),
        lost=running.lost,
    )


def steady_rates(reports: Sequence[Report], settled: Duration | str, lasts: Duration | str) -> list[Rate]:
    """Return the goodput of each flow over the same time.

    The time begins `settled` after the first frame of all has arrived, and is `lasts` long.
    """
    first = min((report for report in reports if report.received), key=lambda report: report.first_lab_ns)
    begin_lab_ns = first.first_lab_ns + first.scale.lab(Duration(settled)).ns
    end_lab_ns = begin_lab_ns + first.scale.lab(Duration(lasts)).ns
    return [report.goodput_between(begin_lab_ns, end_lab_ns) for report in reports]


def total_rate(reports: Sequence[Report]) -> Rate:
    """Return the rate of all flows together on the wire, from the first frame that arrived to the last."""
    span_ns = max(report.last_lab_ns for report in reports) - min(report.first_lab_ns for report in reports)
    octets = sum(report.octets + WIRE_OCTETS * report.received for report in reports)
    one = reports[0].octets // max(1, reports[0].received) + WIRE_OCTETS
    rate = Rate.from_bps((octets - one) * 8 * 10**9 // span_ns)  # the time begins when the first has arrived
    return reports[0].scale.real(rate)


def jain_index(rates: Sequence[Rate]) -> float:
    """Return Jain's fairness index: 1 if all rates are the same, 1/n if one of n has everything."""
    return round(jain([rate.bps for rate in rates]), 4)


def percentages(rates: Sequence[Rate]) -> list[float]:
    """Return the part that each rate is of their sum, in percent."""
    total = sum(rate.bps for rate in rates)
    return [round(100 * rate.bps / total, 2) if total else 0.0 for rate in rates]


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
