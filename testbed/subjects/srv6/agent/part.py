"""End.X.PFC as a part of a router's speaker."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from testbed.agent.orders import NoticeType
from testbed.agent.plan import AgentPlan, PartPlan
from testbed.agent.speaker.part import Notice, Part, Services
from testbed.subjects.srv6.agent.plan import WanPlan
from testbed.subjects.srv6.agent.sr_notes import SrNotes
from testbed.subjects.srv6.agent.wan_agent import WanAgent, WanServices
from testbed.units import Duration


@dataclass(frozen=True)
class WanPartPlan(PartPlan):
    """The plan of a router's part in End.X.PFC. `cells` gives the headroom, in cells, for a round trip that is measured
    through a tunnel, by the slots of ports that signal congestion in tunnels."""

    plan: WanPlan
    cells: Mapping[int, Callable[[Duration], int]]
    notified: frozenset[int] = frozenset()
    name = "wan"
    handover_ports = 80
    """As much as a router's policies, tunnels and VPNs take (`sr_notes.MOST_OCTETS`)."""

    def part(self, node: AgentPlan, services: Services, before: Any, succeeds: bool) -> WanPart:
        return WanPart(self, node, services, before, succeeds)


class WanPart(Part):
    """The WAN agent of a router in its speaker."""

    def __init__(
        self, plan: WanPartPlan, node: AgentPlan, services: Services, before: SrNotes | None, succeeds: bool
    ) -> None:
        self._plan, self._services, self._succeeds = plan, services, succeeds
        self._agent = WanAgent(
            plan.plan,
            node,
            WanServices(
                services.program,
                services.orders.send_encoded,
                services.log.record,
                services.netlink.send,
                services.changed,
                self._reserve,
            ),
            before,
        )

    def start(self, up: Mapping[int, bool], now_ns: int) -> None:
        self._agent.start(now_ns, succeeds=self._succeeds)
        for interface, is_up in up.items():
            self._agent.link(interface, is_up, now_ns)

    @property
    def files(self) -> dict[int, Callable[[int], None]]:
        return self._agent.files

    @property
    def deadline_ns(self) -> int:
        return self._agent.deadline_ns

    @property
    def notes(self) -> SrNotes | None:
        return self._agent.notes

    def expire(self, now_ns: int) -> None:
        self._agent.expire(now_ns)

    def link(self, interface: int, is_up: bool, now_ns: int) -> None:
        self._agent.link(interface, is_up, now_ns)

    def notice(self, notice: Notice) -> None:
        if notice.what is not NoticeType.MEASUREMENT:
            is_congested = notice.what is NoticeType.XOFF
            self._agent.congested(notice.slot, notice.priority, is_congested, notice.arrived_ns, time.monotonic_ns())

    def snapshot(self) -> dict[str, Any]:
        return self._agent.snapshot()

    def _reserve(self, slot: int, round_trip: Duration) -> None:
        """Reserve headroom at a port for a round trip that was measured through a tunnel."""
        cells = self._plan.cells[slot](round_trip)
        self._services.buffer.reserve(slot, cells, round_trip.ns, time.monotonic_ns())
