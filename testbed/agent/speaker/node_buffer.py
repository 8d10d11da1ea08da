"""The division of a node's buffer among its ports when it has not enough cells to make all of them lossless.

The order of changes is the one in which no frame is lost. The buffer takes a priority as lossless before PFC is enabled
for it, or as soon as enough cells are free. PFC is disabled, and the far end resumed, before the buffer takes the
priority as lossy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from testbed.agent.events import AgentEvent
from testbed.agent.orders import Order, OrderType
from testbed.agent.plan import AgentPlan, BufferLayout
from testbed.agent.speaker.outputs import OrderSocket, SpeakerLog
from testbed.errors import UsageError
from testbed.linux.port_program import PortProgram
from testbed.units import NEVER

_RETRY_NS = 1_000_000
"""The time after which a layout is tried again that has to wait until the buffer has drained."""

LayOut = Callable[[Mapping[int, int], Mapping[int, int], Mapping[int, int]], BufferLayout]
"""A function that returns the layout for these lossless priorities, a mask for each slot, these headrooms, and these
numbers of traffic classes of peers; UsageError if there are too few cells."""


class CellAllocation:
    """The requests of ports for lossless priorities and headroom, and what they are granted."""

    def __init__(self, wanted: Mapping[int, int]) -> None:
        self.wanted = dict(wanted)
        """The lossless priorities of each port, as a mask."""
        self.granted = dict(wanted)
        """The lossless priorities that the buffer has cells for, as a mask."""
        self.headroom: dict[int, int] = {}
        """The measured headroom of each port, in cells."""
        self.classes: dict[int, int] = {}
        """The number of the peer's traffic classes, for each port that sizes its buffer by it."""
        self.refused: dict[int, str] = {}
        """The reason for which a port has fewer lossless priorities than it requests."""

    def best(self, lay_out: LayOut) -> BufferLayout | None:
        """Return the layout that serves most ports, which are then granted what is in it.

        No port loses lossless priorities because another requests more. If measured headrooms do not fit, the ports
        that measured most go without first.
        """
        refused: dict[int, str] = {}
        granted = {slot: mask & self.wanted[slot] for slot, mask in self.granted.items()}
        layout: BufferLayout | None = None
        by_need = sorted(self.headroom, key=lambda slot: self.headroom[slot])
        while True:
            try:
                layout = lay_out(granted, self.headroom, self.classes)
                break
            except UsageError as error:
                asking = [slot for slot in by_need if granted.get(slot)]
                if not asking:
                    raise
                granted[asking[-1]] = 0
                refused[asking[-1]] = str(error)
        for slot, mask in sorted(self.wanted.items()):
            if granted[slot] == mask:
                continue
            try:
                layout = lay_out(granted | {slot: mask}, self.headroom, self.classes)
                granted[slot] = mask
            except UsageError as error:
                refused[slot] = str(error)
        self.refused, self.granted = refused, granted
        return layout

    def missing(self, slot: int) -> int:
        """Return the priorities that the port requests and is not granted."""
        return self.wanted[slot] & ~self.granted[slot]


class NodeBuffer:
    """The buffer of one node, in the port program."""

    def __init__(self, plan: AgentPlan, program: PortProgram, orders: OrderSocket, log: SpeakerLog) -> None:
        self._number, self._lay_out = plan.number, plan.lay_out_buffer
        self._program, self._orders, self._log = program, orders, log
        self.allocation = CellAllocation({port.slot: port.pfc.mask for port in plan.ports})
        self.retry_ns = NEVER
        """The time when `apply` has to be called again, because the buffer is draining."""

    def apply(self, now_ns: int) -> None:
        """Give every priority the buffer that it needs, now or as soon as enough cells are free."""
        self.retry_ns = NEVER
        if self._lay_out is None:
            return
        before = set(self.allocation.refused)
        layout = self.allocation.best(self._lay_out)
        self._log_refusals(before, now_ns)
        if layout is None:
            return
        if self._program.buffers.busy(self._number, layout.pools, layout.limits):
            self.retry_ns = now_ns + _RETRY_NS
            resumed = self._program.buffers.give_up(self._number, layout.limits)
        else:
            resumed = self._program.buffers.configure(self._number, layout.pools, layout.limits)
        for slot, priority in resumed:
            self._orders.send(Order(OrderType.RELIEVED, slot, 1 << priority))

    def change(self, slot: int, before: int, after: int, enable: Callable[[], None], now_ns: int) -> None:
        """Change the lossless priorities of a port; `enable` changes PFC, when the buffer is ready for it."""
        self.allocation.wanted[slot] = before | after
        if after & ~before:
            self.apply(now_ns)
        enable()
        self.allocation.wanted[slot] = after
        if before & ~after:
            self.apply(now_ns)

    def divide(self, slot: int, classes: int | None, now_ns: int) -> None:
        """Size a port's buffer for so many traffic classes of its peer; None for any number."""
        before = self.allocation.classes.pop(slot, None)
        if classes is not None:
            self.allocation.classes[slot] = classes
        if classes != before:
            self.apply(now_ns)

    def reserve(self, slot: int, cells: int | None, round_trip_ns: int, now_ns: int) -> None:
        """Use a measured headroom at a port; None for the configured one again."""
        headroom = self.allocation.headroom
        if cells == headroom.get(slot):
            return
        if cells is None:
            del headroom[slot]
            self._log.record(now_ns, AgentEvent.HEADROOM_DEFAULT, slot, 0, 0)
        else:
            headroom[slot] = cells
            self._log.record(now_ns, AgentEvent.HEADROOM_MEASURED, slot, 0, round_trip_ns)
        self.apply(now_ns)

    def _log_refusals(self, before: set[int], now_ns: int) -> None:
        for slot, why in self.allocation.refused.items():
            if slot not in before:
                self._log.line(slot, {"t_ns": now_ns, "what": "not_lossless", "why": why})
                self._log.record(now_ns, AgentEvent.NOT_LOSSLESS, slot, self.allocation.missing(slot), 0)
