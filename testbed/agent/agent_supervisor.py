"""The supervisor of all agents: forks one per node, restarts any that dies, with the pause failsafe until then.

It has a deputy, a fork of it that waits for its end. If the supervisor dies, the deputy becomes the supervisor: it
finds the agents that run (`lives.py`) and keeps them, starts those that are missing, and forks a deputy of its own. If
the deputy dies, the supervisor forks another. Only if both are killed at once, an agent that dies after that has no
successor.
"""

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
from testbed.agent.lives import Lives
from testbed.agent.pfc import loop
from testbed.agent.pfc.pause_failsafe import PauseFailsafe
from testbed.agent.pfc.resources import AgentResources
from testbed.agent.pfc.served_loop import ServedLoop
from testbed.agent.plan import AgentPlan, PortPlan
from testbed.agent.speaker import speaker
from testbed.linux import bpf, pfc_device
from testbed.linux.port_program import PortProgram
from testbed.linux.process import kernel
from testbed.linux.process.child import Child, fork_each

_MOST_RESTARTS = 5
_WITHIN_NS = 10**9
_UNKNOWN = -1
"""The status of a process that this one has not forked."""
_NO_SLOT = 0xFFFF
WAIT, ASK = b"w", b"a"
"""The supervisor's message when it has forked all agents: they wait by now, or have to be asked."""
_URGENCY, _FORKING, _BEGINNING = loop.URGENCY + 1, loop.URGENCY - 1, loop.URGENCY - 2
"""Priorities of the supervisor: more urgent than an agent, whose end may take milliseconds of CPU; but not while it
forks."""


@dataclass(frozen=True)
class SharedResources:
    """The resources that all agents share, made before the supervisor was forked."""

    program: PortProgram
    timers: memoryview[int]
    shared: memoryview[int]
    pids: memoryview[int]
    """The process of each agent, then of each speaker, then of the supervisor and of its deputy; 0 if there is none."""
    given_up: memoryview[int]
    """1 for each agent, then each speaker, that has died too often and gets no successor; 0 otherwise."""
    asleep: memoryview[int]
    """1 for each agent that has not been woken since its birth; 0 otherwise."""
    lives: Lives
    """The locks that the running processes hold, by the same numbers as `pids`."""
    lateness: memoryview[int]
    """The worst lateness of each node's agents, in ns."""
    ending: socket.socket
    """A descriptor that becomes readable when the network ends."""


@dataclass(frozen=True)
class NodeResources:
    """The resources of the agent and the speaker of one node, beside the shared ones."""

    ring: bpf.Ring
    handover: Handover
    agent_log: int
    """The event log of the agent, which alone writes to it."""
    log: int
    """The event log of the speaker, and of the supervisor's events of this node."""
    spoken: int
    control: socket.socket
    speaker: socket.socket | None
    """The speaker's control socket, or None if this node has no speaker."""
    orders: tuple[socket.socket, socket.socket]
    """The socket from the speaker to the agent."""
    news: tuple[socket.socket, socket.socket]
    """The socket from the agent to the speaker, for frames that came in and groups that became congested."""


