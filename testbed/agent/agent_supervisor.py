"""The supervisor of all agents: forks one per node, restarts any that dies, with the pause failsafe until then."""

from __future__ import annotations

import gc
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from testbed.agent.event_log import RECORD
from testbed.agent.events import AgentEvent
from testbed.agent.handover import Handover
from testbed.agent.pfc import loop
from testbed.agent.pfc.pause_failsafe import PauseFailsafe
from testbed.agent.plan import AgentPlan, PortPlan
from testbed.agent.speaker import speaker
from testbed.linux import bpf, kernel
from testbed.linux.child import Child
from testbed.linux.port_program import PortProgram

_MOST_RESTARTS = 5
_WITHIN_NS = 10**9
_URGENCY, _FORKING, _BEGINNING = loop.URGENCY + 1, loop.URGENCY - 1, loop.URGENCY - 2
"""The supervisor is more urgent than an agent, whose end may take milliseconds of CPU; but not while it forks."""


@dataclass(frozen=True)
class SharedResources:
    """Made before the supervisor was forked, and shared by all agents."""

    program: PortProgram
    timers: memoryview[int]
    shared: memoryview[int]
    pids: memoryview[int]
    lateness: memoryview[int]
    """Of each node, how late its agents were at worst, in ns."""
    ending: socket.socket
    """Becomes readable when the network ends."""


@dataclass(frozen=True)
class NodeResources:
    """What the agent and the speaker of one node have in addition."""

    ring: bpf.Ring
    handover: Handover
    log: int
    dcbx_log: int
    control: socket.socket
    speaker: socket.socket | None
    """None: no port of this node runs DCBX."""
    orders: tuple[socket.socket, socket.socket]
    """From the speaker to the agent."""
    news: tuple[socket.socket, socket.socket]
    """From the agent to the speaker: what came in, what became congested."""


