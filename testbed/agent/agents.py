"""The agents of a network, controlled from the network's own process: one per node, and their supervisor.

The program's maps, the rings, the logs and what a successor needs are made before and inherited. When the network's own
process ends, however it ends, all of them end: the kernel kills the supervisor with it, its deputy finds the socket to
it closed, and each agent its control socket. If only the supervisor is killed, agents continue, and its deputy takes
its place (`agent_supervisor.py`).
"""

from __future__ import annotations

import json
import mmap
import os
import signal
import socket
import sys
import time
from contextlib import suppress
from typing import Any

from testbed.agent import event_log, query_socket
from testbed.agent.agent_supervisor import ASK, WAIT, AgentSupervisor, NodeResources, SharedResources
from testbed.agent.handover import Handover
from testbed.agent.lives import Lives
from testbed.agent.orders import Order
from testbed.agent.pfc.port import SHARED
from testbed.agent.plan import AgentError, AgentPlan
from testbed.linux import bpf
from testbed.linux.port_program import SLOTS, PortProgram
from testbed.linux.process import kernel
from testbed.linux.process.child import Child
from testbed.switch.pfc import mask_of
from testbed.switch.pfc.timers import TIMERS
from testbed.units import NEVER

_TRIES = 5
_LONGEST_START_S, _LONGEST_END_S = 10.0, 2.0


Ends = tuple[socket.socket, socket.socket]


def _ends() -> Ends:
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


