"""The plan of a router's part in End.X.PFC: SIDs, tunnels, slices, and the session with the SR policy controller."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from ipaddress import IPv6Address

from testbed.subjects.srv6.protocol.endx_pfc import LocalSid
from testbed.subjects.srv6.protocol.pause_refresh import Refresh
from testbed.subjects.srv6.protocol.reverse_tunnel import ReverseTunnel
from testbed.subjects.srv6.protocol.sid import Sid
from testbed.subjects.srv6.protocol.tunnel_learning import LearnerSettings
from testbed.subjects.srv6.session.messages import Report
from testbed.units import Rate


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
