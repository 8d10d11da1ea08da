"""End.X.PFC in a running network: tunnels, counters, and what filters dropped."""

from __future__ import annotations

from typing import Any

from testbed.net.fabric.fabric import Fabric, FabricError
from testbed.subjects.srv6.lab.routers import dropped
from testbed.switch.headroom.measurement import readable


def wan_state(fabric: Fabric, router: str) -> dict[str, Any]:
    """Return the tunnels of End.X.PFC at a router, its counters by SID and reason, and what filters dropped."""
    state = fabric.snapshot(router).get("wan")
    if state is None:
        raise FabricError(f"{router} has no End.X.PFC")
    measured = state["headroom"] and [readable(one) for one in state["headroom"]]
    return {**state, "headroom": measured, "filtered": wan_filtered(fabric, router)}


def wan_filtered(fabric: Fabric, router: str) -> dict[str, int]:
    """Return how many packets a router's filters of the SR domain have dropped, by reason."""
    ports = [port for port in fabric.ports.values() if port.node.name == router]
    if not ports:
        raise FabricError(f"there is no router {router} with lossless ports")
    return dropped(ports[0].node, [port.name for port in ports])
