"""The plan of an agent: everything about its node that it is given before it is forked.

Agents implement protocols and do not know how a port is built. To put a protocol's decision on a port, the plan has
functions: `arrange` for the shares of the line, `lay_out_buffer` for the buffer. Since the plan is inherited by fork,
they can be any.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from testbed.agent.pfc.lost_ways import WaysPlan
from testbed.errors import XoffError
from testbed.frames import Mac
from testbed.frames.dcbx.values import Ets
from testbed.linux.netlink.messages import Message
from testbed.linux.port_program import GroupLimits, Sizes
from testbed.switch.headroom import exchange
from testbed.switch.pfc.settings import PfcSettings
from testbed.units import NEVER, Duration, Rate

if TYPE_CHECKING:
    from testbed.agent.speaker.part import Part, Services


class AgentError(XoffError):
    """An agent that does not answer, or that cannot carry out a command."""


@dataclass(frozen=True)
class Arrangement:
    """The way in which a port's line is shared."""

    queue_of: tuple[int, ...]
    """The queue (0 to 7) of each local priority."""
    sockets: tuple[int, ...]
    """The kernel's priority of a frame that leads to the queue of each local priority."""
    requests: tuple[Message, ...]
    """Netlink requests that give the queues their shares."""


@dataclass(frozen=True)
class BufferLayout:
    """The division of a node's buffer: guaranteed, shared and headroom cells of ingress pool 0, the limits by (slot,
    priority), and other ingress pools.
    """

    sizes: Sizes
    limits: Mapping[tuple[int, int], GroupLimits]
    more: tuple[Sizes, ...] = ()

    @property
    def pools(self) -> tuple[Sizes, ...]:
        return self.sizes, *self.more


@dataclass(frozen=True)
class HeadroomPlan:
    """The plan of a port that measures its headroom, if its peer does too."""

    settings: exchange.Settings
    key: bytes
    seed: bytes
    cells: Callable[[Duration], int]
    """A function that returns the headroom, in cells, for a round trip."""


@dataclass(frozen=True)
class PortPlan:
    """The plan of a port. `stop`, `go` and `empty` are netlink requests by queue, ready to send; `empty` throws away
    what the queue holds, and leaves it stopped.
    """

    slot: int
    name: str
    interface: int
    mac: Mac
    rate: Rate
    pfc: PfcSettings
    has_buffer: bool
    """True if this node has a buffer, so that the port can become congested."""
    stop: tuple[bytes, ...]
    go: tuple[bytes, ...]
    empty: tuple[bytes, ...]
    local: tuple[int, ...]
    """The local priority of each priority."""
    arrange: Callable[[Ets | None], Arrangement]
    notifies_speaker: bool = False
    """True if the agent notifies the speaker of congestion, because a part of it signals that elsewhere."""
    response_delay_ns: int = 0
    """The delay of the port's reaction to PFC frames, as a slower device has it."""
    xoff_delay_ns: int = 0
    """The least time from a crossed threshold to the PFC frame."""
    stop_delay_ns: int = 0
    """The least time from a PFC frame's arrival until a queue is stopped or resumed."""
    xoff_allowed_ns: int = NEVER
    stop_allowed_ns: int = NEVER
    """The longest times that headroom allows for both, here and at the far end. The agent is late after that."""
    pause_ns: int = 0
    """The time from a PFC frame's first bit, with which the port program has it, to its last one, whose time it tells.
    """


class PartPlan(ABC):
    """The plan of a subject's part in a node's speaker: frozen data that the speaker inherits."""

    name: str
    """The name of the part, in snapshots of the node too."""
    notified: frozenset[int] = frozenset()
    """The slots of the ports whose congestion the PFC agent tells the speaker."""
    handover_ports: int = 0
    """The ports that take as much of the handover as the notes of this part beside those of each port."""

    @abstractmethod
    def part(self, node: AgentPlan, services: Services, before: Any, succeeds: bool) -> Part:
        """Make the part. `before` are the notes of the predecessor, if this speaker `succeeds` one that had any."""


@dataclass(frozen=True)
class AgentPlan:
    """The plan of a node's agent and speaker; `pid` is a process in the node's network namespace."""

    node: str
    number: int
    pid: int
    ports: tuple[PortPlan, ...]
    parts: tuple[PartPlan, ...] = ()
    """The parts of subjects in the speaker; a node without any has no speaker."""
    lay_out_buffer: Callable[[Mapping[int, int], Mapping[int, int], Mapping[int, int]], BufferLayout] | None = None
    """A function that returns the buffer with these priorities lossless, as a mask for each slot, with these headrooms,
    in cells for each slot that has measured it, and for so many traffic classes of the peer, for each slot that is
    sized by them; UsageError if it has not enough cells."""
    ways: tuple[WaysPlan, ...] = ()
    """The groups of equal ways of a switch."""
    warms_up: bool = False
    """True if the agent handles a pause once before there is traffic, because the first one takes the CPU longest."""

    @property
    def handover_ports(self) -> int:
        """The size of the speaker's handover, in ports."""
        return len(self.ports) + sum(part.handover_ports for part in self.parts)
