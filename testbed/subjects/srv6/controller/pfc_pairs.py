"""The pairs of routers for back-pressure along a path, and the segments between (draft, section 3; decision 0140).

Of the routers on a path, those are in question that advertise End.X.PFC SIDs. For each one after the first, the nearest
upstream that can pause the very interface by which the path leaves it is its partner: "the device and interface closest
to itself". Routers between them know nothing of PFC. For every pair there are two tunnels:

- back, from the downstream router to the upstream one's End.X.PFC SID: against the data of this path;
- forth, the other way round, for the data that come back by the same routers, if the downstream router can pause the
  interface by which they leave it.

A list names an own SID of the sender (End, or on request its End.X SID for the first link, as the draft's scenario 2
writes it), the End SID of each router on the way, and the End.X.PFC SID. Where a router on the way would not take the
path's link by itself, its End.X SID for that link is used instead of its End SID. If a SID is missing, the pair has no
such tunnel, and records the reason.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv6Address

from testbed.errors import XoffError
from testbed.frames.srh import MOST_SEGMENTS
from testbed.subjects.srv6.controller.paths import Path, Paths
from testbed.subjects.srv6.controller.topology import Hop, Topology
from testbed.subjects.srv6.protocol import behaviours
from testbed.subjects.srv6.protocol.behaviours import Behaviour
from testbed.subjects.srv6.protocol.reverse_tunnel import ReverseTunnel
from testbed.subjects.srv6.protocol.sid import Sid


class NoSegmentsError(XoffError):
    """The error of a path that has no list of segments, since a SID is missing."""


@dataclass(frozen=True)
class Pair:
    """Two PFC-capable routers that follow each other on a path."""

    upstream: str
    downstream: str
    back: ReverseTunnel | None
    forth: ReverseTunnel | None
    missing: tuple[str, ...] = ()  # why a tunnel is not there


def find_pairs(
    topology: Topology, paths: Paths, path: Path, slice_id: int | None, own: Behaviour = behaviours.END
) -> tuple[Pair, ...]:
    """Return the pairs of a path, from its start to its end. `own` is the kind of their tunnels' first segment."""
    pairs = []
    nearest: int | None = None  # of the hops so far, the last that its router can pause
    for index, hop in enumerate(path.hops):
        if paths.can_pause(hop.out_of, slice_id):
            nearest = index
        if nearest is not None and topology.is_pfc_capable(hop.into.router):
            between = Path(path.hops[nearest : index + 1])
            pairs.append(_pair(topology, paths, between, slice_id, own))
    return tuple(pairs)


def _pair(topology: Topology, paths: Paths, between: Path, slice_id: int | None, own: Behaviour) -> Pair:
    tunnels: list[ReverseTunnel | None] = []
    missing = []
    for way in (between.reverse, between):
        try:
            tunnels.append(reverse_tunnel(topology, paths, way, slice_id, own))
        except NoSegmentsError as error:
            tunnels.append(None)
            missing.append(str(error))
    return Pair(between.routers[0], between.routers[-1], tunnels[0], tunnels[1], tuple(missing))


def reverse_tunnel(
    topology: Topology, paths: Paths, way: Path, slice_id: int | None, own: Behaviour = behaviours.END
) -> ReverseTunnel:
    """Return the tunnel along this way that pauses the last router's interface towards the first."""
    last = way.hops[-1].into
    target = topology.find_sid(last.router, behaviours.END_X_PFC, slice_id, last.interface)
    if target is None:
        raise NoSegmentsError(f"{last.router} advertises no End.X.PFC SID for {last}, so it cannot be paused")
    start = way.hops[0].out_of
    first = _needed_sid(topology, start.router, own, slice_id, start.interface if own.has_adjacencies else None)
    middle = [transit_segment(topology, paths, hop, slice_id) for hop in way.hops[1:]]
    if len(middle) + 2 > MOST_SEGMENTS:
        raise NoSegmentsError(f"a list for {len(way.hops)} hops is too long; a header has room for {MOST_SEGMENTS}")
    return ReverseTunnel(
        router=start.router,
        pauses=last.router,
        segments=(first.address, *middle, target.address),
        slice_id=slice_id,
        interface=start.interface,
        delay_ns=way.delay_ns,
    )


def transit_segment(topology: Topology, paths: Paths, hop: Hop, slice_id: int | None) -> IPv6Address:
    """Return the segment of a router on the way that has to send on by this link."""
    router, interface = hop.out_of.router, hop.out_of.interface
    if paths.natural(hop):
        return _needed_sid(topology, router, behaviours.END, slice_id).address
    return _needed_sid(topology, router, behaviours.END_X, slice_id, interface).address


def _needed_sid(
    topology: Topology, router: str, behaviour: Behaviour, slice_id: int | None, interface: str | None = None
) -> Sid:
    sid = topology.find_sid(router, behaviour, slice_id, interface, forwards=interface is not None)
    if sid is None:
        where = f" for the link at {interface}, which the path needs" if interface else ""
        raise NoSegmentsError(f"{router} advertises no {behaviour} SID{where}")
    return sid
