"""The plan of a node's part in DCBX, made of the settings of its ports."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from testbed.agent.plan import HeadroomPlan
from testbed.frames.lldp import ChassisId, PortId
from testbed.frames.lldp_tlvs import Text, TextKind
from testbed.net.fabric.port import MEASUREMENT
from testbed.net.fabric.ports import FabricError, PortState, PortTable
from testbed.net.fabric.switch_buffer import MeasuredHeadroom
from testbed.subjects.dcbx.agent.part import DcbxPartPlan, DcbxPlan
from testbed.subjects.dcbx.settings import DcbxSettings, PortIdentity
from testbed.switch.headroom.exchange import Settings as MeasurementSettings

_MEASURING_NS = 2_000_000
"""The least interval between two measurements of a network, as each takes about a millisecond of the lab's CPU."""


def part_plan(table: PortTable, ports: Sequence[PortState]) -> DcbxPartPlan | None:
    """Return the plan of the node that has these ports; None if none of them speaks DCBX."""
    chassis = ChassisId.of_mac(ports[0].mac)
    speaking = {port.slot: _port_plan(port, chassis) for port in ports if port.settings and port.settings.dcbx}
    if not speaking:
        return None
    own = [port for port in ports if port.settings and port.settings.measures]
    measuring = sum(bool(port.settings and port.settings.measures) for port in table.by_slot.values()) if own else 0
    return DcbxPartPlan(speaking, {port.slot: _headroom_plan(port, measuring) for port in own})


def _port_plan(port: PortState, chassis: ChassisId) -> DcbxPlan:
    assert port.settings is not None and port.settings.dcbx is not None
    names = {TextKind.PORT_DESCRIPTION: port.name, TextKind.SYSTEM_NAME: port.node.name}
    texts = tuple(Text(kind, name.encode()) for kind, name in names.items())
    identity = PortIdentity(port.mac, chassis, PortId.interface(port.name), texts)
    if not isinstance(port.settings.dcbx, DcbxSettings):
        raise FabricError(f"{port.name}: dcbx is {port.settings.dcbx!r}; write Port().with_dcbx()")
    return DcbxPlan(identity, port.settings.dcbx, port.settings.lldp, port.scale)


def _headroom_plan(port: PortState, measuring: int) -> HeadroomPlan:
    assert port.queues is not None and port.settings is not None
    cells = MeasuredHeadroom(port.buffer, port.lab_cable.rate, port.queues.mtu)
    seed = port.slot.to_bytes(4, "big") + port.mac.octets  # the lab has no attackers, and runs repeat
    return HeadroomPlan(_measurement(port, measuring), port.settings.measurement_key, seed, cells)


def _measurement(port: PortState, measuring: int) -> MeasurementSettings:
    """Return the settings of a port's measurement in a network where `measuring` ports measure."""
    assert port.settings is not None
    chosen = port.settings.measurement
    if chosen is MEASUREMENT:
        chosen = replace(chosen, interval_ns=max(chosen.interval_ns, measuring * _MEASURING_NS))
    return replace(chosen, timeout_ns=chosen.timeout_ns + 2 * port.lab_cable.delay.ns)
