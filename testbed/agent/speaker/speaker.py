"""DCBX on the ports of one node: LLDP in and out, and what is negotiated put on the ports.

It is a process of its own, beside the node's agent and less urgent: to understand a frame takes it milliseconds, and a
pause cannot wait that long. What has to do with pauses it orders of the agent (`orders.py`).

The order in which things are told is the order in which nothing is lost: a buffer takes a priority as lossless before
PFC is on for it, or as soon as cells are free, and PFC is off, the far end let go, before the buffer takes it as lossy.
"""

from __future__ import annotations

import errno
import json
import os
import select
import signal
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from testbed.agent import query_socket
from testbed.agent.event_log import RECORD
from testbed.agent.events import AgentEvent
from testbed.agent.handover import Handover
from testbed.agent.orders import DONE, LARGEST_NOTICE, NOTICE, NoticeType, Order, OrderType
from testbed.agent.plan import AgentPlan, BufferLayout
from testbed.agent.timed_send import at_its_moment
from testbed.agent.wan.sr_notes import SrNotes
from testbed.agent.wan.wan_agent import Services, WanAgent
from testbed.dcbx import show
from testbed.dcbx.changes import changes
from testbed.dcbx.events import ApplicationsChanged, CnChanged, EtsChanged, Event, HeadroomChanged, PfcChanged
from testbed.dcbx.port import DcbxPort
from testbed.dcbx.settings import DcbxSettings
from testbed.errors import UsageError
from testbed.frames.dcbx.values import Ets
from testbed.frames.mac_control import LONGEST_PAUSE
from testbed.headroom.measurement import Measurer, Output, Phase, Status
from testbed.linux import kernel, netlink
from testbed.linux.link_state import LinkWatch
from testbed.linux.lldp_socket import LldpSocket
from testbed.linux.port_program import Entry, PortProgram
from testbed.pfc import NEVER
from testbed.pfc.wire import pause_ns
from testbed.priority import applications
from testbed.units import Duration

URGENCY = 30
"""A speaker's real-time priority: below agents, above traffic."""
_PATIENCE_S = 2.0
_AGAIN_NS = 1_000_000
"""How soon a buffer is asked again that has to drain before it can be divided anew."""


@dataclass
class Applied:
    """What was put on a port, so that it is put there once."""

    enabled: int
    defended_pfc: int = 0
    defended_cn: int = 0
    ets: Ets | None = None
    applications: dict[Entry, int] = field(default_factory=dict)


@dataclass(frozen=True)
class SpeakerResources:
    """What a speaker inherits: made before it was forked, and shared with its successor."""

    program: PortProgram
    notes: Handover
    log: int
    dcbx_log: int
    control: int
    orders: int
    news: int
    """File descriptors: of the event log, of the log of DCBX, and of the sockets to the network's own process and to
    the agent (orders) and from it (news: measurement frames that came in, and congestion)."""


@dataclass
class SpeakerPortState:
    """What a successor needs of one port."""

    settings: DcbxSettings
    running: bool
    frames: tuple[bytes, ...]
    applied: Applied


@dataclass
class SpeakerState:
    """What a successor needs."""

    ports: Mapping[int, SpeakerPortState]
    wan: SrNotes | None


