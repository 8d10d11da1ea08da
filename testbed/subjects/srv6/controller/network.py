"""The network as its routers report it: from reports to a topology.

A link is there if both of its ends are reported and name each other. It is up if both report so, carries the slices
that both know, has the affinities of either, and has in each direction the delay that its sender measured. Reports that
do not fit together (a link with one end, a SID of two routers, a SID outside of its router's configured locators) are
left out and listed, since half of them would be a guess. Of two routers with one SID the one with a session has it.

A topology is made anew from all reports when one has changed: so it is the same whatever the order in which they came.
Measured delays always differ a little; a change by less than an eighth, or less than 50 us, is none, or paths would
follow the noise.

Routers as the IGP of the network describes them: SIDs of all, and links of those that have no agent.

A router without an agent is a legacy router: nothing is installed on it, and it has no End.X.PFC, but lists lead
through it. What is known of it is what IS-IS floods (RFC 9352): its End SID, its neighbours with their metrics, and an
End.X SID for each. A link state packet names no interfaces, so those of a legacy router are called by the neighbour,
`to-r1`. The metrics are the delays of links in microseconds. Of several links between two routers one is known.

A router with an agent reports its links and its End.X.PFC itself; the IGP adds the SIDs of its own.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from ipaddress import IPv6Address, IPv6Network
from typing import Annotated

from testbed.subjects.srv6.controller.topology import Link, Topology
from testbed.subjects.srv6.protocol import behaviours
from testbed.subjects.srv6.protocol.domain import RouterName, SidAddress
from testbed.subjects.srv6.protocol.sid import Adjacency, Sid
from testbed.subjects.srv6.session.messages import LinkEnd, Report, RouterPort
from testbed.typed_json.codec import CODEC
from testbed.typed_json.meta import Meta
from testbed.typed_json.text import InvalidError

_METRIC_NS = 1000


@dataclass(frozen=True)
class IgpNeighbour:
    """A neighbour of a router, and the End.X SIDs that lead to it."""

    router: RouterName
    metric: Annotated[int, Meta(ge=0, le=(1 << 24) - 1)]
    sids: Annotated[tuple[SidAddress, ...], Meta(max_length=16)] = ()


@dataclass(frozen=True)
class IgpRouter:
    """A router, as its link state packets describe it."""

    router: RouterName
    address: SidAddress
    """An address of the router that is no SID, by which the End.X SIDs of others name it."""
    end: Annotated[tuple[SidAddress, ...], Meta(max_length=16)] = ()
    neighbours: Annotated[tuple[IgpNeighbour, ...], Meta(max_length=1024)] = ()


def read(text: str) -> tuple[IgpRouter, ...]:
    """Return the routers of a JSON text; InvalidError if it has others."""
    try:
        content = json.loads(text)
    except ValueError as error:
        raise InvalidError("", text[:40], f"it is no JSON: {error}") from None
    found: tuple[IgpRouter, ...] = CODEC.decode(tuple[IgpRouter, ...], content)
    return found


def write(routers: Iterable[IgpRouter]) -> str:
    return json.dumps([CODEC.encode(router) for router in routers], indent=1) + "\n"


def to(neighbour: str) -> str:
    """Return the name of a legacy router's interface to a neighbour."""
    return f"to-{neighbour}"


def joined(reported: Mapping[str, Report], routers: Iterable[IgpRouter]) -> dict[str, Report]:
    """Return the reports of agents with the IGP's SIDs in them, and a report for each router without an agent."""
    known = {router.router: router for router in routers}
    reports = dict(reported)
    for name, router in known.items():
        report = reported.get(name)
        if report is None:
            links = {one.router: _igp_link(name, one, reported) for one in router.neighbours}
            reports[name] = Report(name, tuple(_sids(router, known, {})), tuple(links.values()))
            continue
        by_neighbour = {link.neighbour.router: link.interface for link in reversed(report.links)}
        own = {sid.address for sid in report.sids}
        more = tuple(sid for sid in _sids(router, known, by_neighbour) if sid.address not in own)
        reports[name] = replace(report, sids=(*report.sids, *more))
    return reports