class AgentSupervisor:
    """The process that forks all agents."""

    def __init__(self, plans: Sequence[AgentPlan], common: SharedResources, each: Sequence[NodeResources]) -> None:
        self._plans, self._common, self._each = plans, common, each
        self._waiting = select.epoll()
        self._calls: dict[int, Callable[[], object]] = {}
        self._failsafes: list[PauseFailsafe] = []
        self._running: dict[int, int] = {}
        """The processes that are waited for, with a descriptor of each."""
        self._deaths: dict[int, list[int]] = {}
        self._ending = False
        self._supervisor, self._deputy = 2 * len(plans), 2 * len(plans) + 1

    def run(self) -> None:
        """Supervise until the network ends."""
        self._common.pids[self._supervisor] = os.getpid()
        # Ctrl-C is for the user's command; agents end through the control socket.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        kernel.real_time(_URGENCY)
        for plan in self._plans:
            self._prepare(plan)
        self._wait_for(self._common.ending.fileno(), self._end)
        # What an agent takes to be made and opened is done here, before the first fork: after its own a process has to
        # copy each page of memory that it touches, and that is nearly all of an agent's start.
        agents = {index: self._agent(index) for index in range(len(self._plans))}
        asleep = {index: agent for index, agent in agents.items() if isinstance(agent, ServedLoop)}
        self._start_asleep(asleep)
        self._start({index: agent for index, agent in agents.items() if index not in asleep})
        for index in range(len(self._plans)):
            self._start_speaker(index)
        if self._plans:
            self._start_deputy()
        self._common.ending.send(WAIT if len(asleep) == len(agents) else ASK)
        self._supervise()

    def _supervise(self) -> None:
        while self._running or not self._ending:
            for file, _ in self._waiting.poll():
                if file in self._calls:  # or it was ended by the one before
                    self._calls[file]()

    def _start_deputy(self) -> None:
        supervisor = os.pidfd_open(os.getpid())
        pid = self._fork({0: partial(self._stand_by, supervisor)})[0]
        os.close(supervisor)
        self._common.pids[self._deputy] = pid
        self._wait_for_end(pid, os.pidfd_open(pid), self._deputy_died)

    def _deputy_died(self, _: int) -> None:
        self._common.pids[self._deputy] = 0
        if self._ending or kernel.wait_readable((self._common.ending,), 0):
            return
        self._note(AgentEvent.DEPUTY_DIED, 0)
        if self._dies_too_often(self._deputy):
            print(f"the deputy of the agent supervisor died {_MOST_RESTARTS + 1} times within a second; "
                  "there is none from now on",
                  file=sys.stderr)  # fmt: skip
        else:
            self._start_deputy()

    def _stand_by(self, supervisor: int) -> None:
        """Be the deputy: wait until the network ends, or until the supervisor does."""
        kernel.real_time(_URGENCY)
        ending = self._common.ending.fileno()
        if ending not in kernel.wait_readable((ending, supervisor)):
            os.close(supervisor)
            self._take_over()

    def _take_over(self) -> None:
        """Become the supervisor of the agents that run, and start those that do not."""
        common, everything = self._common, range(2 * len(self._plans))
        common.pids[self._supervisor], common.pids[self._deputy] = os.getpid(), 0
        self._waiting.close()  # it has a copy in this process
        self._waiting = select.epoll()
        self._calls.clear()
        for process in self._running.values():
            os.close(process)
        self._running.clear()
        self._wait_for(common.ending.fileno(), self._end)
        due = [who for who in everything if self._control(who) is not None and not common.given_up[who]]
        missing = [who for who in due if not self._keep(who)]
        self._note(AgentEvent.SUPERVISOR_DIED, len(due) - len(missing) << 32 | len(missing))
        for who in missing:
            self._ended(who, _UNKNOWN)
        self._start_deputy()
        self._supervise()

    def _keep(self, who: int) -> bool:
        """Supervise an agent or speaker that another process forked; return False if there is none."""
        found = self._common.lives.open_holder(who)
        if found is None:
            return False
        pid, process = found
        self._common.pids[who] = pid
        self._wait_for_end(pid, process, partial(self._ended, who))
        return True

    def _control(self, who: int) -> socket.socket | None:
        """Return the control socket of an agent or a speaker, or None if the node has no speaker."""
        index = who % len(self._plans)
        return self._each[index].control if who < len(self._plans) else self._each[index].speaker

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
        """Let the network end. Agents end when their control sockets are closed; those that still sleep have done
        nothing, and would copy all that they run for it. Where drops wait to be logged the agent does that first.
        """
        self._ending = True
        self._no_more(self._common.ending.fileno())
        for index, is_asleep in enumerate(self._common.asleep):
            if is_asleep and self._common.pids[index] and self._each[index].ring.is_empty:
                os.kill(self._common.pids[index], signal.SIGKILL)

    def _agent(self, index: int) -> loop.Loop:
        """Return an agent with its sockets; only its process is missing."""
        common, own, plan = self._common, self._each[index], self._plans[index]
        resources = AgentResources(
            common.program,
            own.ring,
            common.timers,
            common.shared,
            common.lateness[index : index + 1],
            own.agent_log,
            own.control,
            own.orders[1],
            own.news[0],
        )
        agent = (ServedLoop if pfc_device.is_there() and plan.ports else loop.Loop)(plan, resources)
        with kernel.in_network_of(plan.pid):
            agent.open()
        return agent

    def _start(self, agents: Mapping[int, loop.Loop]) -> None:
        """Fork the processes of agents. What this process touches between two forks is copied as well, so there is
        nothing else between them.
        """
        gc.freeze()  # existing objects stay; the collector need not scan them
        gc.disable()  # an agent creates no cycles
        pids = self._fork({index: partial(self._be, index, agent.run) for index, agent in agents.items()})
        gc.enable()
        self._have_forked(agents, pids)

    def _start_asleep(self, agents: Mapping[int, ServedLoop]) -> None:
        """Fork the processes of first agents as `_start` does, but they sleep until there is something to do."""
        lives = self._common.lives
        children = [
            ([lives.acquiring(index), *one.first_calls()], partial(self._wake_up, index, one))
            for index, one in agents.items()
        ]
        for index in agents:
            self._common.asleep[index] = 1
        gc.freeze()
        gc.disable()
        kernel.real_time(_FORKING, for_children=True)
        pids = fork_each(children)
        kernel.real_time(_URGENCY)
        gc.enable()
        self._have_forked(agents, dict(zip(agents, pids, strict=True)))

    def _wake_up(self, index: int, agent: ServedLoop, found: object) -> None:
        self._common.asleep[index] = 0
        agent.wake_up(found)

    def _have_forked(self, agents: Mapping[int, loop.Loop], pids: Mapping[int, int]) -> None:
        """Close the sockets of agents here, and wait for the ends of their processes."""
        for index, pid in pids.items():
            agents[index].close()
            self._common.pids[index] = pid
            self._wait_for_end(pid, os.pidfd_open(pid), partial(self._ended, index))
            for port in self._plans[index].ports:
                self._note(AgentEvent.AGENT_STARTED, pid, index, port.slot)

    def _start_speaker(self, index: int) -> None:
        plan, own = self._plans[index], self._each[index]
        if own.speaker is None:
            return
        resources = speaker.SpeakerResources(
            self._common.program,
            own.handover,
            own.log,
            own.spoken,
            own.speaker,
            own.orders[0],
            own.news[1],
        )
        who = len(self._plans) + index
        pid = self._fork({who: partial(self._be, who, partial(speaker.main, plan, resources))})[who]
        self._common.pids[who] = pid
        self._wait_for_end(pid, os.pidfd_open(pid), partial(self._ended, who))

    def _be(self, who: int, body: Callable[[], None]) -> None:
        """Be an agent or a speaker, unless there is one already: a supervisor that died had just forked it."""
        if self._common.lives.acquire(who):
            body()

    def _fork(self, bodies: Mapping[int, Callable[[], None]]) -> dict[int, int]:
        """Fork processes that do this, and return their pids."""
        kernel.real_time(_FORKING, for_children=True)
        pids = {index: Child(partial(_begin, body), survives=True).pid for index, body in bodies.items()}
        kernel.real_time(_URGENCY)
        return pids

    def _wait_for_end(self, pid: int, process: int, ended: Callable[[int], None]) -> None:
        def end() -> None:
            try:
                _, status = os.waitpid(pid, 0)
            except ChildProcessError:  # a supervisor before this one forked it
                status = _UNKNOWN
            self._no_more(process)
            os.close(process)
            del self._running[pid]
            ended(status)

        self._running[pid] = process
        self._wait_for(process, end)

    def _ended(self, who: int, status: int) -> None:
        """Clear up after an agent or a speaker that has ended."""
        common, index = self._common, who % len(self._plans)
        common.pids[who] = 0
        if who == index:
            common.asleep[index] = 0
        control = self._control(who)
        if self._ending or control is None or _is_closed(control) or self._keep(who):
            return
        if who == index:
            self._failsafes[index].engage()
        self._note_death(index, status)
        if self._dies_too_often(who):
            common.given_up[who] = 1
            self._give_up(who, f"died {_MOST_RESTARTS + 1} times within a second")
        elif who == index:
            self._succeed(index)
        else:
            self._start_speaker(index)

    def _succeed(self, index: int) -> None:
        """Start the successor of an agent."""
        kernel.real_time(_FORKING)
        try:
            successor = self._agent(index)
        except OSError as error:  # its node, or a port of it, is gone
            self._common.given_up[index] = 1
            self._give_up(index, f"cannot be started anew: {error}")
        else:
            self._start({index: successor})
        finally:
            kernel.real_time(_URGENCY)

    def _note_death(self, index: int, status: int) -> None:
        self._note(AgentEvent.AGENT_DIED, status, index, self._plans[index].ports[0].slot)

    def _note(self, event: AgentEvent, value: int, index: int = 0, slot: int = _NO_SLOT) -> None:
        os.write(self._each[index].log, RECORD.pack(time.monotonic_ns(), event, slot, 0, value))

    def _dies_too_often(self, who: int) -> bool:
        now_ns = time.monotonic_ns()
        recent = [moment_ns for moment_ns in self._deaths.get(who, []) if now_ns - moment_ns < _WITHIN_NS] + [now_ns]
        self._deaths[who] = recent
        return len(recent) > _MOST_RESTARTS

    def _give_up(self, who: int, reason: str) -> None:
        if who >= len(self._plans):
            node = self._plans[who - len(self._plans)].node
            print(f"the speaker of {node} {reason}; it is disabled, and its ports keep their settings",
                  file=sys.stderr)  # fmt: skip
            return
        # No agent will resume this node's queues any more: open all of them.
        plan = self._plans[who]
        for port in plan.ports:
            self._common.program.set_blocked(port.slot, 0)
        self._failsafes[who].release()
        print(f"the agent of {plan.node} {reason}; its PFC agent is disabled", file=sys.stderr)


def _begin(body: Callable[[], None]) -> None:
    """Prepare a process that was forked."""
    kernel.real_time(_BEGINNING)
    body()


def _is_closed(end: socket.socket) -> bool:
    """Return True if the network's own process has closed the other end, so that the process with this one ends too."""
    try:
        return not end.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except BlockingIOError:
        return False
    except OSError:
        return True
