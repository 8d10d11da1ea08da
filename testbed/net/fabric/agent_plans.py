"""The plan of each node's agent: frozen data, made of the node's ports, that the agent has when it is forked."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from testbed import subject
from testbed.agent.pfc.lost_ways import WaysPlan
from testbed.agent.plan import AgentPlan, PartPlan, PortPlan
from testbed.linux.process import kernel
from testbed.net.fabric.port import LAB_AGENT_REACTION
from testbed.net.fabric.ports import PortState, PortTable
from testbed.net.fabric.switch_buffer import SwitchBuffer

MakePart = Callable[[PortTable, Sequence[PortState]], PartPlan | None]
"""A function that returns the plan of a subject's part for the node that has these ports; None if it has no part."""


def agent_plan(
    table: PortTable, number: int, ports: Sequence[PortState], buffer: SwitchBuffer | None, *,
    ways: Sequence[WaysPlan] = (),
) -> AgentPlan:  # fmt: skip
    """Return the plan of the node that has these ports; a node without a buffer is a host."""
    node = ports[0].node
    makers: list[MakePart] = list(subject.loaded("agent"))
    parts = tuple(part for make in makers if (part := make(table, ports)) is not None)
    notified = frozenset[int]().union(*(part.notified for part in parts))
    return AgentPlan(
        node=node.name,
        number=number,
        pid=node.pid,
        ports=tuple(_port_plan(table, port, buffer is not None, port.slot in notified) for port in ports),
        parts=parts,
        lay_out_buffer=buffer,
        ways=tuple(ways),
        warms_up=not kernel.cpu_work_takes_no_time(),
    )


def _port_plan(table: PortTable, port: PortState, charged: bool, notified: bool) -> PortPlan:
    assert port.queues is not None and port.settings is not None
    queues, settings = port.queues, port.settings
    reaction = settings.reaction or (LAB_AGENT_REACTION if kernel.cpu_work_takes_no_time() else None)
    sends_ns, stops_ns = (reaction.sends.ns, reaction.stops.ns) if reaction else (0, 0)
    far = table.far_end(port)
    return PortPlan(
        slot=port.slot,
        name=port.name,
        interface=port.interface,
        mac=port.mac,
        rate=port.lab_cable.rate,
        pfc=settings.pfc,
        has_buffer=charged,
        stop=tuple(queues.pausing(priority, True) for priority in range(8)),
        go=tuple(queues.pausing(priority, False) for priority in range(8)),
        empty=tuple(queues.emptied(priority) for priority in range(8)),
        local=settings.priorities.pause_to_local,
        arrange=queues.arrange,
        notifies_speaker=notified,
        response_delay_ns=settings.obeys_after.ns,
        xoff_delay_ns=sends_ns,
        stop_delay_ns=stops_ns,
        xoff_allowed_ns=max(sends_ns, port.buffer.lab_response(port.units).ns),
        stop_allowed_ns=max(stops_ns, far.buffer.lab_response(far.units).ns),
        pause_ns=table.pause_ns(port),
    )
