"""The network as its routers report it: from reports to a topology.

A link is there if both of its ends are reported and name each other. It is up if both report so, carries the slices
that both know, has the affinities of either, and has in each direction the delay that its sender measured. Reports that
do not fit together (a link with one end, a SID of two routers, a SID outside of its router's configured locators) are
left out and listed, since half of them would be a guess. Of two routers with one SID the one with a session has it.

A topology is made anew from all reports when one has changed: so it is the same whatever the order in which they came.
Measured delays always differ a little; a change by less than an eighth, or less than 50 us, is none, or paths would
follow the noise.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from ipaddress import IPv6Address, IPv6Network

from testbed.subjects.srv6.controller.topology import Link, Topology
from testbed.subjects.srv6.protocol.sid import Sid
from testbed.subjects.srv6.session.messages import LinkEnd, Report, RouterPort

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
