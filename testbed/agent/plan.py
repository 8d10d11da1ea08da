"""The plan of an agent: everything about its node that it is given before it is forked.

Agents implement protocols and do not know how a port is built. To put a protocol's decision on a port, the plan has
functions: `arrange` for the shares of the line, `lay_out_buffer` for the buffer. Since the plan is inherited by fork,
they can be any.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from ipaddress import IPv6Address

from testbed.agent.pfc.lost_ways import WaysPlan
from testbed.errors import XoffError
from testbed.frames import Mac
from testbed.frames.dcbx.values import Ets
from testbed.linux.netlink.messages import Message
from testbed.linux.port_program import GroupLimits, Sizes
from testbed.subjects.dcbx.settings import DcbxSettings, LldpTimers, PortIdentity
from testbed.subjects.srv6.protocol.endx_pfc import LocalSid
from testbed.subjects.srv6.protocol.pause_refresh import Refresh
from testbed.subjects.srv6.protocol.reverse_tunnel import ReverseTunnel
from testbed.subjects.srv6.protocol.sid import Sid
from testbed.subjects.srv6.protocol.tunnel_learning import LearnerSettings
from testbed.subjects.srv6.session.messages import Report
from testbed.switch.headroom import exchange
from testbed.switch.pfc.settings import PfcSettings
from testbed.units import NEVER, Duration, Rate, Scale


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
class DcbxPlan:
    """The plan of a port that runs DCBX."""

    identity: PortIdentity
    settings: DcbxSettings
    timers: LldpTimers
    scale: Scale


@dataclass(frozen=True)
class HeadroomPlan:
    """The plan of a port that measures its headroom, if its peer does too."""

    settings: exchange.Settings
    key: bytes
    seed: bytes
    cells: Callable[[Duration], int]
    """A function that returns the headroom, in cells, for a round trip."""


@dataclass(frozen=True)
class ControlPlan:
    """The plan of a router that has a session with the SR policy controller."""

    path: str
    """The controller's Unix socket, which leads through network namespaces."""
    key: bytes
    report: Report
    """The router's report of itself; SIDs of its VPNs and links that fail are added to it."""
    out: str
    """An interface that belongs to no VPN, for packets that go into a list of segments."""


@dataclass(frozen=True)
class SliceQueues:
    """A slice at a router: its priorities have queues of their own there."""

    id: int
    name: str
    queues: Mapping[int, int]
    """The router's local priority for each of the slice's priorities."""


class SlicePriorities:
    """The priorities of all slices at one router. A local priority that no slice has is of the traffic without a
    slice.
    """

    def __init__(self, slices: Iterable[SliceQueues]) -> None:
        self._of_local = {local: (one.id, priority) for one in slices for priority, local in one.queues.items()}
        self._local = {theirs: local for local, theirs in self._of_local.items()}

    def of_local(self, local: int) -> tuple[int | None, int]:
        """Return the slice of a local priority, and the slice's own priority."""
        return self._of_local.get(local, (None, local))

    def local(self, slice_id: int | None, priority: int) -> int | None:
        """Return the local priority of a slice's priority, or None if the slice is not known here."""
        if slice_id is None:
            return priority if priority not in self._of_local else None
        return self._local.get((slice_id, priority))


@dataclass(frozen=True)
class WanPlan:
    """The plan of a router that pauses, and is paused, through SRv6 tunnels (End.X.PFC)."""

    source: IPv6Address
    """An address of the router inside the SR domain: the source of its PFC packets."""
    sids: tuple[LocalSid, ...]
    """The End.X.PFC SIDs of the router."""
    tunnels: tuple[tuple[ReverseTunnel, Refresh], ...] = ()
    """Tunnels that are set up beforehand (the draft's scenario 1). Congestion of a tunnel's interface goes into it."""
    learner: LearnerSettings | None = None
    """The learner of tunnels from data (scenario 2), what is announced, and the times of such a tunnel; None if none is
    learned."""
    directory: tuple[Sid, ...] = ()
    learned_refresh: Refresh | None = None
    measures: bool = False
    """True if the headroom of ports whose congestion goes into tunnels is measured through these."""
    slices: tuple[SliceQueues, ...] = ()
    fastest: Rate | None = None
    """The rate of the fastest port that tunnels of the controller pause; it decides how often XOFF is repeated."""
    control: ControlPlan | None = None


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
    dcbx: DcbxPlan | None = None
    headroom: HeadroomPlan | None = None
    cells_for: Callable[[Duration], int] | None = None
    """A function that returns the headroom, in cells, for a round trip that is measured through a tunnel."""
    notifies_speaker: bool = False
    """True if the agent notifies the speaker of congestion, because a tunnel for PFC starts here."""
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


@dataclass(frozen=True)
class AgentPlan:
    """The plan of a node's agent and speaker; `pid` is a process in the node's network namespace."""

    node: str
    number: int
    pid: int
    ports: tuple[PortPlan, ...]
    wan: WanPlan | None = None
    lay_out_buffer: Callable[[Mapping[int, int], Mapping[int, int], Mapping[int, int]], BufferLayout] | None = None
    """A function that returns the buffer with these priorities lossless, as a mask for each slot, with these headrooms,
    in cells for each slot that has measured it, and for so many traffic classes of the peer, for each slot that is
    sized by them; UsageError if it has not enough cells."""
    ways: tuple[WaysPlan, ...] = ()
    """The groups of equal ways of a switch."""
    warms_up: bool = False
    """True if the agent handles a pause once before there is traffic, because the first one takes the CPU longest."""
