"""More than a port's line for one port, until the switch has paused or dropped: for L06 to L08 and Y04.

Not an experiment.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from experiments.conformance._case import Bench, CaseError
from xoff import Duration, Fabric, Flows, Network

_AFTER, _LOOK = Duration("100us"), Duration("5us")
"""The time for which flows go on after the first pause or drop, and the interval of looks for it, at 100 Gb/s."""


@dataclass(frozen=True)
class Seen:
    """The losses, pauses and headroom of the flows."""

    sent: int
    lost: int
    dropped: int
    """Frames that were dropped, by the switch's counters."""
    xoffs: int
    """PFC frames with XOFF that the switch sent, of any priority."""
    dropped_before_xoff: int
    most_headroom: int
    """The most headroom that a group used, in bytes."""


def congest(bench: Bench, net: Network, flows: Sequence[Any]) -> Seen:
    """Run flows, twice the line's rate in all, until the switch sends XOFF or drops, and a little longer.

    Raise CaseError if the switch does neither although it has no cell left by then.
    """
    fabric = net.fabric
    ports = [bench.port(net, host.name) for host in net.hosts]
    before = fabric.dropped(), _xoffs(fabric, ports)
    within = bench.fill_time(net, *{flow.frame for flow in flows})
    with Flows(flows, settle=bench.settle_time(within)) as running:
        begin_ns = time.monotonic_ns()
        while (fabric.dropped(), sum(fabric.group(at, p).xoffs for at in ports for p in range(8))) == (before[0], 0):
            if time.monotonic_ns() - begin_ns > bench.lab_ns(within):
                raise CaseError(
                    f"twice the line's rate for {within}, in which the switch's whole buffer is filled, "
                    "neither paused nor dropped anything"
                )
            net.sleep(bench.paced(_LOOK))
        net.sleep(bench.paced(_AFTER) + bench.round_trip(net))  # until XOFF has stopped the farthest sender
    drops = [event.lab_ns for event in fabric.events() if event.kind == "drop" and event.lab_ns >= begin_ns]
    pauses = [event.lab_ns for event in fabric.events() if event.kind == "xoff_sent" and event.port in ports]
    first_ns = min((t_ns for t_ns in pauses if t_ns >= begin_ns), default=2**62)
    groups = [fabric.group(port, p) for port in ports for p in range(8)]
    return Seen(
        running.sent,
        running.lost,
        fabric.dropped() - before[0],
        _xoffs(fabric, ports) - before[1],
        sum(t_ns < first_ns for t_ns in drops),
        max(group.high_water[2] for group in groups) * bench.switch.buffer.cell,
    )


def _xoffs(fabric: Fabric, ports: Sequence[str]) -> int:
    return sum(fabric.pfc(port, priority)["xoff_sent"] for port in ports for priority in range(8))