class Speaker:
    """DCBX of one node."""

    def __init__(self, plan: AgentPlan, resources: SpeakerResources) -> None:
        self._plan, self._program = plan, resources.program
        self._notes, self._log, self._dcbx_log = resources.notes, resources.log, resources.dcbx_log
        self._control = socket.socket(fileno=os.dup(resources.control))
        self._orders = socket.socket(fileno=os.dup(resources.orders))
        self._orders.settimeout(_PATIENCE_S)
        self._unanswered = True
        """Is there an order whose answer did not come in time, perhaps a predecessor's?"""
        self._news = socket.socket(fileno=os.dup(resources.news))
        self._news.setblocking(False)
        kernel.enter_network_of(plan.pid)
        self._netlink = netlink.Socket()
        self._watch = LinkWatch()
        self._ports = {port.slot: port for port in plan.ports}
        self._sockets = {port.slot: LldpSocket(port.name) for port in plan.ports if port.dcbx}
        self._dcbx: dict[int, DcbxPort] = {}
        self._applied: dict[int, Applied] = {}
        self._wanted: dict[int, int] = {port.slot: port.pfc.mask for port in plan.ports}
        """The lossless priorities of each port; the buffer may not have room for all."""
        self._granted = dict(self._wanted)
        """Those that it has room for."""
        self._refused: dict[int, str] = {}
        self._retry_ns = NEVER
        self._draining: dict[int, int] = {}
        self._measurers = {
            port.slot: Measurer(port.name, port.mac, port.headroom.seed, port.headroom.settings, port.headroom.key)
            for port in plan.ports
            if port.headroom
        }
        self._wan: WanAgent | None = None
        self._wan_left: SrNotes | None = None
        self._headroom: dict[int, int] = {}
        """Cells, where they were measured."""
        self._kept: dict[int, tuple[bytes, ...]] = {}
        """What was heard at each port, as it is in the notes."""

    def run(self) -> None:
        """Until the network's own process closes the control socket, or says so."""
        kernel.real_time(URGENCY)
        self._start(time.monotonic_ns())
        timer, waiting = kernel.Timer(), select.epoll()
        slots = {socket.fd: slot for slot, socket in self._sockets.items()}
        news = self._news.fileno()
        wan = self._wan.files if self._wan else {}
        for file in (self._control.fileno(), self._watch.fd, news, timer.fd, *slots, *wan):
            waiting.register(file, select.EPOLLIN)
        while True:
            timer.set(self.deadline_ns)
            for file, _ in waiting.poll():
                now_ns = time.monotonic_ns()
                if file in slots:
                    self._hear(slots[file], now_ns)
                elif file in wan:
                    wan[file](now_ns)
                elif file == news:
                    self._take_news()
                elif file == timer.fd:
                    timer.clear()
                    self._expire(now_ns)
                elif file == self._watch.fd:
                    self._follow_links(now_ns)
                elif not self._answer(now_ns):
                    return

    def _start(self, now_ns: int) -> None:
        """Begin, or go on where the predecessor stopped."""
        notes: SpeakerState = self._notes.read() or SpeakerState({}, None)
        left, self._wan_left = notes.ports, notes.wan
        up = {link.index: link.can_talk for link in self._watch.all()}
        for slot in self._sockets:
            plan, kept = self._ports[slot], left.get(slot)
            assert plan.dcbx is not None
            settings = kept.settings if kept else plan.dcbx.settings
            machine = DcbxPort(plan.dcbx.identity, settings, plan.dcbx.timers, plan.dcbx.scale)
            self._dcbx[slot] = machine
            as_planned = Applied(plan.pfc.mask, ets=settings.ets.table if settings.ets else None)
            self._applied[slot] = kept.applied if kept else as_planned
            self._wanted[slot] = self._applied[slot].enabled
            if kept:  # what the predecessor was waiting for is waited for once more
                self._draining[slot] = now_ns + pause_ns(self._ports[slot].rate, LONGEST_PAUSE)
                self._retry_ns = now_ns
            if not up.get(plan.interface) or (kept and not kept.running):
                continue
            machine.start(now_ns)
            if kept:  # what it heard last, it hears again; the states between have been and gone
                for frame in kept.frames:
                    machine.receive(frame, now_ns)
                machine.take_events()
                for event in changes(None, machine.state, now_ns):
                    self._put(slot, event)
            self._settle(slot, now_ns)
        if self._plan.wan:
            means = Services(
                self._program, self._order_prepared, self._record, self._netlink.send, self._keep, self._reserve
            )
            self._wan = WanAgent(self._plan, means, self._wan_left)
            self._wan.start(now_ns)
            for index, can_talk in up.items():
                self._wan.link(index, can_talk, now_ns)

    @property
    def deadline_ns(self) -> int:
        due = [one.deadline_ns or NEVER for one in self._dcbx.values()]
        due.append(self._wan.deadline_ns if self._wan else NEVER)
        due += [NEVER if (at := one.deadline()) is None else at for one in self._measurers.values()]
        return min([self._retry_ns, *due, *self._draining.values()])

    def _hear(self, slot: int, now_ns: int) -> None:
        machine = self._dcbx[slot]
        for frame in self._sockets[slot].receive():
            self._note(slot, show.frame_record(frame, machine.settings.version, "received", now_ns))
            machine.receive(frame, now_ns)
        self._settle(slot, now_ns)

    def _expire(self, now_ns: int) -> None:
        """Do what is due."""
        for slot, machine in self._dcbx.items():
            if (machine.deadline_ns or NEVER) <= now_ns:
                machine.expire(now_ns)
                self._settle(slot, now_ns)
        for slot, due_ns in list(self._draining.items()):
            if due_ns <= now_ns:
                del self._draining[slot]
                self._order(Order(OrderType.DRAINED, slot))
        if self._retry_ns <= now_ns:
            self._divide(now_ns)
        for slot in self._measurers:
            self._measure(slot)
        if self._wan and self._wan.deadline_ns <= now_ns:
            self._wan.expire(now_ns)

    def _answer(self, now_ns: int) -> bool:
        """Do what the network's own process asks; False to end."""
        question = query_socket.receive(self._control)
        if question.verb == "snapshot":
            found: dict[str, Any] = {"dcbx": self._snapshot(), "wan": self._wan.snapshot() if self._wan else None}
        elif question.verb == "measure":
            slot = next((slot for slot in self._measurers if self._ports[slot].name == question.argument), None)
            if slot is None:
                found = {"error": f"{question.argument} does not announce that it measures headroom"}
            else:
                found = {}
                self._measurers[slot].measure(now_ns)
        elif question.verb == "configure":
            found = {}
            try:
                name, settings = question.argument
                self._configure(name, settings, now_ns)
            except UsageError as error:
                found = {"error": str(error)}
        else:
            return False
        query_socket.answer(self._control, question, found)
        return True

    def _configure(self, name: str, settings: DcbxSettings | None, now_ns: int) -> None:
        """An administrator's wish for a port: other settings; None: DCBX off."""
        slot = self._slot(name)
        machine = self._dcbx[slot]
        if settings is None:
            machine.stop(now_ns)
        else:
            if settings.ets and not self._ports[slot].arrange(settings.ets.table).requests:
                raise UsageError(
                    f"{name} cannot run ETS: as it was made each of its queues has line rate; "
                    "give it ETS from the start, Port().with_dcbx(ets=True)"
                )
            machine.configure(settings, now_ns)
            machine.start(now_ns)
        self._settle(slot, now_ns)
        self._keep()

    def _snapshot(self) -> dict[str, Any]:
        """Every port's state, as data."""
        found = {}
        for slot, machine in self._dcbx.items():
            discarded = self._program.port(slot).defended_frames
            more: dict[str, Any] = {"refused": self._refused.get(slot), "discarded": sum(discarded)}
            if measurer := self._measurers.get(slot):
                status = measurer.status
                more["measured"] = {
                    "text": status.text,
                    "round_trip_ns": status.measurement and status.measurement.needed.ns,
                    "longest_ns": status.measurement and status.measurement.longest.ns,
                    "shortest_ns": status.measurement and status.measurement.shortest.ns,
                    "tx_propagation_delay_ns": status.measurement and status.measurement.tx_propagation_delay_ns,
                    "median_ns": status.measurement and status.measurement.percentile(50).ns,
                    "peer_response_ns": status.measurement and status.measurement.response().ns,
                    "cells": self._headroom.get(slot),
                    **measurer.snapshot(),
                }
            found[self._ports[slot].name] = show.snapshot(machine) | more
        return found

    def _slot(self, name: str) -> int:
        for slot in self._dcbx:
            if self._ports[slot].name == name:
                return slot
        speaking = ", ".join(self._ports[slot].name for slot in self._dcbx) or "none"
        raise UsageError(f"{name} does not speak DCBX; of this node's ports these do: {speaking}")

    def _follow_links(self, now_ns: int) -> None:
        changed = self._watch.read()
        for link in self._watch.all() if changed is None else changed:
            for slot, machine in self._dcbx.items():
                if self._ports[slot].interface != link.index or link.can_talk == machine.is_running:
                    continue
                if link.can_talk:
                    machine.start(now_ns)
                else:
                    machine.link_down(now_ns)
                self._settle(slot, now_ns)
            if self._wan:
                self._wan.link(link.index, link.can_talk, now_ns)

    def _settle(self, slot: int, now_ns: int) -> None:
        """Send what is to be sent, put on the port what is new, and note all of it."""
        machine = self._dcbx[slot]
        for frame in machine.take_frames():
            self._note(slot, show.frame_record(frame, machine.settings.version, "sent", now_ns))
            try:
                self._sockets[slot].send(frame)
            except OSError as error:
                self._record(now_ns, AgentEvent.SEND_FAILED, slot, 0, error.errno or errno.EIO)
        events = machine.take_events()
        for event in events:
            self._note(slot, show.record(event))
            self._put(slot, event)
        heard = tuple(neighbour.octets for neighbour in machine.neighbours)
        if events or heard != self._kept.get(slot):
            self._kept[slot] = heard
            self._keep()

    def _put(self, slot: int, event: Event) -> None:
        if isinstance(event, HeadroomChanged):
            self._agree(slot, time.monotonic_ns())
        elif isinstance(event, PfcChanged):
            self._put_pfc(slot, event.enabled, event.defended, event.at_ns)
        elif isinstance(event, CnChanged):
            self._applied[slot].defended_cn = event.defended
            self._defend(slot, event.at_ns)
        elif isinstance(event, EtsChanged):
            self._put_ets(slot, event.ets, event.at_ns)
        elif isinstance(event, ApplicationsChanged):
            applied = self._applied[slot]
            new = applications.table(event.entries, self._dcbx[slot].settings.version)
            found = {(int(about), protocol): priority for (about, protocol), priority in new.items()}
            self._program.set_applications(slot, applied.applications, found)
            applied.applications = found
            self._record(event.at_ns, AgentEvent.APPLICATIONS_SET, slot, 0, len(found))

    def _put_pfc(self, slot: int, enabled: int, defended: int, now_ns: int) -> None:
        applied = self._applied[slot]
        if enabled != applied.enabled:
            added = enabled & ~applied.enabled
            self._wanted[slot] = applied.enabled | enabled
            if added:
                self._divide(now_ns)
            self._order(Order(OrderType.PFC, slot, enabled))
            self._wanted[slot] = enabled
            if applied.enabled & ~enabled:
                self._divide(now_ns)
            applied.enabled = enabled
        applied.defended_pfc = defended
        self._defend(slot, now_ns)

    # Headroom

    def _agree(self, slot: int, now_ns: int) -> None:
        """Measure if both ends can, from the start of the link on."""
        measurer, machine = self._measurers.get(slot), self._dcbx[slot]
        if measurer is not None:
            feature = machine.state.headroom
            measurer.announced(bool(feature.admin), bool(feature.remote), now_ns)
            measurer.link(machine.is_running, now_ns)
            self._measure(slot)

    def _take_news(self) -> None:
        while True:
            try:
                data = self._news.recv(LARGEST_NOTICE)
            except BlockingIOError:
                return
            what, priority, slot, arrived_ns, effective_ns = NOTICE.unpack_from(data)
            if what != NoticeType.MEASUREMENT:
                if self._wan:
                    self._wan.congested(slot, priority, what == NoticeType.XOFF, arrived_ns, time.monotonic_ns())
            elif measurer := self._measurers.get(slot):
                if measurer.status.phase is Phase.OFF_THERE:  # what the peer announced may have come just before
                    self._hear(slot, time.monotonic_ns())
                measurer.receive(data[NOTICE.size :], time.monotonic_ns(), arrived_ns, effective_ns)
                self._measure(slot)

    def _measure(self, slot: int) -> None:
        """Send what is due, at the moment that is in it."""
        measurer = self._measurers[slot]
        due_ns = measurer.deadline()
        if due_ns is None or due_ns > time.monotonic_ns():
            return
        news: list[Status] = []

        def write(moment_ns: int) -> tuple[Output, list[tuple[Callable[[bytes], None], bytes]]]:
            output = measurer.poll(moment_ns)
            if output.status:
                news.append(output.status)
            frames: list[tuple[Callable[[bytes], None], bytes]] = [
                (self._sockets[slot].send, frame) for frame in output.answers
            ]
            if output.request:
                frames.append((self._order_now, Order(OrderType.SEND, slot, frame=output.request).encode()))
            return output, frames

        _, frames = at_its_moment(write, lambda written: measurer.take_back(written[0]))
        for send, frame in frames:
            try:
                send(frame)
            except OSError as error:
                self._record(time.monotonic_ns(), AgentEvent.SEND_FAILED, slot, 0, error.errno or errno.EIO)
        if news:
            self._tell_status(slot, news[-1], time.monotonic_ns())

    def _tell_status(self, slot: int, status: Status, now_ns: int) -> None:
        self._note(slot, {"t_ns": now_ns, "what": "headroom", "phase": str(status.phase), "text": status.text})
        plan, found = self._ports[slot].headroom, status.measurement
        cells = None if found is None or plan is None else plan.cells(found.needed)
        if cells == self._headroom.get(slot):
            return
        if cells is None:
            del self._headroom[slot]
            self._record(now_ns, AgentEvent.HEADROOM_DEFAULT, slot, 0, 0)
        else:
            assert found is not None
            self._headroom[slot] = cells
            self._record(now_ns, AgentEvent.HEADROOM_MEASURED, slot, 0, found.needed.ns)
        self._divide(now_ns)

    def _reserve(self, slot: int, round_trip: Duration) -> None:
        """Headroom for a round trip through a tunnel."""
        cells_for = self._ports[slot].cells_for
        assert cells_for is not None
        cells = cells_for(round_trip)
        if cells != self._headroom.get(slot):
            now_ns = time.monotonic_ns()
            self._headroom[slot] = cells
            self._record(now_ns, AgentEvent.HEADROOM_MEASURED, slot, 0, round_trip.ns)
            self._divide(now_ns)

    # The rest

    def _defend(self, slot: int, now_ns: int) -> None:
        applied = self._applied[slot]
        mask = applied.defended_pfc | applied.defended_cn
        if mask != self._program.defended(slot):
            self._program.set_defended(slot, mask)
            self._record(now_ns, AgentEvent.DEFENSE_SET, slot, mask, 0)

    def _put_ets(self, slot: int, ets: Ets | None, now_ns: int) -> None:
        port, applied = self._ports[slot], self._applied[slot]
        if ets == applied.ets:
            return
        arrangement = port.arrange(ets)
        if arrangement.requests:
            self._netlink.send(arrangement.requests)
            self._order(Order(OrderType.QUEUES, slot, 0, arrangement.queue_of, arrangement.sockets))
            self._draining[slot] = now_ns + pause_ns(port.rate, LONGEST_PAUSE)
            self._record(now_ns, AgentEvent.ETS_SET, slot, 0, 0)
        applied.ets = ets

    def _divide(self, now_ns: int) -> None:
        """Give every priority the buffer that it needs, now or as soon as enough cells are free."""
        self._retry_ns = NEVER
        if self._plan.divide is None:
            return
        division = self._possible(self._plan.divide, now_ns)
        if division is None:
            return
        number, sizes, limits = self._plan.number, division.sizes, division.limits
        if self._program.busy(number, sizes, limits):
            self._retry_ns = now_ns + _AGAIN_NS
            resumed = self._program.give_up(number, limits)
        else:
            resumed = self._program.configure(number, sizes, limits)
        for slot, priority in resumed:
            self._order(Order(OrderType.RELIEVED, slot, 1 << priority))

    def _possible(
        self, divide: Callable[[Mapping[int, int], Mapping[int, int]], BufferLayout], now_ns: int
    ) -> BufferLayout | None:
        """The division that serves most: nobody loses what he has to another, and who cannot have more is told why. If
        what was measured does not fit, ports do without, those that need most before others.
        """
        refused: dict[int, str] = {}
        granted = {slot: mask & self._wanted[slot] for slot, mask in self._granted.items()}
        found: BufferLayout | None = None
        by_need = sorted(self._headroom, key=lambda slot: self._headroom[slot])
        while True:
            try:
                found = divide(granted, self._headroom)
                break
            except UsageError as error:
                asking = [slot for slot in by_need if granted.get(slot)]
                if not asking:
                    raise
                granted[asking[-1]] = 0
                refused[asking[-1]] = str(error)
        for slot, mask in sorted(self._wanted.items()):
            if granted[slot] == mask:
                continue
            try:
                found = divide(granted | {slot: mask}, self._headroom)
                granted[slot] = mask
            except UsageError as error:
                refused[slot] = str(error)
        for slot, why in refused.items():
            if slot not in self._refused:
                missing = self._wanted[slot] & ~granted[slot]
                self._note(slot, {"t_ns": now_ns, "what": "not_lossless", "why": why})
                self._record(now_ns, AgentEvent.NOT_LOSSLESS, slot, missing, 0)
        self._refused, self._granted = refused, granted
        return found

    def _order(self, order: Order) -> None:
        self._order_prepared(order.encode())

    def _order_prepared(self, order: bytes) -> None:
        """Have the agent do it, and wait until it has: it is there within a moment, or its successor is."""
        try:
            self._order_now(order)
        except TimeoutError:  # it will be done when there is an agent again
            refused = Order.parse(order)
            self._record(time.monotonic_ns(), AgentEvent.SEND_FAILED, refused.slot, refused.mask, errno.ETIMEDOUT)

    def _order_now(self, order: bytes) -> None:
        if self._unanswered:  # an answer that came too late is none to this order
            self._orders.setblocking(False)
            with suppress(BlockingIOError):
                while self._orders.recv(len(DONE)):
                    pass
            self._orders.settimeout(_PATIENCE_S)
        self._unanswered = True
        self._orders.send(order)
        self._orders.recv(len(DONE))
        self._unanswered = False

    def _keep(self) -> None:
        kept = {
            slot: SpeakerPortState(
                machine.settings,
                machine.is_running,
                tuple(neighbour.octets for neighbour in machine.neighbours),
                self._applied[slot],
            )
            for slot, machine in self._dcbx.items()
        }
        self._notes.write(SpeakerState(kept, self._wan.notes if self._wan else self._wan_left))

    def _note(self, slot: int, line: dict[str, Any]) -> None:
        port = self._ports[slot].name
        os.write(self._dcbx_log, (json.dumps({"port": port} | line, separators=(",", ":")) + "\n").encode())

    def _record(self, now_ns: int, kind: AgentEvent, slot: int, mask: int, value: int) -> None:
        os.write(self._log, RECORD.pack(now_ns, kind, slot, mask, value))


def main(plan: AgentPlan, resources: SpeakerResources) -> None:
    """The body of a speaker's process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    Speaker(plan, resources).run()
