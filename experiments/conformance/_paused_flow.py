"""A flow of a lossless priority, PFC frames to its switch, and when its frames arrive: for L03 and L04.

Not an experiment.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from experiments.conformance._case import Bench
from testbed.frames import Mac
from testbed.frames.mac_control import LONGEST_PAUSE, PfcFrame
from testbed.units import Duration

if TYPE_CHECKING:
    from testbed.net.wire import RawPort, Tap

_IPV4 = b"\x08\x00"


@dataclass(frozen=True)
class PausedFlow:
    """From h1 to h2, as fast as the line."""

    wire: RawPort
    """Of h2: what it sends pauses the switch."""
    round_trip: Duration
    _mac: Mac
    _priority: int
    _tap: Tap

    def xoff(self, quanta: int = LONGEST_PAUSE) -> bytes:
        """A frame that pauses the flow."""
        return PfcFrame.xoff(self._mac, [self._priority], quanta).encode()

    def xon(self) -> bytes:
        """A frame that ends its pause."""
        return PfcFrame.xon(self._mac, [self._priority]).encode()

    def arrivals(self) -> list[int]:
        """When each frame so far arrived at h2, in nanoseconds."""
        return [t_ns for t_ns, frame in self._tap.arrivals() if frame[12:14] == _IPV4]


@contextmanager
def paused_flow(bench: Bench) -> Iterator[PausedFlow]:
    """Two hosts at a switch, and the flow, which runs."""
    from testbed.net.traffic import Flows
    from testbed.net.wire import RawPort, Tap

    priority = bench.lossless[0]
    with (
        bench.network(hosts=2) as net,
        RawPort(net["h2"], "h2-eth0") as wire,
        Tap(net["h2"], "h2-eth0") as tap,
        Flows([bench.flow("h1", "h2", priority)]),
    ):
        yield PausedFlow(wire, bench.round_trip(net), net.fabric.port("h2-eth0").mac, priority, tap)
