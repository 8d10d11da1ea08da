"""The plan of a router's part in End.X.PFC, made of its option `wan`."""

from __future__ import annotations

from collections.abc import Sequence

from testbed.net.fabric.ports import PortState, PortTable
from testbed.net.fabric.switch_buffer import MeasuredHeadroom
from testbed.subjects.srv6.agent.part import WanPartPlan
from testbed.subjects.srv6.lab.routers import Wan

NODE_OPTIONS = {"router": ("wan",)}


def part_plan(_: PortTable, ports: Sequence[PortState]) -> WanPartPlan | None:
    """Return the plan of the router that has these ports; None if it has no End.X.PFC."""
    wan: Wan | None = ports[0].node.params.get("wan")
    if wan is None:
        return None
    inside = [port for port in ports if port.name in wan.interfaces]
    cells = {}
    for port in inside:
        assert port.queues is not None
        cells[port.slot] = MeasuredHeadroom(port.buffer, port.lab_cable.rate, port.queues.mtu)
    return WanPartPlan(wan.plan, cells, frozenset(cells))