class AgentSupervisor:
    """The process that forks all agents."""

    def __init__(self, plans: Sequence[AgentPlan], common: SharedResources, each: Sequence[NodeResources]) -> None:
        self._plans, self._common, self._each = plans, common, each
        self._waiting = select.epoll()
        self._calls: dict[int, Callable[[], object]] = {}
        self._failsafes: list[PauseFailsafe] = []
        self._running: set[int] = set()
        self._deaths: dict[int, list[int]] = {}
        self._ending = False

    def run(self) -> None:
        """Until the network ends."""
        # Ctrl-C is for the user's command; agents end through the control socket.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        kernel.real_time(_URGENCY)
        for plan in self._plans:
            self._prepare(plan)
        self._wait_for(self._common.ending.fileno(), self._end)
        # What an agent takes to be made and opened is done here, before the first fork: after its own a process has to
        # copy each page of memory that it touches, and that is nearly all of an agent's start.
        self._start({index: self._agent(index) for index in range(len(self._plans))})
        for index in range(len(self._plans)):
            self._start_speaker(index)
        while self._running or not self._ending:
            for file, _ in self._waiting.poll():
                if file in self._calls:  # or it was ended by the one before
                    self._calls[file]()

    def _prepare(self, plan: AgentPlan) -> None:
        with kernel.in_network_of(plan.pid):
            netlink = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
            netlink.bind((0, 0))
            packets = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)

        def send(port: PortPlan, frame: bytes) -> None:
            with suppress(OSError):  # the port is down, or removed: its far end sends nothing either
                packets.sendto(frame, (port.name, 0))

        self._failsafes.append(PauseFailsafe(plan, self._common.shared, netlink.send, send))

    def _wait_for(self, file: int, call: Callable[[], object]) -> None:
        self._calls[file] = call
        self._waiting.register(file, select.EPOLLIN)

    def _no_more(self, file: int) -> None:
        del self._calls[file]
        self._waiting.unregister(file)

    def _end(self) -> None:
        self._ending = True
        self._no_more(self._common.ending.fileno())

    def _agent(self, index: int) -> loop.Loop:
        """An agent with its sockets; only its process is missing."""
        common, own, plan = self._common, self._each[index], self._plans[index]
        resources = loop.AgentResources(
            common.program,
            own.ring,
            common.timers,
            common.shared,
            common.lateness[index : index + 1],
            own.log,
            own.control,
            own.orders[1],
            own.news[0],
        )
        agent = loop.Loop(plan, resources)
        with kernel.in_network_of(plan.pid):
            agent.open()
        return agent

    def _start(self, agents: Mapping[int, loop.Loop]) -> None:
        """Fork the processes of agents, and close their sockets here. What this process touches between two forks is
        copied as well, so there is nothing else between them.
        """
        gc.freeze()  # existing objects stay; the collector need not scan them
        gc.disable()  # an agent creates no cycles
        pids = self._fork({index: agent.run for index, agent in agents.items()})
        gc.enable()
        for index, pid in pids.items():
            agents[index].close()
            self._common.pids[index] = pid
            self._running.add(pid)
            self._wait_for_end(pid, partial(self._died, index))

    def _start_speaker(self, index: int) -> None:
        plan, own = self._plans[index], self._each[index]
        if own.speaker is None:
            return
        resources = speaker.SpeakerResources(
            self._common.program,
            own.handover,
            own.log,
            own.dcbx_log,
            own.speaker,
            own.orders[0],
            own.news[1],
        )
        pid = self._fork({index: lambda: speaker.main(plan, resources)})[index]
        self._common.pids[len(self._plans) + index] = pid
        self._running.add(pid)
        self._wait_for_end(pid, partial(self._speaker_died, index))

    def _fork(self, bodies: Mapping[int, Callable[[], None]]) -> dict[int, int]:
        """Processes that do this; their pids."""
        kernel.real_time(_FORKING, for_children=True)
        pids = {index: Child(partial(_begin, body), survives=True).pid for index, body in bodies.items()}
        kernel.real_time(_URGENCY)
        return pids

    def _wait_for_end(self, pid: int, died: Callable[[int], None]) -> None:
        process = os.pidfd_open(pid)

        def ended() -> None:
            _, status = os.waitpid(pid, 0)
            self._no_more(process)
            os.close(process)
            self._running.discard(pid)
            died(status)

        self._wait_for(process, ended)

    def _died(self, index: int, status: int) -> None:
        self._common.pids[index] = 0
        if self._ending or status == 0:
            return
        self._failsafes[index].engage()
        self._note_death(index, status)
        if self._dies_too_often(index):
            self._give_up(index, f"died {_MOST_RESTARTS + 1} times within a second")
            return
        kernel.real_time(_FORKING)
        try:
            successor = self._agent(index)
        except OSError as error:  # its node, or a port of it, is gone
            self._give_up(index, f"cannot be started anew: {error}")
        else:
            self._start({index: successor})
        finally:
            kernel.real_time(_URGENCY)

    def _speaker_died(self, index: int, status: int) -> None:
        self._common.pids[len(self._plans) + index] = 0
        if self._ending or status == 0:
            return
        self._note_death(index, status)
        if self._dies_too_often(-1 - index):
            print(f"the DCBX speaker of {self._plans[index].node} died {_MOST_RESTARTS + 1} times within a second; "
                  "it is disabled, and its ports keep their settings",
                  file=sys.stderr)  # fmt: skip
        else:
            self._start_speaker(index)

    def _note_death(self, index: int, status: int) -> None:
        record = RECORD.pack(time.monotonic_ns(), AgentEvent.AGENT_DIED, self._plans[index].ports[0].slot, 0, status)
        os.write(self._each[index].log, record)

    def _dies_too_often(self, who: int) -> bool:
        now_ns = time.monotonic_ns()
        recent = [moment_ns for moment_ns in self._deaths.get(who, []) if now_ns - moment_ns < _WITHIN_NS] + [now_ns]
        self._deaths[who] = recent
        return len(recent) > _MOST_RESTARTS

    def _give_up(self, index: int, reason: str) -> None:
        """No agent will resume this node's queues any more: open all of them."""
        plan = self._plans[index]
        for port in plan.ports:
            self._common.program.set_blocked(port.slot, 0)
        self._failsafes[index].release()
        print(f"the agent of {plan.node} {reason}; its PFC agent is disabled", file=sys.stderr)


def _begin(body: Callable[[], None]) -> None:
    """Be a process that was forked."""
    kernel.real_time(_BEGINNING)
    body()
