"""SRv6 policies: the request of an operator, and the segment lists that follow from it (RFC 9256).

A policy is known by headend, colour and endpoint. It has candidate paths: explicit ones, which are lists of SIDs, and
dynamic ones, which are constraints. The valid candidate with the highest preference is active; of equal ones the higher
discriminator wins (RFC 9256, section 2.9; all of ours have one origin). For a candidate that cannot be used the reason
is recorded.

`check` is for the admission of policies; it refuses contradictions. `compute` is a pure function of topology and
policies: a failure in the network concerns only the policies that need what has failed, and `compute` is called again.

The list of a dynamic path by decision 0140: {headend's End.X.PFC, End of each router between, service}; a router
between that can pause its link is named by its End.X.PFC instead, and the service is the VPN SID (DT4, DT6 or DT46) of
the endpoint, without which the endpoint would not take the packets out of the tunnel. An explicit list that would lose
traffic, or turn it back, is refused, unless it is marked `literal`: the draft's own lists are of that kind.

The pairs of routers for back-pressure along a path, and the segments between (draft, section 3; decision 0140).

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

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from ipaddress import IPv6Address

from testbed.errors import XoffError
from testbed.frames.srh import MOST_SEGMENTS
from testbed.subjects.srv6.controller.paths import Constraints, Path, Paths
from testbed.subjects.srv6.controller.topology import Hop, Topology
from testbed.subjects.srv6.protocol import behaviours
from testbed.subjects.srv6.protocol.behaviours import Behaviour
from testbed.subjects.srv6.protocol.domain import Srv6Error
from testbed.subjects.srv6.protocol.reverse_tunnel import ReverseTunnel
from testbed.subjects.srv6.protocol.sid import Sid
from testbed.subjects.srv6.session.intents import Candidate, Dynamic, Explicit, Key, Policy, rank
from testbed.subjects.srv6.session.messages import RouterPort


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


class UnusableError(XoffError):
    """The reason why a candidate path cannot be used now."""


@dataclass(frozen=True)
class Active:
    """The candidate path in use."""

    candidate: Candidate
    path: Path
    segments: tuple[IPv6Address, ...]  # in order of travel

    @property
    def delay_ns(self) -> int:
        return self.path.delay_ns


@dataclass(frozen=True)
class Outcome:
    """The outcome of a policy: its active candidate, and the refused ones with reasons."""

    policy: Policy
    active: Active | None
    refused: tuple[tuple[str, str], ...]  # names of better candidates that cannot be used, and why
    pairs: tuple[Pair, ...] = ()

    @property
    def tunnels(self) -> tuple[ReverseTunnel, ...]:
        return tuple(tunnel for pair in self.pairs for tunnel in (pair.back, pair.forth) if tunnel)


def compute(
    topology: Topology, policies: Iterable[Policy], own: Behaviour = behaviours.END, paths: Paths | None = None
) -> tuple[Outcome, ...]:
    """Return the outcome of every policy, in the order given.

    `own` is the kind of the first SID of reverse tunnels: End, or End.X as in the draft's scenario 2. `paths` are
    those of this topology, if there are any already.
    """
    paths = paths or Paths(topology)
    return tuple(_outcome(topology, paths, policy, own) for policy in policies)


def trace(topology: Topology, paths: Paths, headend: str, segments: Sequence[IPv6Address]) -> Path:
    """Return the path of packets with this list. Between two segments routers take their own shortest way."""
    at, hops = headend, list[Hop]()
    for address in segments:
        sid = topology.sid(address)
        if sid is None:
            raise UnusableError(f"{address} is a SID of no router")
        if sid.behaviour is behaviours.END_B6_ENCAPS:
            raise UnusableError(f"{sid.name} is a policy's binding SID; a list must name its whole path itself")
        if not topology.is_up(sid.node):
            raise UnusableError(f"{sid.node} is down, which {address} belongs to")
        way = paths.shortest(at, sid.node)
        if way is None:
            raise UnusableError(f"there is no way from {at} to {sid.node}, which {address} belongs to")
        hops += way.hops
        at = sid.node
        if sid.behaviour.has_adjacencies:
            port = RouterPort(at, sid.adjacencies[0].interface)
            hop = topology.hop(port)
            if hop is None:
                raise UnusableError(f"{sid.name} sends into {port}, where no link to another router is up")
            hops.append(hop)
            at = hop.into.router
    return Path(tuple(hops))


def check(topology: Topology, policies: Iterable[Policy]) -> None:
    """Raise an Srv6Error if policies contradict each other or the network as it is."""
    keys: set[Key] = set()
    bindings: dict[IPv6Address, Key] = {}
    for policy in policies:
        key = policy.key
        for router in (key.headend, key.endpoint):
            topology.check_router(router)
        if key in keys:
            raise Srv6Error(f"policy {key} is there twice; headend, colour and endpoint together are unique")
        keys.add(key)
        if (wrong := _wrong_service(topology, policy)) is not None:
            raise Srv6Error(f"policy {key}: {wrong}")
        if policy.binding_sid is not None:
            taken = topology.sid(policy.binding_sid)
            if taken is not None and (taken.behaviour, taken.node) == (behaviours.END_B6_ENCAPS, key.headend):
                taken = None  # it is there already: this policy's, or of one that goes
            other = bindings.setdefault(policy.binding_sid, key)
            if taken is not None or other is not key:
                raise Srv6Error(
                    f"binding SID {policy.binding_sid} of policy {key} is taken by "
                    f"{taken.name if taken else f'policy {other}'}; choose another"
                )


def _wrong_service(topology: Topology, policy: Policy) -> str | None:
    if policy.service is None:
        return None
    sid, endpoint = topology.sid(policy.service), policy.key.endpoint
    if sid is not None and sid.node == endpoint and sid.behaviour.decapsulates:
        return None
    found = sid.name if sid else f"{policy.service}, a SID of no router"
    return f"the service is {found}; it must be a DT4, DT6 or DT46 SID of {endpoint}"


def _outcome(topology: Topology, paths: Paths, policy: Policy, own: Behaviour) -> Outcome:
    refused = []
    for candidate in sorted(policy.candidates, key=rank, reverse=True):
        try:
            active = _active(topology, paths, policy, candidate)
        except (UnusableError, NoSegmentsError) as error:
            refused.append((candidate.name, str(error)))
        else:
            pairs = find_pairs(topology, paths, _until_it_turns(active.path), policy.slice_id, own)
            return Outcome(policy, active, tuple(refused), pairs)
    return Outcome(policy, None, tuple(refused))


def _active(topology: Topology, paths: Paths, policy: Policy, candidate: Candidate) -> Active:
    for router in (policy.key.headend, policy.key.endpoint):
        if not topology.is_up(router):
            raise UnusableError(f"{router} is down")
    if (wrong := _wrong_service(topology, policy)) is not None:
        raise UnusableError(wrong)
    if isinstance(candidate, Explicit):
        active = _explicit(topology, paths, policy, candidate)
    else:
        active = _dynamic(topology, paths, policy, candidate)
    if len(active.segments) > MOST_SEGMENTS:
        raise UnusableError(f"the list has {len(active.segments)} segments; a header has room for {MOST_SEGMENTS}")
    return active


def _explicit(topology: Topology, paths: Paths, policy: Policy, candidate: Explicit) -> Active:
    segments = candidate.segments
    known = [topology.sid(address) for address in segments]
    if policy.service is not None and not any(sid and sid.behaviour.decapsulates for sid in known):
        segments = (*segments, policy.service)
    path = trace(topology, paths, policy.key.headend, segments)
    if not candidate.literal:
        last = topology.sid(segments[-1]) if segments else None
        if last is None or not last.behaviour.decapsulates or last.node != policy.key.endpoint:
            raise UnusableError(
                f"the list ends with {last.name if last else 'no SID'}, which does not take a VPN's packets out at "
                f"{policy.key.endpoint}: they would be lost; end it with a DT4, DT6 or DT46 SID, or mark it literal"
            )
        if policy.binding_sid is not None and not last.behaviour.takes_ipv6:
            raise UnusableError(
                f"the list ends with {last.name}, which takes out IPv4 only, and what comes by the binding SID "
                f"{policy.binding_sid} is IPv6: it would be lost; end it with a DT6 or DT46 SID, or mark it literal"
            )
        early = next((sid for sid in known[:-1] if sid and sid.behaviour.decapsulates), None)
        if early is not None:
            raise UnusableError(f"{early.name} takes the packets out before the list ends; leave out what follows it")
        if len(_until_it_turns(path).hops) < len(path.hops):
            raise UnusableError(
                f"the list leads through {', '.join(path.routers)} and so turns back to a router that the packet "
                "has passed; leave out the segment that sends it back, or mark the list literal"
            )
    return Active(candidate, path, segments)


def _dynamic(topology: Topology, paths: Paths, policy: Policy, candidate: Dynamic) -> Active:
    headend, endpoint, slice_id = policy.key.headend, policy.key.endpoint, policy.slice_id
    if policy.service is None:
        raise UnusableError(f"the policy has no service, so {endpoint} would not take its packets out; name a VPN SID")
    pfc = candidate.pfc_ends or candidate.pfc_every_hop
    if pfc and not topology.is_pfc_capable(endpoint):
        raise UnusableError(f"{endpoint} is not PFC-capable: it advertises no End.X.PFC SID")
    constraints = Constraints(
        slice_id, candidate.include_any, candidate.include_all, candidate.exclude_any, candidate.pfc_every_hop
    )
    path = paths.shortest(headend, endpoint, constraints, pfc_first=pfc)
    if path is None:
        raise UnusableError(f"no path from {headend} to {endpoint} meets the constraints")
    if candidate.max_delay_ns is not None and path.delay_ns > candidate.max_delay_ns:
        raise UnusableError(f"the best path takes {path.delay_ns} ns, and {candidate.max_delay_ns} ns are allowed")
    return Active(candidate, path, (*_transport(topology, paths, path, slice_id), policy.service))


def _transport(topology: Topology, paths: Paths, path: Path, slice_id: int | None) -> list[IPv6Address]:
    segments = []
    for index, hop in enumerate(path.hops):
        pausing = topology.find_sid(
            hop.out_of.router, behaviours.END_X_PFC, slice_id, hop.out_of.interface, forwards=True
        )
        if pausing is not None:
            segments.append(pausing.address)
        elif index or not paths.natural(hop):
            segments.append(transit_segment(topology, paths, hop, slice_id))
        # else the headend finds the first router by itself
    return segments


def _until_it_turns(path: Path) -> Path:
    """Return the beginning of a path up to where it comes back to a router that it has passed."""
    passed = set[str]()
    for index, hop in enumerate(path.hops):
        passed.add(hop.out_of.router)
        if hop.into.router in passed:
            return Path(path.hops[:index])
    return path
