"""Changes of PFC and ECN at ports while their network runs.

A port that runs DCBX gets another administrative setting, and negotiates. Any other port changes at once: its agent
gets an order, as from a speaker, and the buffer of its node is laid out anew.
"""

from __future__ import annotations

import time
from dataclasses import replace

from testbed.agent.orders import Order, OrderType
from testbed.errors import XoffError
from testbed.linux.process import kernel
from testbed.net.fabric.fabric import Fabric
from testbed.net.fabric.port import Buffer, Port
from testbed.net.fabric.ports import FabricError, PortState, forwards
from testbed.net.fabric.switch_buffer import SwitchBuffer
from testbed.switch.ecn.curve import LONGEST_QUEUE, EcnCurve

NO_MARKS = EcnCurve(LONGEST_QUEUE, LONGEST_QUEUE, 1, keep_not_ect=True)
"""A curve that no queue reaches: it marks nothing, and can be changed while the port runs."""
_TRIES, _RETRY_S = 200, 0.001
_URGENCY = 45


def enabled(fabric: Fabric, port: PortState) -> int:
    """Return the mask of priorities for which PFC is enabled now."""
    states = fabric.snapshot(port.node.name)["ports"][port.name]["priorities"]
    return sum(1 << state["priority"] for state in states if state["enabled"])


def set_pfc(fabric: Fabric, name: str, priority: int, on: bool) -> None:
    """Enable or disable PFC for a priority of a port, both for the pauses that it sends and those that it obeys."""
    port = fabric.port(name)
    assert port.settings is not None
    if port.settings.dcbx is not None:
        _set_by_dcbx(fabric, port, priority, on)
        return
    ports = fabric.core.ports.by_node()[port.node.name]
    if any(one.settings and one.settings.dcbx for one in ports):
        raise FabricError(f"{name} has no DCBX, and another port of {port.node.name} has, which lays out the buffer")
    masks = {one.slot: enabled(fabric, one) for one in ports}
    before = masks[port.slot]
    after = before | 1 << priority if on else before & ~(1 << priority)
    if after == before:
        return
    if on:  # the priority is lossless in the buffer before PFC is on, and lossy after PFC is off
        _lay_out(fabric, ports, masks | {port.slot: after})
    _order(fabric, port, Order(OrderType.PFC, port.slot, after))
    if not on:
        _lay_out(fabric, ports, masks | {port.slot: after})


def set_ecn(fabric: Fabric, name: str, priority: int, curve: EcnCurve | None) -> None:
    """Give a queue another ECN curve; with None it marks nothing. It has to have had a curve at the port's start."""
    port = fabric.port(name)
    assert port.queues is not None and port.settings is not None
    if priority not in port.settings.ecn:
        having = ", ".join(map(str, sorted(port.settings.ecn))) or "none"
        raise FabricError(f"{name} was made without ECN for priority {priority}; with it: {having}")
    curve = curve or NO_MARKS
    with kernel.urgently(_URGENCY):
        fabric.core.sockets.of(port.node).send(port.queues.marking(priority, curve))
    port.settings = replace(port.settings, ecn=dict(port.settings.ecn) | {priority: curve})


def buffer_of(fabric: Fabric, node: str) -> Buffer:
    """Return the settings of the buffer of a switch or router."""
    found = fabric.core.ports.node(node)
    if not forwards(found):
        raise FabricError(f"{node} has no buffer; switches and routers have one")
    return fabric.core.ports.by_node()[node][0].buffer


def set_buffer(fabric: Fabric, node: str, buffer: Buffer) -> None:
    """Give a switch or router a buffer with other settings, and divide it anew."""
    before, ports = buffer_of(fabric, node), fabric.core.ports.by_node()[node]
    if any(one.settings and one.settings.dcbx for one in ports):
        raise FabricError(f"DCBX lays out the buffer of {node}, whose thresholds are those of the start")
    ports[0].node.params["buffer"] = buffer
    try:
        _lay_out(fabric, ports, {one.slot: enabled(fabric, one) for one in ports})
    except XoffError:
        ports[0].node.params["buffer"] = before
        raise


def with_dormant_ecn(port: Port) -> Port:
    """Return the port with an ECN curve that marks nothing for each lossless priority without one."""
    return replace(port, ecn={priority: NO_MARKS for priority in port.pfc.enabled} | dict(port.ecn))


def _set_by_dcbx(fabric: Fabric, port: PortState, priority: int, on: bool) -> None:
    assert port.settings is not None and port.settings.dcbx is not None
    settings = port.settings.dcbx
    if settings.lossless is None:
        raise FabricError(f"{port.name} does not announce PFC by DCBX")
    changed = settings.with_lossless(settings.lossless | {priority} if on else settings.lossless - {priority})
    fabric.core.running_agents().ask_part(port.node.name, "dcbx", "configure", (port.name, changed))
    port.settings = replace(port.settings, dcbx=changed)


def _lay_out(fabric: Fabric, ports: list[PortState], masks: dict[int, int]) -> None:
    """Lay out the buffer of a node anew, after waiting for frames in it to drain where that is necessary."""
    node = ports[0].node
    if not forwards(node):
        return
    fabric.core.running_program()  # for what a node of another part holds, which decides here, too
    program, number = fabric.core.program, fabric.core.numbers[node.name]
    assert program is not None
    layout = SwitchBuffer.of(ports[0].buffer, ports, fabric.cabling.delays)(masks, {}, {})
    by_slot = {port.slot: port for port in ports}
    for _ in range(_TRIES):
        is_busy = program.buffers.busy(number, layout.pools, layout.limits)
        change = program.buffers.give_up(number, layout.limits) if is_busy else None
        resumed = change if change is not None else program.buffers.configure(number, layout.pools, layout.limits)
        for slot, priority in resumed:
            _order(fabric, by_slot[slot], Order(OrderType.RELIEVED, slot, 1 << priority))
        if not is_busy:
            return
        time.sleep(_RETRY_S)
    raise FabricError(f"the buffer of {node.name} holds too many frames to be divided anew; try again when it is empty")


def _order(fabric: Fabric, port: PortState, order: Order) -> None:
    fabric.core.running_agents().order(port.node.name, order)
