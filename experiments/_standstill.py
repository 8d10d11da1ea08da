"""Does traffic continue under a load, or stop for good? What the experiments on deadlocks share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from testbed.lab import Run
from testbed.units import Duration


@dataclass(frozen=True)
class Passed:
    """What came of all flows together."""

    halfway: int  # received when half of the load was over
    at_the_end: int  # of the load
    received: int
    least: int  # received of the flow that had least, in the second half
    lost: int  # sent, and never received


def passed(run: Run, wanted: Sequence[Any], load: Duration, wait: Duration, settle: Duration) -> Passed:
    """All flows at once for as long as `load`; then a wait for what may still come."""
    import time

    from testbed.net.traffic import Flows

    with Flows(wanted, settle=settle) as flows, run.measuring():
        time.sleep(load.ns / 2e9)
        halfway = [flows.received(index) for index in range(len(wanted))]
        time.sleep(load.ns / 2e9)
        at_the_end = [flows.received(index) for index in range(len(wanted))]
        flows.stop_sending()
        time.sleep(wait.ns / 1e9)
    return Passed(
        halfway=sum(halfway),
        at_the_end=sum(at_the_end),
        received=sum(report.received for report in flows.reports),
        least=min(after - before for before, after in zip(halfway, at_the_end, strict=True)),
        lost=sum(report.lost for report in flows.reports),
    )
