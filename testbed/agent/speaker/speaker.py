"""The speaker of a node: a process that runs DCBX, headroom measurement and End.X.PFC beside the node's PFC agent.

Decoding a frame takes it milliseconds, which a pause cannot wait. So it is less urgent than the agent, and gives orders
to it for all that concerns pauses. What DCBX negotiates goes onto ports by `port_settings`, the buffer is laid out by
`node_buffer`, headroom measured by `headroom`.
"""

from __future__ import annotations

import errno
import select
import signal
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from testbed.agent import query_socket
from testbed.agent.events import AgentEvent
from testbed.agent.handover import Handover
from testbed.agent.orders import LARGEST_NOTICE, NOTICE, NoticeType
from testbed.agent.plan import AgentPlan
from testbed.agent.speaker.headroom import HeadroomMeasurements
from testbed.agent.speaker.node_buffer import NodeBuffer
from testbed.agent.speaker.outputs import OrderSocket, SpeakerLog
from testbed.agent.speaker.port_settings import Applied, PortSettings
from testbed.agent.wan.sr_notes import SrNotes
from testbed.agent.wan.wan_agent import Services, WanAgent
from testbed.errors import UsageError
from testbed.linux.netlink import messages
from testbed.linux.netlink.link_state import LinkWatch
from testbed.linux.port_program import PortProgram
from testbed.linux.process import kernel
from testbed.linux.sockets.lldp_socket import LldpSocket
from testbed.subjects.dcbx import show
from testbed.subjects.dcbx.events import Event, HeadroomChanged, changes
from testbed.subjects.dcbx.port import DcbxPort
from testbed.subjects.dcbx.settings import DcbxSettings
from testbed.units import NEVER

URGENCY = 30
"""A speaker's real-time priority: below agents, above traffic."""


@dataclass(frozen=True)
class SpeakerResources:
    """The resources that a speaker inherits: made before it was forked, and shared with its successor."""

    program: PortProgram
    handover: Handover
    log: int
    dcbx_log: int
    """The file descriptors of the event log and of the log of DCBX."""
    control: socket.socket
    orders: socket.socket
    news: socket.socket
    """The sockets to the network's own process, to the agent (orders) and from it (news: measurement frames that came
    in, and congestion)."""


@dataclass
class SpeakerPortState:
    """The state of one port that a successor has to know."""

    settings: DcbxSettings
    running: bool
    frames: tuple[bytes, ...]
    applied: Applied


@dataclass
class SpeakerState:
    """The state that a successor has to know."""

    ports: Mapping[int, SpeakerPortState]
    wan: SrNotes | None


