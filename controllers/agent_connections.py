"""The connections of routers' agents: octets between sockets and the sessions of the southbound side."""

from __future__ import annotations

import selectors
import socket
import time
from dataclasses import dataclass, field

from controllers.connections import MOST_UNSENT, Peer, Poller, receive
from controllers.lines import AT_ONCE, PlainLine
from testbed.subjects.srv6.controller.southbound import Southbound


@dataclass(eq=False)
class Agent(Peer):
    """A connection with an agent."""

    number: int = 0
    unsent: bytearray = field(default_factory=bytearray)
    is_over: bool = False  # to be closed when all is sent

    def __str__(self) -> str:
        return f"connection {self.number} of an agent"


class AgentConnections:
    """All connections with agents, by number."""

    def __init__(self, south: Southbound, poller: Poller) -> None:
        self.by_number: dict[int, Agent] = {}
        self._south, self._poller = south, poller

    def accept(self, connection: socket.socket, now_ns: int) -> Agent | None:
        number = self._south.connect(now_ns)
        if number is None:
            connection.close()
            return None
        agent = self.by_number[number] = Agent(PlainLine(connection), now_ns, number=number)
        self._poller.add(agent)
        return agent

    def with_more(self) -> list[Agent]:
        """The agents with frames that were received and not processed."""
        return [agent for agent in self.by_number.values() if self._south.has_more(agent.number)]

    def rank(self, agent: Agent) -> int:
        return 0 if self._south.is_router(agent.number) else 2

    def serve(self, agent: Agent, events: int, now_ns: int) -> None:
        """Read from an agent and write to it, as far as it is ready; `events` is 0 to process frames received
        before.
        """
        if agent.number not in self.by_number:
            return
        if events & selectors.EVENT_WRITE:
            self.write(agent, now_ns)
        if not events or events & selectors.EVENT_READ:
            self._read(agent, now_ns, bool(events))

    def write(self, agent: Agent, now_ns: int) -> None:
        sent = agent.line.send(bytes(agent.unsent[:AT_ONCE]))
        if sent is None or len(agent.unsent) > MOST_UNSENT:
            self._drop(agent, now_ns)
            return
        del agent.unsent[:sent]
        if agent.is_over and not agent.unsent:
            self._drop(agent, now_ns)
        else:
            self._poller.watch(agent, bool(agent.unsent))

    def send_output(self) -> None:
        """Send the octets that sessions have for their peers."""
        for number, octets, is_over in self._south.output():
            if (agent := self.by_number.get(number)) is not None:
                agent.unsent += octets
                agent.is_over = is_over
                self.write(agent, time.monotonic_ns())

    def fail(self, agent: Agent, now_ns: int) -> None:
        """End the connection of an agent whose message triggered a defect."""
        self._south.fail(agent.number, now_ns)
        self.send_output()

    def _read(self, agent: Agent, now_ns: int, has_octets: bool) -> None:
        data = receive(agent, now_ns) if has_octets else b""
        if data is None or agent.is_over:
            return
        if not data and has_octets:
            self._drop(agent, now_ns)
            return
        self._south.receive(agent.number, data, now_ns)
        self._south.step(now_ns)  # here, so that a defect in what follows is this agent's too

    def _drop(self, agent: Agent, now_ns: int) -> None:
        if self.by_number.pop(agent.number, None) is not None:
            self._poller.close_peer(agent)
            self._south.disconnected(agent.number, now_ns)