class Agents:
    """All agents of a network."""

    def __init__(self, plans: list[AgentPlan], program: PortProgram) -> None:
        self._plans = plans
        self._program = program
        self._memory = mmap.mmap(-1, SLOTS * TIMERS * 8)
        self._timers = memoryview(self._memory).cast("q")
        self._rings: list[bpf.Ring] = []
        self._shared = memoryview(mmap.mmap(-1, SLOTS * SHARED))
        self._handovers = [Handover(plan.handover_ports) for plan in plans]
        self._agent_logs = [event_log.new() for _ in plans]
        self._logs = [event_log.new() for _ in plans]
        """The event logs of all others: of each node's speaker and the supervisor, and further ones."""
        self._spoken = [os.memfd_create("xoff-spoken", os.MFD_CLOEXEC) for _ in plans]
        self._controls = [_ends() for _ in plans]
        self._speakers = [_ends() if plan.parts else None for plan in plans]
        self._orders = [_ends() for _ in plans]
        self._news = [_ends() for _ in plans]
        self._ending = socket.socketpair()
        self._supervisor = 0
        """The first supervisor, a child of this process."""
        self._questions = 0
        self._pids = memoryview(mmap.mmap(-1, 8 * (2 * len(plans) + 2))).cast("q")
        """The processes at this moment, as supervisors have them (`SharedResources.pids`)."""
        self._given_up = memoryview(mmap.mmap(-1, max(1, 2 * len(plans))))
        self._asleep = memoryview(mmap.mmap(-1, max(1, len(plans))))
        self._lives = Lives()
        self._lateness = memoryview(mmap.mmap(-1, 8 * max(1, len(plans)))).cast("q")

    def start(self) -> None:
        """Fork the supervisor, which forks the agents, and return when all of them answer."""
        self._rings = [self._program.add_ring(plan.number) for plan in self._plans]
        self._supervisor = Child(self._supervise).pid
        for other_end in (
            self._ending[1],
            *(theirs for _, theirs in self._all_controls()),
            *sum(self._orders + self._news, ()),
        ):
            other_end.close()
        self._ending[0].settimeout(_LONGEST_START_S)
        try:
            begun = self._ending[0].recv(1)
        except TimeoutError:
            begun = b""
        if begun not in (WAIT, ASK):
            raise AgentError("the agents did not start: their supervisor does not answer")
        for plan, control, speaker in zip(self._plans, self._controls, self._speakers, strict=True):
            for ends in (control if begun == ASK else None, speaker):
                if ends:
                    self._ask(ends, plan.node, "ready")

    def _supervise(self) -> None:
        """Be the supervisor, until the network ends."""
        for ours in (self._ending[0], *(ours for ours, _ in self._all_controls())):
            ours.close()
        each = [
            NodeResources(
                ring, handover, agent_log, one, spoken, control[1], speaker[1] if speaker else None, orders, news
            )
            for ring, handover, agent_log, one, spoken, control, speaker, orders, news in zip(
                self._rings,
                self._handovers,
                self._agent_logs,
                self._logs,
                self._spoken,
                self._controls,
                self._speakers,
                self._orders,
                self._news,
                strict=True,
            )
        ]
        common = SharedResources(
            self._program, self._timers, self._shared, self._pids, self._given_up, self._asleep, self._lives,
            self._lateness, self._ending[1],
        )  # fmt: skip
        AgentSupervisor(self._plans, common, each).run()

    def pid(self, node: str, speaker: bool = False) -> int:
        """Return the process of a node's agent, or of its speaker; 0 if it has none at this moment."""
        return self._pids[self._index(node) + speaker * len(self._plans)]

    @property
    def supervisor(self) -> int:
        """The process that supervises agents at this moment."""
        return self._pids[2 * len(self._plans)]

    @property
    def deputy(self) -> int:
        """The process that takes the supervisor's place if it dies; 0 if there is none at this moment."""
        return self._pids[2 * len(self._plans) + 1]

    @property
    def lateness_ns(self) -> int:
        """Return the worst lateness of a node's agents."""
        return max(self._lateness)

    def paused(self, slot: int) -> int:
        """Return the priorities that a port has paused at this moment, as a mask, without interrupting its agent."""
        ends = self._timers[slot * TIMERS : slot * TIMERS + 8]
        return mask_of(priority for priority, end in enumerate(ends) if end not in (0, NEVER))

    def stopped_by(self, slot: int, priority: int) -> int:
        """Return the queues that a pause of this priority stops, as a mask."""
        return self._shared[slot * SHARED + priority]

    def new_log(self) -> int:
        """Return a further event log, for a process that logs beside the agents."""
        self._logs.append(event_log.new())
        return self._logs[-1]

    def snapshot(self, node: str) -> dict[str, Any]:
        """Return state and counters of a node's ports, and the states of its speaker's parts by their names."""
        index = self._index(node)
        found = self._ask(self._controls[index], node, "snapshot")
        return found | self.spoken(node)

    def spoken(self, node: str) -> dict[str, Any]:
        """Return the states of the parts of a node's speaker; its agent is not interrupted for it."""
        speaker = self._speakers[self._index(node)]
        return self._ask(speaker, node, "snapshot") if speaker else {}

    def ask_part(self, node: str, part: str, verb: str, argument: Any) -> dict[str, Any]:
        """Ask a part of a node's speaker, or command it. AgentError if the node has no such part, or refuses."""
        index = self._index(node)
        speaker = self._speakers[index]
        if speaker is None or part not in {plan.name for plan in self._plans[index].parts}:
            raise AgentError(f"no port of {node} has {part}")
        answer = self._ask(speaker, node, "part", (part, verb, argument))
        if "error" in answer:
            raise AgentError(answer["error"])
        return answer

    def order(self, node: str, order: Order) -> None:
        """Have the agent of a node carry out an order, as its speaker does."""
        self._ask(self._controls[self._index(node)], node, "order", order.encode())

    def lines(self) -> list[dict[str, Any]]:
        """Return the lines that speakers have logged so far, in the order of time."""
        contents = [os.pread(one, os.fstat(one).st_size, 0) for one in self._spoken]
        lines = [json.loads(line) for content in contents for line in content.splitlines()]
        return sorted(lines, key=lambda line: int(line["t_ns"]))

    def _ask(self, ends: Ends, node: str, verb: str, argument: Any = None) -> dict[str, Any]:
        for _ in range(_TRIES):  # an agent may die before it has answered
            self._questions += 1
            try:
                return query_socket.ask(ends[0], query_socket.Question(self._questions, verb, argument))
            except TimeoutError:
                continue
            except OSError as error:
                raise AgentError(f"the agent of {node} does not answer: {error}") from None
        raise AgentError(f"the agent of {node} does not answer")

    def records(self) -> list[event_log.Record]:
        """Return the records of all agents so far, in the order of time."""
        return sorted(record for one in (*self._agent_logs, *self._logs) for record in event_log.read(one))

    def records_after(self, marks: list[int]) -> list[event_log.Record]:
        """Return the records of all agents after these places, one for each log (at first an empty list), and move the
        places on.
        """
        logs = (*self._agent_logs, *self._logs)
        marks += [0] * (len(logs) - len(marks))
        found = []
        for number, one in enumerate(logs):
            records = list(event_log.read(one, marks[number]))
            marks[number] += len(records) * event_log.RECORD.size
            found += records
        return sorted(found)

    def stop(self) -> None:
        """End all agents, and wait for it; the logs stay readable."""
        if self._supervisor:
            if not any(_runs(pid) for pid in (self.supervisor, self.deputy) if pid):
                print(
                    "the agent supervisor and its deputy ended too early: agents that died after that were not "
                    "restarted",
                    file=sys.stderr,
                )
            with suppress(OSError):
                self._ending[0].send(b"stop")
            for ours, _ in self._all_controls():
                with suppress(OSError):
                    ours.shutdown(socket.SHUT_WR)
            if not self._all_end():
                for pid in filter(None, self._pids):
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
            with suppress(ChildProcessError):  # its status was collected already
                os.waitpid(self._supervisor, 0)
            self._supervisor = 0
        for ours in (self._ending[0], *(ours for ours, _ in self._all_controls())):
            ours.close()

    def _all_end(self) -> bool:
        """Wait until no process has the other end of a control socket; return False after a timeout."""
        deadline = time.monotonic() + _LONGEST_END_S
        for ours, _ in self._all_controls():
            try:
                answer = b"an old one"
                while answer:
                    ours.settimeout(max(0.001, deadline - time.monotonic()))
                    answer = ours.recv(1)
            except OSError as error:
                if not isinstance(error, ConnectionError):
                    return False
        return True

    def close(self) -> None:
        """Stop, and release logs and rings."""
        self.stop()
        for logs in (self._agent_logs, self._logs, self._spoken):
            for one in logs:
                os.close(one)
            logs.clear()
        self._lives.close()
        for ring in self._rings:
            ring.close()
        self._rings.clear()

    def _all_controls(self) -> list[Ends]:
        return [*self._controls, *(ends for ends in self._speakers if ends)]

    def _index(self, node: str) -> int:
        for index, plan in enumerate(self._plans):
            if plan.node == node:
                return index
        raise AgentError(f"{node} has no agent; there are {', '.join(plan.node for plan in self._plans)}")


def _runs(pid: int) -> bool:
    """Return True if a process runs, which may be no child of this one."""
    try:
        process = os.pidfd_open(pid)
    except OSError:
        return False
    try:
        return not kernel.wait_readable((process,), 0)
    finally:
        os.close(process)
