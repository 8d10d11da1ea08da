"""The plan of each node's agent: frozen data, made of the node's ports, that the agent has when it is forked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from testbed.agent.pfc.lost_ways import WaysPlan
from testbed.agent.plan import AgentPlan, DcbxPlan, HeadroomPlan, PortPlan
from testbed.frames.lldp import ChassisId, PortId
from testbed.frames.lldp_tlvs import Text, TextKind
from testbed.linux.process import kernel
from testbed.net.fabric.port import LAB_AGENT_REACTION, MEASUREMENT
from testbed.net.fabric.ports import PortState, PortTable
from testbed.net.fabric.switch_buffer import MeasuredHeadroom, SwitchBuffer
from testbed.subjects.dcbx.settings import PortIdentity
from testbed.subjects.srv6.lab.routers import Wan
from testbed.switch.headroom.exchange import Settings as MeasurementSettings

_MEASURING_NS = 2_000_000
"""The least interval between two measurements of a network, as each takes about a millisecond of the lab's CPU."""


def agent_plan(
    table: PortTable, number: int, ports: Sequence[PortState], buffer: SwitchBuffer | None, measuring: int, *,
    ways: Sequence[WaysPlan] = (),
) -> AgentPlan:  # fmt: skip
    """Return the plan of the node that has these ports; a node without a buffer is a host.

    `measuring` is the number of ports of the network that measure their headroom.
    """
    node = ports[0].node
    chassis = ChassisId.of_mac(ports[0].mac)
    wan: Wan | None = node.params.get("wan")
    return AgentPlan(
        node=node.name,
        number=number,
        pid=node.pid,
        ports=tuple(_port_plan(table, port, chassis, buffer is not None, measuring) for port in ports),
        wan=wan.plan if wan else None,
        lay_out_buffer=buffer,
        ways=tuple(ways),
        warms_up=not kernel.cpu_work_takes_no_time(),
    )


def _port_plan(table: PortTable, port: PortState, chassis: ChassisId, charged: bool, measuring: int) -> PortPlan:
    assert port.queues is not None and port.settings is not None
    queues, settings = port.queues, port.settings
    cells = MeasuredHeadroom(port.buffer, port.lab_cable.rate, queues.mtu)
    reaction = settings.reaction or (LAB_AGENT_REACTION if kernel.cpu_work_takes_no_time() else None)
    sends_ns, stops_ns = (reaction.sends.ns, reaction.stops.ns) if reaction else (0, 0)
    far = table.far_end(port)
    wan: Wan | None = port.node.params.get("wan")
    in_wan = bool(wan and port.name in wan.interfaces)
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
        dcbx=_dcbx_plan(port, chassis),
        headroom=_headroom_plan(port, cells, measuring),
        notifies_speaker=in_wan,
        cells_for=cells if wan and wan.plan.measures and in_wan else None,
        response_delay_ns=settings.obeys_after.ns,
        xoff_delay_ns=sends_ns,
        stop_delay_ns=stops_ns,
        xoff_allowed_ns=max(sends_ns, port.buffer.lab_response(port.units).ns),
        stop_allowed_ns=max(stops_ns, far.buffer.lab_response(far.units).ns),
        pause_ns=table.pause_ns(port),
    )


def _dcbx_plan(port: PortState, chassis: ChassisId) -> DcbxPlan | None:
    assert port.settings is not None
    if not port.settings.dcbx:
        return None
    names = {TextKind.PORT_DESCRIPTION: port.name, TextKind.SYSTEM_NAME: port.node.name}
    texts = tuple(Text(kind, name.encode()) for kind, name in names.items())
    identity = PortIdentity(port.mac, chassis, PortId.interface(port.name), texts)
    return DcbxPlan(identity, port.settings.dcbx, port.settings.lldp, port.scale)


def _headroom_plan(port: PortState, cells: MeasuredHeadroom, measuring: int) -> HeadroomPlan | None:
    assert port.settings is not None
    if not port.settings.measures:
        return None
    seed = port.slot.to_bytes(4, "big") + port.mac.octets  # the lab has no attackers, and runs repeat
    return HeadroomPlan(_measurement(port, measuring), port.settings.measurement_key, seed, cells)


def _measurement(port: PortState, measuring: int) -> MeasurementSettings:
    """Return the settings of a port's measurement in a network where `measuring` ports measure."""
    assert port.settings is not None
    chosen = port.settings.measurement
    if chosen is MEASUREMENT:
        chosen = replace(chosen, interval_ns=max(chosen.interval_ns, measuring * _MEASURING_NS))
    return replace(chosen, timeout_ns=chosen.timeout_ns + 2 * port.lab_cable.delay.ns)