class Speaker:
    """The loop of one speaker."""

    def __init__(self, plan: AgentPlan, resources: SpeakerResources) -> None:
        self._plan, self._program = plan, resources.program
        self._handover = resources.handover
        self._log = SpeakerLog(resources.log, resources.dcbx_log, {port.slot: port.name for port in plan.ports})
        self._control = resources.control
        self._orders = OrderSocket(resources.orders, self._log)
        self._news = resources.news
        self._news.setblocking(False)
        kernel.enter_network_of(plan.pid)
        self._netlink = messages.Socket()
        self._watch = LinkWatch()
        self._ports = {port.slot: port for port in plan.ports}
        self._sockets = {port.slot: LldpSocket(port.name) for port in plan.ports if port.dcbx}
        self._dcbx: dict[int, DcbxPort] = {}
        self._buffer = NodeBuffer(plan, self._program, self._orders, self._log)
        self._settings = PortSettings(
            self._ports,
            self._program,
            netlink=self._netlink,
            orders=self._orders,
            buffer=self._buffer,
            log=self._log,
        )
        self._headroom = HeadroomMeasurements(self._ports, self._sockets, self._orders, self._buffer, self._log)
        self._wan: WanAgent | None = None
        self._wan_before: SrNotes | None = None
        self._kept: dict[int, tuple[bytes, ...]] = {}
        """The frames of each port's neighbours, as in the handover."""

    def run(self) -> None:
        """Run until the network's own process closes the control socket, or requests the end."""
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
                    self._receive(slots[file], now_ns)
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
        """Start, or continue from the predecessor's state."""
        found: SpeakerState | None = self._handover.read()
        notes = found or SpeakerState({}, None)
        before, self._wan_before = notes.ports, notes.wan
        up = {link.index: link.can_talk for link in self._watch.all()}
        for slot in self._sockets:
            plan, known = self._ports[slot], before.get(slot)
            assert plan.dcbx is not None
            settings = known.settings if known else plan.dcbx.settings
            machine = DcbxPort(plan.dcbx.identity, settings, plan.dcbx.timers, plan.dcbx.scale)
            self._dcbx[slot] = machine
            self._settings.start(slot, known.applied if known else None, now_ns)
            if not up.get(plan.interface) or (known and not known.running):
                continue
            machine.start(now_ns)
            if known:  # the last frames are processed once more; events in between are dropped
                for frame in known.frames:
                    machine.receive(frame, now_ns)
                machine.take_events()
                for event in changes(None, machine.state, now_ns):
                    self._apply(slot, event)
            self._settle(slot, now_ns)
        if self._plan.wan:
            services = Services(
                self._program,
                self._orders.send_encoded,
                self._log.record,
                self._netlink.send,
                self._keep,
                self._headroom.reserve,
            )
            self._wan = WanAgent(self._plan, services, self._wan_before)
            self._wan.start(now_ns, succeeds=found is not None)
            for index, can_talk in up.items():
                self._wan.link(index, can_talk, now_ns)
        self._keep()

    @property
    def deadline_ns(self) -> int:
        due = [one.deadline_ns or NEVER for one in self._dcbx.values()]
        due.append(self._wan.deadline_ns if self._wan else NEVER)
        due += [self._headroom.deadline_ns, self._buffer.retry_ns, *self._settings.draining.values()]
        return min(due)

    def _receive(self, slot: int, now_ns: int) -> None:
        machine = self._dcbx[slot]
        for frame in self._sockets[slot].receive():
            self._log.dcbx(slot, show.frame_record(frame, machine.settings.version, "received", now_ns))
            machine.receive(frame, now_ns)
        self._settle(slot, now_ns)

    def _expire(self, now_ns: int) -> None:
        """Do what is due."""
        for slot, machine in self._dcbx.items():
            if (machine.deadline_ns or NEVER) <= now_ns:
                machine.expire(now_ns)
                self._settle(slot, now_ns)
        self._settings.expire(now_ns)
        if self._buffer.retry_ns <= now_ns:
            self._buffer.apply(now_ns)
        self._headroom.expire()
        if self._wan and self._wan.deadline_ns <= now_ns:
            self._wan.expire(now_ns)

    def _answer(self, now_ns: int) -> bool:
        """Answer a query of the network's own process; return False if it requests the end."""
        question = query_socket.receive(self._control)
        if question.verb == "snapshot":
            found: dict[str, Any] = {"dcbx": self._snapshot(), "wan": self._wan.snapshot() if self._wan else None}
        elif question.verb == "ready":
            found = {}
        elif question.verb == "measure":
            found = {}
            if not self._headroom.measure_now(question.argument, now_ns):
                found = {"error": f"{question.argument} does not announce that it measures headroom"}
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
        """Change a port's settings as an administrator does; None turns DCBX off."""
        slot = self._slot(name)
        machine = self._dcbx[slot]
        if settings is None:
            machine.stop(now_ns)
        else:
            machine.configure(settings, now_ns)
            machine.start(now_ns)
        self._settle(slot, now_ns)
        self._keep()

    def _snapshot(self) -> dict[str, Any]:
        """Return every port's state, as data."""
        found = {}
        for slot, machine in self._dcbx.items():
            discarded = self._program.port(slot).defended_frames
            refused = self._buffer.allocation.refused.get(slot)
            more: dict[str, Any] = {"refused": refused, "discarded": sum(discarded)}
            if measured := self._headroom.snapshot(slot):
                more["measured"] = measured
            found[self._ports[slot].name] = show.snapshot(machine) | more
        return found

    def _slot(self, name: str) -> int:
        for slot in self._dcbx:
            if self._ports[slot].name == name:
                return slot
        speaking = ", ".join(self._ports[slot].name for slot in self._dcbx) or "none"
        raise UsageError(f"{name} does not run DCBX; of this node's ports these do: {speaking}")

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
        """Send pending frames, apply new settings to the port, and log both."""
        machine = self._dcbx[slot]
        for frame in machine.take_frames():
            self._log.dcbx(slot, show.frame_record(frame, machine.settings.version, "sent", now_ns))
            try:
                self._sockets[slot].send(frame)
            except OSError as error:
                self._log.record(now_ns, AgentEvent.SEND_FAILED, slot, 0, error.errno or errno.EIO)
        events = machine.take_events()
        for event in events:
            self._log.dcbx(slot, show.record(event))
            self._apply(slot, event)
        heard = tuple(neighbour.octets for neighbour in machine.neighbours)
        if events or heard != self._kept.get(slot):
            self._kept[slot] = heard
            self._keep()

    def _apply(self, slot: int, event: Event) -> None:
        machine = self._dcbx[slot]
        if isinstance(event, HeadroomChanged):
            feature = machine.state.headroom
            self._headroom.announced(
                slot, bool(feature.admin), bool(feature.remote), machine.is_running, time.monotonic_ns()
            )
        else:
            self._settings.apply(slot, event, machine.settings.version)

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
            else:
                if self._headroom.awaits_peer(slot):  # the peer's announcement may be waiting in the socket
                    self._receive(slot, time.monotonic_ns())
                self._headroom.receive(slot, data[NOTICE.size :], arrived_ns, effective_ns)

    def _keep(self) -> None:
        known = {
            slot: SpeakerPortState(
                machine.settings,
                machine.is_running,
                tuple(neighbour.octets for neighbour in machine.neighbours),
                self._settings.applied[slot],
            )
            for slot, machine in self._dcbx.items()
        }
        self._handover.write(SpeakerState(known, self._wan.notes if self._wan else self._wan_before))


def main(plan: AgentPlan, resources: SpeakerResources) -> None:
    """The body of a speaker's process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    Speaker(plan, resources).run()
