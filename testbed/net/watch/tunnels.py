"""ECN fields in tunnels of a running network, as its ports have copied them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from testbed.net.fabric.ports import FabricError

if TYPE_CHECKING:
    from testbed.linux.port_program.tunnel_ecn import TunnelMarks
    from testbed.net.fabric.fabric import Fabric


def tunnel_marks(fabric: Fabric, port: str) -> TunnelMarks:
    """Return what a port has copied between the headers of tunnels; FabricError if its node has no `tunnel_ecn`."""
    state, program = fabric.port(port), fabric.core.running_program().tunnel_ecn
    if program is None or not state.node.params.get("tunnel_ecn"):
        raise FabricError(f"{port}: {state.node.name} copies no marks of tunnels; make it with tunnel_ecn=True")
    return program.marks(state.slot)
