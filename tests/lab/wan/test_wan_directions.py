"""Data both ways over the WAN, and congestion at either end: back-pressure goes against the data, to the right router.

The draft speaks of data that are read from data centre 2 to 1, and of congestion towards data centre 2 (decision 0140).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from testbed.lab import Run, experiment
from testbed.units import Size
from xoff import wan_state

if TYPE_CHECKING:
    pass

CASES = {
    "test_back_pressure_goes_against_the_data_whichever_way_they_go": [{"back": "planned"}, {"back": "controlled"}],
}

LOSSLESS = 3
FRAME = Size("1400B")
READ, WRITE = ("b1", "a1"), ("a1", "b1")
"""The flows over the WAN of a tenant in data centre 1 that reads, or writes."""
AT_READER, AT_WRITTEN = ("a2", "a1"), ("b2", "b1")
"""The flows to the same host from inside its data centre."""


@experiment(_in_lab_time=True, timeout="200s")
def test_back_pressure_goes_against_the_data_whichever_way_they_go(
    run: Run, back: str = "planned", seconds: int = 3
) -> None:
    """Check reading, writing, and both at once, each with an overload at the data's target."""
    from contextlib import ExitStack

    from testbed.net.build.network import network
    from testbed.subjects.srv6.lab.controller import SrController
    from topologies.srv6_wan import Srv6Wan

    with ExitStack() as stack:
        controller = stack.enter_context(SrController()) if back == "controlled" else None
        topo = Srv6Wan(wan="10km", back=back, controller=controller)
        net = stack.enter_context(network(topo, run))
        if controller is not None:
            controller.request(*topo.intents())
            controller.wait(controller.settled, "every policy and tunnel is installed")
        _case(run, net, "reading", [READ, AT_READER], pressing=["r1"], pressed=["r3"], seconds=seconds)
        _case(run, net, "writing", [WRITE, AT_WRITTEN], pressing=["r3"], pressed=["r1"], seconds=seconds)
        both = [READ, AT_READER, WRITE, AT_WRITTEN]
        _case(run, net, "both", both, pressing=["r1", "r3"], pressed=["r1", "r3"], seconds=seconds)
        tunnels = {router: [one["to"] for one in wan_state(net.fabric, router)["tunnels"]] for router in ("r1", "r3")}
        run.claim("tunnels", tunnels, equals={"r1": ["r3"], "r3": ["r1"]})
        run.claim("dropped by any buffer", net.fabric.dropped(), equals=0)


def _case(
    run: Run,
    net: Any,
    name: str,
    pairs: Sequence[tuple[str, str]],
    *,
    pressing: list[str],
    pressed: list[str],
    seconds: int,
) -> None:
    from testbed.net.traffic import Flow, Flows, ping

    for source, target in pairs:
        ping(net[source], net[target])
    with Flows([Flow(net[source], net[target], LOSSLESS, FRAME) for source, target in pairs]) as flows:
        begin_ns = time.monotonic_ns()
        time.sleep(seconds)
        flows.stop_sending()
    time.sleep(1)
    events = [event for event in net.fabric.events() if event.lab_ns >= begin_ns]
    kinds = {kind: [event.port for event in events if event.kind == kind] for kind in {event.kind for event in events}}
    run.claim(f"{name}: lost", [report.lost for report in flows.reports], equals=[0] * len(pairs))
    run.claim(f"{name}: routers that press back", _routers(kinds.get("tunnel_xoff", [])), equals=pressing)
    run.claim(f"{name}: routers that obey", _routers(kinds.get("tunnel_received", [])), equals=pressed)
    stopped = sorted(
        {port for port in kinds.get("queue_stopped", []) if port.startswith("r") and port.endswith("eth1")}
    )
    run.claim(f"{name}: ports to the WAN that were stopped", stopped, equals=[f"{router}-eth1" for router in pressed])
    left = [router for router in ("r1", "r3") for one in wan_state(net.fabric, router)["tunnels"] if one["stopped"]]
    run.claim(f"{name}: tunnels that still say stop", left, equals=[])


def _routers(ports: Sequence[str]) -> list[str]:
    return sorted({port.partition("-")[0] for port in ports})
