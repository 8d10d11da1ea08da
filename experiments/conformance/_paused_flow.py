"""A flow of a lossless priority, PFC frames to its switch, and when its frames arrive: for L03 and L04.

Not an experiment.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from experiments.conformance._arrivals import Arrivals
from experiments.conformance._case import Bench
from xoff import LONGEST_PAUSE, Duration, Flows, Mac, PfcFrame, RawPort, Tap


@dataclass(frozen=True)
class PausedFlow:
    """A flow from one host to another, as fast as the line."""

    wire: RawPort
    """The receiver's port, for raw frames: the pauses that it sends act on the switch."""
    round_trip: Duration
    """The delay of the cable from the receiver to the switch and back."""
    begun: Duration
    """The longest time from the flow's start to the arrival of its first frames."""
    arrivals: Arrivals
    """The times at which frames arrive at the receiver."""
    _mac: Mac
    _priority: int

    def xoff(self, quanta: int = LONGEST_PAUSE) -> bytes:
        """Return a frame that pauses the flow."""
        return PfcFrame.xoff(self._mac, [self._priority], quanta).encode()

    def xon(self) -> bytes:
        """Return a frame that ends its pause."""
        return PfcFrame.xon(self._mac, [self._priority]).encode()


@contextmanager
def paused_flow(bench: Bench) -> Iterator[PausedFlow]:
    """Start two hosts at a switch and a flow between them; the receiver is at the longer cable if they differ.

    The sender is paused too, if the switch holds less than comes in a pause, and far away it would resume too late.
    """
    priority = bench.lossless[0]
    with bench.network(hosts=2) as net:
        ports = sorted((net.fabric.port(f"{host}-eth0") for host in ("h1", "h2")), key=lambda one: one.cable.delay.ps)
        (source, _), (target, at) = ((port.node.name, port) for port in ports)
        with (
            RawPort(net[target], at.name) as wire,
            Tap(net[target], at.name) as tap,
            Flows([bench.flow(source, target, priority)]),
        ):
            yield PausedFlow(
                wire, at.cable.delay * 2, bench.round_trip(net), Arrivals(tap, bench.switch.scale), at.mac, priority
            )
