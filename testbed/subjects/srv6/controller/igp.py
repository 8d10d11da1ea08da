"""Routers as the IGP of the network describes them: SIDs of all, and links of those that have no agent.

A router without an agent is a legacy router: nothing is installed on it, and it has no End.X.PFC, but lists lead
through it. What is known of it is what IS-IS floods (RFC 9352): its End SID, its neighbours with their metrics, and an
End.X SID for each. A link state packet names no interfaces, so those of a legacy router are called by the neighbour,
`to-r1`. The metrics are the delays of links in microseconds. Of several links between two routers one is known.

A router with an agent reports its links and its End.X.PFC itself; the IGP adds the SIDs of its own.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from ipaddress import IPv6Address
from typing import Annotated

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
    found = dict(reported)
    for name, router in known.items():
        report = reported.get(name)
        if report is None:
            links = {one.router: _link(name, one, reported) for one in router.neighbours}
            found[name] = Report(name, tuple(_sids(router, known, {})), tuple(links.values()))
            continue
        by_neighbour = {link.neighbour.router: link.interface for link in reversed(report.links)}
        own = {sid.address for sid in report.sids}
        more = tuple(sid for sid in _sids(router, known, by_neighbour) if sid.address not in own)
        found[name] = replace(report, sids=(*report.sids, *more))
    return found


def _link(name: str, neighbour: IgpNeighbour, reported: Mapping[str, Report]) -> LinkEnd:
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
