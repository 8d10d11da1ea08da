"""What an agent is told before it is forked."""

from __future__ import annotations

from dataclasses import dataclass

from testbed.frames import Mac
from testbed.pfc.settings import PfcSettings
from testbed.units import Rate


@dataclass(frozen=True)
class PortPlan:
    """One port. By priority, netlink requests ready to send: `stop` its queue, let it `go`, `empty` it: throw away what
    it holds, and leave it stopped.
    """

    slot: int
    name: str
    interface: int
    mac: Mac
    rate: Rate
    pfc: PfcSettings
    charged: bool
    """Has this node a buffer, so that the port can become congested?"""
    stop: tuple[bytes, ...]
    go: tuple[bytes, ...]
    empty: tuple[bytes, ...]


@dataclass(frozen=True)
class AgentPlan:
    """One node; `pid` is a process in its network namespace."""

    node: str
    number: int
    pid: int
    ports: tuple[PortPlan, ...]
