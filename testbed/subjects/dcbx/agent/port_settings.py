"""The negotiated settings of a node's ports: PFC, shares of the line, application priorities and defenses.

What concerns pauses goes to the PFC agent as an order, the shares to the kernel's qdiscs, the rest to the port program.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from testbed.agent.events import AgentEvent
from testbed.agent.orders import Order, OrderType
from testbed.agent.plan import PortPlan
from testbed.agent.speaker.part import Services
from testbed.frames.dcbx.values import AppEntry, DcbxVersion, Ets
from testbed.frames.mac_control import LONGEST_PAUSE
from testbed.linux.port_program import Entry
from testbed.subjects.dcbx.events import (
    ApplicationsChanged,
    CnChanged,
    EtsChanged,
    Event,
    PfcChanged,
    TrafficClassesChanged,
)
from testbed.switch.pfc.wire import pause_ns
from testbed.switch.priority import applications


@dataclass
class Applied:
    """The settings that a port has at this moment."""

    enabled: int
    defended_pfc: int = 0
    defended_cn: int = 0
    held_pfc: int = 0
    held_cn: int = 0
    ets: Ets | None = None
    applications: dict[Entry, int] = field(default_factory=dict)


class PortSettings:
    """The settings of all ports of one node that run DCBX."""

    def __init__(self, ports: Mapping[int, PortPlan], services: Services) -> None:
        self._ports, self._program, self._netlink = ports, services.program, services.netlink
        self._orders, self._buffer, self._log = services.orders, services.buffer, services.log
        self.applied: dict[int, Applied] = {}
        self.draining: dict[int, int] = {}
        """The time until which frames may lie in the queues from before a change of ETS, by slot."""

    def start(self, slot: int, made_with: Applied, applied: Applied | None, now_ns: int) -> None:
        """Begin with the settings that a port was made with, or with those that a predecessor has applied."""
        self.applied[slot] = applied or made_with
        self._buffer.allocation.wanted[slot] = self.applied[slot].enabled
        if applied:  # the predecessor may have been waiting for either
            self._drain(slot, now_ns)
            self._buffer.retry_ns = now_ns

    def expire(self, now_ns: int) -> None:
        for slot, due_ns in list(self.draining.items()):
            if due_ns <= now_ns:
                del self.draining[slot]
                self._orders.send(Order(OrderType.DRAINED, slot))

    def apply(self, slot: int, event: Event, version: DcbxVersion) -> None:
        """Apply an event of DCBX to the port."""
        if isinstance(event, PfcChanged):
            self._apply_hold(slot, event.held or 0, self.applied[slot].held_cn)
            self._apply_pfc(slot, event.enabled, event.at_ns)
            self.applied[slot].defended_pfc = event.defended
            self._apply_defense(slot, event.at_ns)
        elif isinstance(event, CnChanged):
            self.applied[slot].defended_cn = event.defended
            self._apply_defense(slot, event.at_ns)
            self._apply_hold(slot, self.applied[slot].held_pfc, event.held or 0)
        elif isinstance(event, TrafficClassesChanged):
            self._buffer.divide(slot, event.buffered, event.at_ns)
        elif isinstance(event, EtsChanged):
            self._apply_ets(slot, event.ets, event.at_ns)
        elif isinstance(event, ApplicationsChanged):
            self._apply_applications(slot, event.entries, version, event.at_ns)

    def _apply_pfc(self, slot: int, enabled: int, now_ns: int) -> None:
        applied = self.applied[slot]
        if enabled == applied.enabled:
            return

        def enable() -> None:
            self._orders.send(Order(OrderType.PFC, slot, enabled))

        self._buffer.change(slot, applied.enabled, enabled, enable, now_ns)
        applied.enabled = enabled

    def _apply_defense(self, slot: int, now_ns: int) -> None:
        applied = self.applied[slot]
        mask = applied.defended_pfc | applied.defended_cn
        if mask != self._program.defended(slot):
            self._program.set_defended(slot, mask)
            self._log.record(now_ns, AgentEvent.DEFENSE_SET, slot, mask, 0)

    def _apply_hold(self, slot: int, by_pfc: int, by_cn: int) -> None:
        applied = self.applied[slot]
        before, applied.held_pfc, applied.held_cn = applied.held_pfc | applied.held_cn, by_pfc, by_cn
        if (held := by_pfc | by_cn) != before:
            self._orders.send(Order(OrderType.HOLD, slot, held))

    def _apply_ets(self, slot: int, ets: Ets | None, now_ns: int) -> None:
        port, applied = self._ports[slot], self.applied[slot]
        if ets == applied.ets:
            return
        arrangement = port.arrange(ets)
        if arrangement.requests:
            self._netlink.send(arrangement.requests)
            self._orders.send(Order(OrderType.QUEUES, slot, 0, arrangement.queue_of, arrangement.sockets))
            self._drain(slot, now_ns)
            self._log.record(now_ns, AgentEvent.ETS_SET, slot, 0, 0)
        applied.ets = ets

    def _apply_applications(self, slot: int, entries: tuple[AppEntry, ...], version: DcbxVersion, now_ns: int) -> None:
        applied, new = self.applied[slot], applications.table(entries, version)
        found = {(int(about), protocol): priority for (about, protocol), priority in new.items()}
        self._program.set_applications(slot, applied.applications, found)
        applied.applications = found
        self._log.record(now_ns, AgentEvent.APPLICATIONS_SET, slot, 0, len(found))

    def _drain(self, slot: int, now_ns: int) -> None:
        self.draining[slot] = now_ns + pause_ns(self._ports[slot].rate, LONGEST_PAUSE)
