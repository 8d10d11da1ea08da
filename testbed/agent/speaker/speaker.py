"""The speaker of a node: a process that does beside the node's PFC agent what a pause cannot wait for.

Decoding a frame takes milliseconds. So it is less urgent than the agent, and gives orders to it for all that concerns
pauses. Subjects have parts in it (`part.py`): DCBX, and End.X.PFC at routers. The buffer is laid out by `node_buffer`.
"""

from __future__ import annotations

import select
import signal
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from testbed.agent import query_socket
from testbed.agent.handover import Handover
from testbed.agent.orders import LARGEST_NOTICE, NOTICE, NoticeType
from testbed.agent.plan import AgentPlan
from testbed.agent.speaker.node_buffer import NodeBuffer
from testbed.agent.speaker.outputs import OrderSocket, SpeakerLog
from testbed.agent.speaker.part import Notice, Part, Services
from testbed.errors import UsageError
from testbed.linux.netlink import messages
from testbed.linux.netlink.link_state import LinkWatch
from testbed.linux.port_program import PortProgram
from testbed.linux.process import kernel

URGENCY = 30
"""A speaker's real-time priority: below agents, above traffic."""


@dataclass(frozen=True)
class SpeakerResources:
    """The resources that a speaker inherits: made before it was forked, and shared with its successor."""

    program: PortProgram
    handover: Handover
    log: int
    spoken: int
    """The file descriptors of the event log and of the log of lines."""
    control: socket.socket
    orders: socket.socket
    news: socket.socket
    """The sockets to the network's own process, to the agent (orders) and from it (news: measurement frames that came
    in, and congestion)."""


class Speaker:
    """The loop of one speaker."""

    def __init__(self, plan: AgentPlan, resources: SpeakerResources) -> None:
        self._plan = plan
        self._handover = resources.handover
        log = SpeakerLog(resources.log, resources.spoken, {port.slot: port.name for port in plan.ports})
        self._control = resources.control
        orders = OrderSocket(resources.orders, log)
        self._news = resources.news
        self._news.setblocking(False)
        kernel.enter_network_of(plan.pid)
        self._watch = LinkWatch()
        self._buffer = NodeBuffer(plan, resources.program, orders, log)
        self._services = Services(resources.program, messages.Socket(), orders, self._buffer, log, self._keep)
        found: Mapping[str, Any] | None = self._handover.read()
        self._before = found or {}
        """The notes of the predecessor's parts."""
        self._made = {
            part.name: part.part(plan, self._services, self._before.get(part.name), found is not None)
            for part in plan.parts
        }
        """All parts. Their sockets are open before the process becomes urgent, and before a first frame is sent."""
        self._parts: dict[str, Part] = {}
        """The parts that have begun."""

    def run(self) -> None:
        """Run until the network's own process closes the control socket, or requests the end."""
        kernel.real_time(URGENCY)
        self._start(time.monotonic_ns())
        timer, waiting = kernel.Timer(), select.epoll()
        of_parts = {file: act for part in self._parts.values() for file, act in part.files.items()}
        news = self._news.fileno()
        for file in (self._control.fileno(), self._watch.fd, news, timer.fd, *of_parts):
            waiting.register(file, select.EPOLLIN)
        while True:
            timer.set(min([self._buffer.retry_ns, *(part.deadline_ns for part in self._parts.values())]))
            for file, _ in waiting.poll():
                now_ns = time.monotonic_ns()
                if file in of_parts:
                    of_parts[file](now_ns)
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
        """Start, or continue from the predecessor's notes."""
        up = {link.index: link.can_talk for link in self._watch.all()}
        for name, part in self._made.items():
            self._parts[name] = part
            part.start(up, now_ns)
        self._keep()

    def _expire(self, now_ns: int) -> None:
        """Do what is due."""
        if self._buffer.retry_ns <= now_ns:
            self._buffer.apply(now_ns)
        for part in self._parts.values():
            if part.deadline_ns <= now_ns:
                part.expire(now_ns)

    def _answer(self, now_ns: int) -> bool:
        """Answer a query of the network's own process; return False if it requests the end."""
        question = query_socket.receive(self._control)
        if question.verb == "ready":
            answer: dict[str, Any] = {}
        elif question.verb == "snapshot":
            answer = {name: part.snapshot() for name, part in self._parts.items()}
            answer["measured"] = {port: one for part in self._parts.values() for port, one in part.measured().items()}
        elif question.verb == "part":
            name, verb, argument = question.argument
            try:
                answer = self._parts[name].answer(verb, argument, now_ns)
            except UsageError as error:
                answer = {"error": str(error)}
        else:
            return False
        query_socket.answer(self._control, question, answer)
        return True

    def _follow_links(self, now_ns: int) -> None:
        changed = self._watch.read()
        for link in self._watch.all() if changed is None else changed:
            for part in self._parts.values():
                part.link(link.index, link.can_talk, now_ns)

    def _take_news(self) -> None:
        while True:
            try:
                data = self._news.recv(LARGEST_NOTICE)
            except BlockingIOError:
                return
            what, priority, slot, arrived_ns, effective_ns = NOTICE.unpack_from(data)
            notice = Notice(NoticeType(what), slot, priority, arrived_ns, effective_ns, data[NOTICE.size :])
            for part in self._parts.values():
                part.notice(notice)

    def _keep(self) -> None:
        """Write what a successor has to know; a part that has not begun keeps what its predecessor left."""
        self._handover.write({**self._before, **{name: part.notes for name, part in self._parts.items()}})


def main(plan: AgentPlan, resources: SpeakerResources) -> None:
    """The body of a speaker's process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    Speaker(plan, resources).run()
