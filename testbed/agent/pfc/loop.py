"""The agent's process: waits for the port program and for deadlines, and does what `testbed.switch.pfc` decides.

From an event to what it causes there are only prepared octets to send; counting and logging come after. Everything
a successor needs is in shared memory before the request to the kernel: until when each queue is paused.

An event takes four system calls at most: the wait that it ends, the wait for the reaction time, what is
sent, and a look at the clock if the log has how long it took.

Runs in C: `testbed/lab/um/linux/xoff_pfc_rules.h`.
"""

from __future__ import annotations

import errno
import heapq
import os
import socket
import time
from collections.abc import Iterable

from testbed.agent import event_log, query_socket
from testbed.agent.event_log import MappedLog
from testbed.agent.events import AgentEvent, SwitchEvent
from testbed.agent.orders import DONE, LARGEST_ORDER, NOTICE, NoticeType, Order, OrderType, parse_watchdog
from testbed.agent.pfc.lost_ways import LostWays
from testbed.agent.pfc.port import SHARED, AgentPort
from testbed.agent.pfc.resources import AgentResources
from testbed.agent.pfc.waiting import Waiting
from testbed.agent.plan import AgentPlan
from testbed.frames.headroom import EXTENSION_OPCODE
from testbed.linux.netlink.link_state import Link, LinkWatch
from testbed.linux.port_program import EVENT, FIRST_INTERFACE, FRAME_OCTETS, PRIORITIES, EventKind
from testbed.linux.port_program.records import TRIMMED, TRIMMED_QUEUE
from testbed.linux.process import kernel
from testbed.switch.pfc import PRIORITIES_IN
from testbed.switch.pfc.port import Change
from testbed.switch.pfc.timers import TIMERS
from testbed.units import NEVER

URGENCY = 50
"""An agent's real-time priority."""
_MEASUREMENT = EXTENSION_OPCODE.to_bytes(2, "big")
_FRAME, _XOFF, _XON, _DROP = (int(kind) for kind in EventKind)  # looked up faster than members of an enum
_THRESHOLD, _FRAME_SENT, _QUEUE_STOPPED = (
    int(event) for event in (AgentEvent.THRESHOLD, AgentEvent.FRAME_SENT, AgentEvent.QUEUE_STOPPED)
)


