"""Experiments about the WAN with one fault in what they test, so that a claim has to fail."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from experiments.wan import wan_distance, wan_ring, wan_tenants
from testbed.frames import Mac
from testbed.frames.mac_control import PfcFrame
from testbed.lab import Run, experiment
from testbed.units import Duration


@experiment(timeout="240s")
def a_pause_of_all_slices(run: Run) -> None:
    """Let the frames of one slice's tunnel stop the queues of both. Parts that are not about slices are left out."""
    from testbed.subjects.srv6.agent import tunnel_pauses

    class EnoughError(Exception): ...

    def division(*_: object) -> float:
        raise EnoughError

    class Wide(PfcFrame):
        @classmethod
        def of(cls, source: Mac, changes: Mapping[int, int]) -> PfcFrame:
            return PfcFrame.of(source, dict.fromkeys((3, 4), next(iter(changes.values()))))

    tunnel_pauses.PfcFrame = Wide  # type: ignore[attr-defined]
    wan_tenants._division = division  # type: ignore[assignment]
    with suppress(EnoughError):
        wan_tenants.wan_tenants(run, lasts=Duration("1ms"))


@experiment(timeout="600s")
def headroom_for_one_way(run: Run) -> None:
    """Give headroom for the way there only, and not for the way back."""
    from testbed.subjects.srv6.lab import routers as srv6

    whole = srv6.headroom
    srv6.headroom = lambda rate, delay, routers: whole(rate, delay, routers) // 2
    vars(wan_distance).update(DISTANCES=wan_distance.DISTANCES[:2], CABLES=wan_distance.CABLES[:2])
    wan_distance.wan_distance(run)


@experiment(timeout="240s")
def tunnels_that_never_say_go_on(run: Run) -> None:
    """Keep XON out of tunnels, so that XOFF is repeated for ever."""
    from testbed.subjects.srv6.protocol.pause_refresh import PauseSender

    PauseSender.xon = lambda *_: None  # type: ignore[method-assign]
    wan_ring.wan_ring(run, lasts=Duration("1ms"))