def _igp_link(name: str, neighbour: IgpNeighbour, reported: Mapping[str, Report]) -> LinkEnd:
    far = to(name)
    if (other := reported.get(neighbour.router)) is not None:
        far = next((link.interface for link in other.links if link.neighbour.router == name), far)
    return LinkEnd(to(neighbour.router), RouterPort(neighbour.router, far), neighbour.metric * _METRIC_NS)


def _sids(router: IgpRouter, known: Mapping[str, IgpRouter], interfaces: Mapping[str, str]) -> Iterable[Sid]:
    for address in router.end:
        yield Sid(router.router, address, behaviours.END)
    for neighbour in router.neighbours:
        next_hop = _address(neighbour.router, known)
        if next_hop is not None:
            interface = interfaces.get(neighbour.router, to(neighbour.router))
            for address in neighbour.sids:
                yield Sid(router.router, address, behaviours.END_X, adjacencies=(Adjacency(interface, next_hop),))


def _address(name: str, known: Mapping[str, IgpRouter]) -> IPv6Address | None:
    return known[name].address if name in known else None


_NOISE_NS = 50_000
_NOISE_PART = 8


@dataclass(frozen=True)
class Network:
    """The network that the reports make together."""

    topology: Topology
    problems: tuple[str, ...]  # what was left out, and why
    unreported: tuple[str, ...]  # routers that others name as neighbours


def steady(new: Report, old: Report | None) -> Report:
    """Return the new report, with the old delays where they differ by noise."""
    if old is None:
        return new
    known = {(link.interface, link.neighbour): link.delay_ns for link in old.links}
    links = []
    for link in new.links:
        before = known.get((link.interface, link.neighbour), link.delay_ns)
        is_noise = abs(link.delay_ns - before) < max(before // _NOISE_PART, _NOISE_NS)
        links.append(replace(link, delay_ns=before) if is_noise else link)
    return replace(new, links=tuple(links))


def differs(new: Report, old: Report | None) -> bool:
    """Return True if paths, lists or tunnels may differ by this report."""
    return old is None or (new.sids, new.links) != (old.sids, old.links)


def build(
    reports: Mapping[str, Report],
    down: Collection[str] = (),
    removed: Collection[str] = (),
    locators: Mapping[str, Collection[IPv6Network]] | None = None,
) -> Network:
    """Return the topology of all reports.

    `down` are routers that count as lost, `removed` those that the controller does not wait for though others name
    them. `locators` has the prefixes that each router's SIDs may be in; None is any.
    """
    topology, problems = Topology(), list[str]()
    for name in sorted(reports):
        topology.add_router(name)
        if name in down:
            topology.set_router(name, up=False)
    ends = {RouterPort(name, end.interface): end for name, report in reports.items() for end in report.links}
    for port in sorted(ends):
        end = ends[port]
        far = ends.get(end.neighbour)
        if far is None or far.neighbour != port:
            if end.neighbour.router in reports:
                contradiction = f"names {far.neighbour}" if far else "does not report it"
                problems.append(f"{port} is reported to lead to {end.neighbour}, which {contradiction}")
        elif port.router == end.neighbour.router:
            problems.append(f"{port} leads back to its own router, at {end.neighbour}")
        elif port < end.neighbour:
            topology.put_link(_link(port, end, far))
    owners: dict[IPv6Address, Sid] = {}
    for name in sorted(reports, key=lambda name: (name in down, name)):
        kept = []
        for sid in reports[name].sids:
            if locators is not None and not any(sid.address in prefix for prefix in locators.get(name, ())):
                own = ", ".join(map(str, locators.get(name, ()))) or "none"
                problems.append(f"{sid.name} is left out: the locators configured for {name} are {own}")
                continue
            owner = owners.setdefault(sid.address, sid)
            if owner is sid:
                kept.append(sid)
            else:
                problems.append(f"{sid.name} is left out: it is also {owner.name}")
        topology.put_sids(name, kept)
    named = {end.neighbour.router for end in ends.values()}
    return Network(topology, tuple(problems), tuple(sorted(named - reports.keys() - set(removed))))


def _link(port: RouterPort, end: LinkEnd, far: LinkEnd) -> Link:
    return Link(
        (port, end.neighbour),
        (end.delay_ns, far.delay_ns),
        end.slices & far.slices,
        end.affinity | far.affinity,
        end.up and far.up,
    )
