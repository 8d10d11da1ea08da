"""DCBX in a running network: its state at ports, and changes of it."""

from __future__ import annotations

from typing import Any

from testbed.net.fabric.fabric import Fabric, FabricError, with_measured
from testbed.switch.priority.negotiation import Negotiation
from testbed.units import hardware_times


def dcbx_state(fabric: Fabric, port: str) -> dict[str, Any]:
    """Return every feature of DCBX at a port, from its agent; `testbed.subjects.dcbx.show` describes the fields.

    A port that measures its headroom has the measurement under "measured".
    """
    state = fabric.port(port)
    found = with_measured(hardware_times(fabric.core.running_agents().spoken(state.node.name), state.units))
    own: dict[str, dict[str, Any]] = hardware_times(found.get("dcbx", {}), state.units)
    if port not in own:
        raise FabricError(f"{port} does not speak DCBX; give it settings: Port(...).with_dcbx()")
    return of_port(found, port)


def of_port(snapshot: dict[str, Any], port: str) -> dict[str, Any]:
    """Return the state of a port that speaks DCBX, of a snapshot of its node."""
    measured = snapshot["measured"].get(port)
    found: dict[str, Any] = snapshot["dcbx"][port]
    return found | {"measured": measured} if measured else found


def configure_dcbx(fabric: Fabric, port: str, settings: Negotiation | None) -> None:
    """Give a port other DCBX settings while it runs; None turns DCBX off."""
    _ask(fabric, port, "configure", (port, settings))


def measure_headroom(fabric: Fabric, port: str) -> None:
    """Make a port measure its headroom now; `dcbx_state` has the result."""
    _ask(fabric, port, "measure", port)


def _ask(fabric: Fabric, port: str, verb: str, argument: Any) -> None:
    fabric.core.running_agents().ask_part(fabric.port(port).node.name, "dcbx", verb, argument)
