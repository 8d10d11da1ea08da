"""The work that flows ask for, estimated before they begin: frames, the switches that these pass, and the lab's time.

Flows that share a port share it in proportion to what they could send. Pauses, rate controls and retransmissions are
left out: the estimate is for a forecast, not for a claim.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from testbed.experiment.demand import Demand
from testbed.net.fabric.ports import PortState
from testbed.net.traffic.flow import Flow
from testbed.net.traffic.report import WIRE_OCTETS


@dataclass(frozen=True)
class Asked:
    """A flow as far as its work is concerned, with values of the lab."""

    transport: str
    frames: int | None
    """The frames that end it; None if it has no such end."""
    frame_bits: int
    """The bits of a frame on the wire."""
    rate_bps: int | None
    start_ns: int
    duration_ns: int | None
    way: tuple[tuple[str, int], ...]
    """The name and rate in b/s of each port that frames leave by."""

    @property
    def most_bps(self) -> int:
        """The rate at which the flow would send if it were alone."""
        rates = [bps for _, bps in self.way] + ([] if self.rate_bps is None else [self.rate_bps])
        return max(1, min(rates))


def asked_of(flow: Flow, way: Sequence[PortState]) -> Asked:
    """Return what a flow between nodes of the lab asks for, on its way."""
    transport = flow.transport
    return Asked(
        transport.name,
        transport.frames(flow),
        8 * (transport.frame_size(flow).bytes + WIRE_OCTETS),
        None if flow.rate is None else flow.rate.bps,
        flow.start.ns,
        None if flow.duration is None else flow.duration.ns,
        tuple((port.name, port.lab_cable.rate.bps) for port in way),
    )


def demand(begin_ns: int, flows: Sequence[Asked]) -> Demand | None:
    """Return what flows that begin together ask for; None if one has no end, or its way is not known."""
    if not flows or not all(flow.way and (flow.frames is not None or flow.duration_ns is not None) for flow in flows):
        return None
    wanted: Counter[str] = Counter()
    for flow in flows:
        for port, _ in flow.way:
            wanted[port] += flow.most_bps
    busy: Counter[str] = Counter()
    rates = {port: bps for flow in flows for port, bps in flow.way}
    begins = {port: flow.start_ns for flow in sorted(flows, key=lambda one: -one.start_ns) for port, _ in flow.way}
    frames: Counter[str] = Counter()
    hops: Counter[str] = Counter()
    lab_ns = 0
    for flow in flows:
        share = min(bps / max(bps, wanted[port]) for port, bps in flow.way)
        many = 0 if flow.frames is None else flow.frames
        alone_ns = many * flow.frame_bits * 10**9 // flow.most_bps
        if flow.duration_ns is not None:
            in_time = int(flow.duration_ns * flow.most_bps * share / flow.frame_bits / 10**9)
            many = in_time if flow.frames is None else min(many, in_time)
            alone_ns = flow.duration_ns if flow.frames is None else min(alone_ns, flow.duration_ns)
        frames[flow.transport] += many
        hops[flow.transport] += many * (len(flow.way) - 1)
        lab_ns = max(lab_ns, flow.start_ns + alone_ns)
        for port, _ in flow.way:
            busy[port] += many * flow.frame_bits
    for port, bits in busy.items():
        lab_ns = max(lab_ns, begins[port] + bits * 10**9 // rates[port])
    return Demand(begin_ns, lab_ns, dict(frames), dict(hops), dict(Counter(flow.transport for flow in flows)))