class Loop:
    """The loop of one agent. The supervisor makes it, opens its sockets, and forks the process that runs it."""

    def __init__(self, plan: AgentPlan, resources: AgentResources) -> None:
        self._plan = plan
        self._resources, self._program, self._ring = resources, resources.program, resources.ring
        self._log = MappedLog(resources.log)
        self._control, self._orders, self._news = resources.control, resources.orders, resources.news
        self._lateness = resources.lateness
        self._started_ns = NEVER
        self._now_ns = 0
        """A moment that has passed: what was read of the clock last, or what was waited for since."""
        self._cpu_takes_time = not kernel.cpu_work_takes_no_time()
        self._sent = False
        self._stop_ns = 0
        """The time from the decision to stop a queue until it is stopped; the longest so far."""
        self._links_unknown = True
        """True if the links are still to be looked at: a change while no agent ran has left no message here."""
        self._listed: list[Link] | None = None
        """The links as they were when the sockets were opened."""
        self._later: list[tuple[int, int, int, bytes]] = []
        """A heap of frames at ports with a delayed reaction: when they are due, slot, time of arrival, octets."""
        self._ports = {
            port.slot: AgentPort(
                port,
                resources.timers[port.slot * TIMERS : (port.slot + 1) * TIMERS],
                resources.shared[port.slot * SHARED : (port.slot + 1) * SHARED],
            )
            for port in plan.ports
        }
        self._ways = LostWays(plan.ways, resources.program.ways)
        self._touched = dict(self._ports) if self._succeeds else {}
        """The ports, by slot, whose deadline may have changed and which may have events for the log."""

    def open(self) -> None:
        """Open the agent's sockets, in its node's network namespace, and look at what is there."""
        self._netlink = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
        self._netlink.bind((0, 0))
        self._links = LinkWatch()
        for port in self._ports.values():
            port.open()
        self._news.setblocking(False)
        files = self._control.fileno(), self._orders.fileno(), self._links.fd
        self._waiting = self._new_waiting(files)
        if not self._succeeds:
            self._measure_stopping()
        self._listed = self._links.all()

    def _new_waiting(self, files: Iterable[int]) -> Waiting:
        return Waiting(files, self._ring.fd)

    def close(self) -> None:
        """Close what `open` opened: the process that was forked since has it."""
        self._netlink.close()
        self._links.close()
        for port in self._ports.values():
            port.close()
        self._waiting.close()

    def run(self) -> None:
        """Run until the end. The process outlives the supervisor: queues that it stopped must be resumed."""
        kernel.real_time(URGENCY)
        self._take_over()
        self._go_on(None)

    def _go_on(self, ready: list[int] | None) -> None:
        waiting, touched = self._waiting, self._touched
        control, orders, links = self._control.fileno(), self._orders.fileno(), self._links.fd
        while True:
            if ready is None:
                due_ns = min(self._later[0][0] if self._later else NEVER, self._ways.deadline_ns)
                ready = waiting.wait(touched.values(), due_ns, at_once=self._links_unknown)
                touched.clear()
            self._read_events(self._ring.memory, self._ring.records())
            if not ready:  # no event is pending
                self._look_at_links()
            for file in ready:
                if file == waiting.timer.fd:
                    touched.update(self._ports)
                    self._expire_all(self._woke())
                elif file == links:
                    self._listed = None  # it is older
                    changed = self._links.read()
                    self._links_unknown = self._links_unknown or changed is None
                    self._follow(changed or [], self._woke())
                elif file == orders:
                    self._carry_out(Order.parse(self._orders.recv(LARGEST_ORDER)), self._woke())
                    self._orders.send(DONE)
                elif file == control and not self._answer():
                    self._write_log()
                    return
            ready = None
            if self._sent:  # the receiver of the frame runs first; the log can wait
                self._sent = False
                if self._cpu_takes_time:
                    os.sched_yield()
            self._write_log()

    def _look_at_links(self) -> None:
        self._links_unknown = False
        self._follow(self._listed or self._links.all(), self._clock())
        self._listed = None

    def _take_over(self) -> None:
        """Take over the predecessor's state from shared memory; for the first agent there is none."""
        if self._plan.warms_up and not self._succeeds:
            self._warm_up(next(iter(self._ports.values())))
        self._log.room()  # mapped before there is an event
        now_ns = self._started_ns = self._waiting.started_ns = self._clock()
        self._ways.take_over()
        for slot, port in self._ports.items():
            congested = 0
            if port.plan.has_buffer:
                for priority in range(PRIORITIES):
                    congested |= self._program.buffers.is_congested(slot, priority) << priority
            if port.left_behind or congested:
                until = {priority: 0 if end == NEVER else end for priority, end in port.left_behind.items()}
                frame, stop, resume = port.pfc.restore(until, congested, now_ns)
                self._touched[slot] = port
                self._program.set_blocked(slot, 0)
                self._netlink_send(port.stopping(stop | port.held_mask) + port.resuming(resume))
                if frame:
                    self._send(port, frame)
                # The speaker has missed changes since the predecessor died.
                if port.plan.notifies_speaker and port.left_behind:
                    for priority in range(PRIORITIES):
                        came = NoticeType.XOFF if congested >> priority & 1 else NoticeType.XON
                        self._notify_speaker(NOTICE.pack(came, priority, slot, now_ns, 0), slot)
        self._write_log()

    def _read_events(self, memory: memoryview[int], places: Iterable[int]) -> None:
        """Handle the port program's events at these places of the memory."""
        unpack, ports = EVENT.unpack_from, self._ports
        header, touched = EVENT.size, self._touched
        for at in places:
            time_ns, kind, slot, priority, reason, length, shared_cells, _ = unpack(memory, at)
            port = ports.get(slot)
            if port is None:
                continue
            touched[slot] = port
            if kind == _FRAME:
                start = at + header
                octets = bytes(memory[start : start + (length if length < FRAME_OCTETS else FRAME_OCTETS)])
                if port.plan.response_delay_ns:
                    heapq.heappush(self._later, (time_ns + port.plan.response_delay_ns, slot, time_ns, octets))
                elif octets[14:16] == _MEASUREMENT:
                    self._forward_measurement(slot, octets, time_ns)
                else:
                    self._apply_frame(slot, octets, time_ns)
            elif kind in (_XOFF, _XON):
                # The program posts an event after it has released the buffer's lock, so that two CPUs may post XON
                # before the XOFF that it ends, or XOFF before an older XON. The group itself has the last word.
                if kind == _XOFF:
                    self._congested(port, priority, time_ns)
                if not self._program.buffers.is_congested(slot, priority):
                    self._relieved(port, priority, time_ns)
                self._log.note((time_ns, _THRESHOLD, slot, 1 << priority, shared_cells))
            elif kind == _DROP and reason & 7 == TRIMMED:
                queue = reason >> TRIMMED_QUEUE
                self._log.note((time_ns, SwitchEvent.TRIMMED, slot, 1 << priority, queue << 32 | length))
            elif kind == _DROP:
                self._log.note((time_ns, AgentEvent.DROP, slot, 1 << priority, reason << 32 | length))

    def _congested(self, port: AgentPort, priority: int, since_ns: int) -> None:
        frame, slot = port.pfc.congested(1 << priority, since_ns), port.plan.slot
        if frame:
            if port.plan.xoff_delay_ns:
                self._wait_until(since_ns + port.plan.xoff_delay_ns)
            self._send(port, frame)
            now_ns = self._clock()
            self._log.note((now_ns, _FRAME_SENT, slot, 1 << priority, now_ns - since_ns))
            self._note_lateness(since_ns, now_ns, port.plan.xoff_allowed_ns)
        if port.plan.notifies_speaker:
            self._notify_speaker(NOTICE.pack(NoticeType.XOFF, priority, slot, since_ns, 0), slot)

    def _relieved(self, port: AgentPort, priority: int, since_ns: int) -> None:
        frame, slot = port.pfc.relieved(1 << priority, since_ns), port.plan.slot
        if frame:
            if port.plan.xoff_delay_ns:
                self._wait_until(since_ns + port.plan.xoff_delay_ns)
            self._send(port, frame)
        if port.plan.notifies_speaker:
            self._notify_speaker(NOTICE.pack(NoticeType.XON, priority, slot, since_ns, 0), slot)

    def _apply_frame(self, slot: int, frame: bytes, arrived_ns: int) -> None:
        """Apply a received PFC frame to this port's queues."""
        port = self._ports[slot]
        stop, resume = port.pfc.receive(frame, arrived_ns)
        delay_ns = port.plan.stop_delay_ns
        if (delay_ns or port.plan.pause_ns) and (stop or resume):  # the last bit may still be to come
            self._wait_until(arrived_ns + delay_ns)
        if stop:
            # After a wait the time is known, unless the work since then takes any.
            before_ns = self._clock() if self._cpu_takes_time or not delay_ns else self._now_ns
            self._netlink_send(port.stopping(stop))
            now_ns = self._clock()
            self._stop_ns = max(self._stop_ns, now_ns - before_ns)
            self._log.note((now_ns, _QUEUE_STOPPED, slot, stop, now_ns - arrived_ns))
            self._note_lateness(arrived_ns, now_ns, port.plan.stop_allowed_ns)
        if resume:
            self._netlink_send(port.resuming(resume))

    def _note_lateness(self, event_ns: int, now_ns: int, allowed_ns: int) -> None:
        """Note by how much a pause came later than headroom allows, unless no agent ran when it became due."""
        if event_ns > self._started_ns:
            self._lateness[0] = max(self._lateness[0], now_ns - event_ns - allowed_ns)

    def _forward_measurement(self, slot: int, frame: bytes, arrived_ns: int) -> None:
        """Pass a measurement frame to the speaker, with the time at which a PFC frame would have taken effect."""
        plan = self._ports[slot].plan
        due_ns = arrived_ns + plan.response_delay_ns + plan.stop_delay_ns
        effective_ns = max(self._clock(), due_ns) + self._stop_ns
        self._notify_speaker(NOTICE.pack(NoticeType.MEASUREMENT, 0, slot, arrived_ns, effective_ns) + frame, slot)

    def _notify_speaker(self, what: bytes, slot: int) -> None:
        try:
            self._news.send(what)
        except OSError as error:  # its socket is full
            self._log.note((time.monotonic_ns(), AgentEvent.SEND_FAILED, slot, 0, error.errno or errno.EIO))

    @property
    def _succeeds(self) -> bool:
        return any(port.left_behind for port in self._ports.values())

    def _measure_stopping(self) -> None:
        """Stop and resume a queue before there is traffic, to measure how long it takes; the first time is longest."""
        port = next(iter(self._ports.values()))
        for _ in range(3):
            before_ns = time.monotonic_ns()
            self._netlink_send(port.stopping(1))
            self._stop_ns = time.monotonic_ns() - before_ns
            self._netlink_send(port.resuming(1))

    def _warm_up(self, port: AgentPort) -> None:
        """Handle a few pauses and their ends, at a copy of a port, which sends nothing and logs nothing.

        What an agent runs for the first time it also copies, as memory that it shares with its parent: 200 us of CPU.
        Of eight agents paused at once the last one stopped its queue too late. After three times Python has fitted its
        instructions to what they work on.
        """
        if not port.plan.pfc.enabled:
            return
        copy, timer = port.silent_copy(), kernel.Timer()
        self._ports[port.plan.slot] = copy
        log, spare = self._log, event_log.new()
        self._log = MappedLog(spare)
        for event in 3 * copy.pause_and_end(now_ns := time.monotonic_ns()):
            self._read_events(memoryview(event), (0,))
        self._ring.map_pages()
        for memory in (self._resources.timers, self._resources.shared, self._lateness):
            memory[0] = memory[0]  # maps the page
        timer.set(now_ns)
        os.close(timer.fd)
        self._write_log()
        self._log.close()
        os.close(spare)
        self._log, self._sent = log, False
        self._ports[port.plan.slot] = self._touched[port.plan.slot] = port

    def _expire_all(self, now_ns: int) -> None:
        while self._later and self._later[0][0] <= now_ns:
            _, slot, arrived_ns, frame = heapq.heappop(self._later)
            if frame[14:16] == _MEASUREMENT:
                self._forward_measurement(slot, frame, arrived_ns)
            else:
                self._apply_frame(slot, frame, now_ns)
        for slot in self._ways.expire(now_ns):
            self._log.note((now_ns, AgentEvent.EQUAL_WAYS, slot, 0, False))
        for port in self._ports.values():
            due_ns = port.pfc.deadline_ns
            if due_ns is not None and due_ns <= now_ns:
                self._lateness[0] = max(self._lateness[0], now_ns - due_ns)
                self._expire(port, now_ns)

    def _expire(self, port: AgentPort, now_ns: int) -> None:
        resume, refresh, drop = port.pfc.expire(now_ns)
        slot = port.plan.slot
        self._resume(port, resume)
        if refresh:
            relieved = still = 0
            for priority in PRIORITIES_IN[refresh]:
                if port.plan.has_buffer and self._program.buffers.has_room(slot, priority):
                    relieved |= 1 << priority
                else:
                    still |= 1 << priority
            for frame in (port.pfc.relieved(relieved, now_ns), port.pfc.refreshed(still, now_ns)):
                if frame:
                    self._send(port, frame)
        if drop:
            port.blocked |= drop
            self._program.set_blocked(slot, port.locals_of(port.blocked))
            for request in port.emptying(drop):
                self._netlink_send(request)
            self._log.note((now_ns, AgentEvent.QUEUE_EMPTIED, slot, drop, 0))

    def _follow(self, links: Iterable[Link], now_ns: int) -> None:
        """Follow the links: a port that loses its link drops all pauses, and starts without any after link up."""
        for link in links:
            port = self._ports.get(link.index - FIRST_INTERFACE)
            if port is None:
                continue
            slot = port.plan.slot
            if self._ways.follow(slot, link.can_talk, now_ns):
                self._log.note((now_ns, AgentEvent.EQUAL_WAYS, slot, 0, True))
            if port.lost_link(link.can_talk, link.downs):  # at each change, also when there is a link again
                self._touched[slot] = port
                self._later = [one for one in self._later if one[1] != slot]
                heapq.heapify(self._later)
                self._resume(port, port.pfc.link_down(now_ns))
            if link.can_talk and (frame := port.pfc.link_up(now_ns)):
                self._send(port, frame)

    def _carry_out(self, order: Order, now_ns: int) -> None:
        """Carry out an order of the speaker, or of the network's own process; orders are idempotent."""
        port, slot = self._ports[order.slot], order.slot
        self._touched[slot] = port
        if order.type is OrderType.PFC and order.mask != port.pfc.settings.mask:
            self._change(port, port.enable(order.mask, now_ns))
            self._log.note((now_ns, AgentEvent.PFC_SET, slot, order.mask, 0))
        elif order.type is OrderType.WATCHDOG:
            self._change(port, port.watch(parse_watchdog(order.frame), now_ns))
        elif order.type is OrderType.QUEUES:
            self._netlink_send(port.arrange(order.queue_of))
            self._program.set_queues(slot, order.sockets)
        elif order.type is OrderType.DRAINED:
            port.drained()
        elif order.type is OrderType.HOLD and order.mask != port.held_mask:
            self._netlink_send(port.hold(order.mask))
            self._log.note((now_ns, AgentEvent.HOLD_SET, slot, order.mask, 0))
        elif order.type is OrderType.OBEY:
            self._apply_frame(slot, order.frame, now_ns)
        elif order.type is OrderType.SEND:
            self._send(port, order.frame)
        elif order.type is OrderType.RELIEVED and (frame := port.pfc.relieved(order.mask, now_ns)):
            self._send(port, frame)

    def _change(self, port: AgentPort, change: Change) -> None:
        self._resume(port, change.resume)
        if change.frame:
            self._send(port, change.frame)

    def _resume(self, port: AgentPort, resume: int) -> None:
        if port.blocked & resume:
            port.blocked &= ~resume
            self._program.set_blocked(port.plan.slot, port.locals_of(port.blocked))
        if resume:
            self._netlink_send(port.resuming(resume))

    def _netlink_send(self, request: bytes) -> None:
        if request:
            try:
                self._netlink.send(request)
            except OSError as error:
                self._log.note((time.monotonic_ns(), AgentEvent.SEND_FAILED, 0, 0, error.errno or 0))

    def _send(self, port: AgentPort, frame: bytes) -> None:
        self._sent = True
        try:
            port.send(frame)
        except OSError as error:  # the port is down, or gone
            self._log.note((time.monotonic_ns(), AgentEvent.SEND_FAILED, port.plan.slot, 0, error.errno or errno.EIO))

    def _write_log(self) -> None:
        """Write the events since the last call to the log."""
        self._log.write_noted()
        add = self._log.add
        for slot, port in self._touched.items():
            for now_ns, kind, mask, value in port.pfc.drain():
                add(now_ns, kind, slot, mask, value)

    def _clock(self) -> int:
        self._now_ns = now_ns = time.monotonic_ns()
        return now_ns

    def _woke(self) -> int:
        """Return a moment after the last wait, and after the reactions to events since then."""
        self._now_ns = now_ns = max(self._waiting.woke_ns(), self._now_ns)
        return now_ns

    def _wait_until(self, moment_ns: int) -> None:
        """Delay a reaction to a given time; its own work, or an event before, may already have taken as long."""
        if moment_ns > self._now_ns:
            self._log.write_noted()  # or they are lost if the agent is killed in its sleep
            kernel.sleep_until(moment_ns)
            self._now_ns = moment_ns

    def _answer(self) -> bool:
        """Answer a query of the network's own process; return False if it requests the end."""
        question = query_socket.receive(self._control)
        now_ns = self._clock()
        if question.verb in ("ready", "order"):
            if question.verb == "order":
                self._carry_out(Order.parse(question.argument), now_ns)
            query_socket.answer(self._control, question, {})
            return True
        if question.verb != "snapshot":
            return False
        query_socket.answer(
            self._control,
            question,
            {
                "node": self._plan.node,
                "now_ns": now_ns,
                "worst_lateness_ns": self._lateness[0],
                "stopping_ns": self._stop_ns,
                "ports": {port.plan.name: port.pfc.snapshot(now_ns) for port in self._ports.values()},
            },
        )
        return True
