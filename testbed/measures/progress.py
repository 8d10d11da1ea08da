"""The progress of flows under a load: does traffic go on, or does it stand still for good?"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from testbed.net.fabric.fabric import Fabric
from testbed.net.traffic import Flow, Flows
from testbed.units import Duration


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
