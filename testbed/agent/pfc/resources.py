"""The resources that the process of a PFC agent inherits from the one that forked it."""

from __future__ import annotations

import socket
from dataclasses import dataclass

from testbed.linux import bpf
from testbed.linux.port_program import PortProgram


@dataclass(frozen=True)
class AgentResources:
    """The resources that an agent inherits: made before it was forked, and shared with its successor."""

    program: PortProgram
    ring: bpf.Ring
    timers: memoryview[int]
    """The timers of all ports, TIMERS numbers for each slot: what is due when."""
    shared: memoryview[int]
    """The shared memory of all ports, SHARED octets for each slot, as `port.py` lays it out."""
    lateness: memoryview[int]
    """The worst lateness of this node's agents, in ns."""
    log: int
    """The file descriptor of this agent's event log."""
    control: socket.socket
    orders: socket.socket
    news: socket.socket
    """The sockets to the network's own process, and from and to the speaker."""
