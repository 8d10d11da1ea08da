"""Shortest paths by delay over a topology, under constraints; the same topology always gives the same paths.

A path is better if its delay is lower, then if it has fewer hops, then if its routers come earlier in the alphabet,
compared from the start, and of parallel links the first by port is taken. One number orders the first two: the delay
with a 1 added below for every hop. For each destination one search goes backwards through the network and is kept, so
all sources share it, and so do all policies with the same constraints.

Routers are taken to route locators by these paths without constraints. So a list of segments has to force a link only
where a router would take another one by itself (`natural`).

A `Paths` belongs to one revision of its topology, and refuses to be used after a change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

from testbed.errors import XoffError
from testbed.subjects.srv6.controller.topology import Hop, Topology
from testbed.subjects.srv6.protocol import behaviours
from testbed.subjects.srv6.session.messages import RouterPort

_HOP_BITS = 20
"""The bits for hops, below the delay: a million hops."""

_UNREACHABLE = -1


@dataclass(frozen=True)
class Constraints:
    """The constraints on the links of a path. The default is every link that is up."""

    slice_id: int | None = None  # only links that carry this slice
    include_any: frozenset[str] = frozenset()  # only links with at least one of these affinities
    include_all: frozenset[str] = frozenset()
    exclude_any: frozenset[str] = frozenset()
    pfc_every_hop: bool = False  # every router on the way can pause the link it sends into

    def allow(self, hop: Hop) -> bool:
        """Return True if a link meets all constraints but PFC, which is not a property of the link."""
        link = hop.link
        return (
            (self.slice_id is None or self.slice_id in link.slices)
            and (not self.include_any or not self.include_any.isdisjoint(link.affinity))
            and self.include_all <= link.affinity
            and self.exclude_any.isdisjoint(link.affinity)
        )


ANY_LINK = Constraints()


@dataclass(frozen=True)
class Path:
    """A path through the network, link by link."""

    hops: tuple[Hop, ...]

    @property
    def routers(self) -> tuple[str, ...]:
        return (*(hop.out_of.router for hop in self.hops[:1]), *(hop.into.router for hop in self.hops))

    @property
    def delay_ns(self) -> int:
        return sum(hop.delay_ns for hop in self.hops)

    @property
    def reverse(self) -> Path:
        return Path(tuple(hop.reverse for hop in reversed(self.hops)))


class _Graph:
    """The links that some constraints allow, as numbers: routers in the order of their names."""

    def __init__(self, names: Sequence[str], hops: Sequence[Hop]) -> None:
        self.number = {name: number for number, name in enumerate(names)}
        self.out: list[list[tuple[int, int, Hop]]] = [[] for _ in names]  # (cost, next, hop) of each router
        self.into: list[list[tuple[int, int]]] = [[] for _ in names]  # (cost, previous) of each router
        for hop in hops:
            source, target = self.number[hop.out_of.router], self.number[hop.into.router]
            cost = (hop.delay_ns << _HOP_BITS) + 1
            self.out[source].append((cost, target, hop))
            self.into[target].append((cost, source))
        for edges in self.out:
            edges.sort(key=lambda edge: (edge[1], edge[0], edge[2].out_of))
        self.costs: dict[tuple[int, int], list[int]] = {}

    def costs_to(self, target: int, without: int = _UNREACHABLE) -> list[int]:
        """Return the cost from every router to `target`, by ways that do not lead through `without`."""
        key = (target, without)
        if key in self.costs:
            return self.costs[key]
        costs = [_UNREACHABLE] * len(self.into)
        heap = [(0, target)]
        into = self.into
        while heap:
            cost, router = heappop(heap)
            if costs[router] != _UNREACHABLE or router == without:
                continue
            costs[router] = cost
            for step, previous in into[router]:
                if costs[previous] == _UNREACHABLE:
                    heappush(heap, (cost + step, previous))
        self.costs[key] = costs
        return costs

    def follow(self, source: int, target: int, costs: list[int]) -> list[Hop]:
        """Return the first of the best ways, which takes at each router the lowest number that keeps to the cost."""
        hops = []
        while source != target:
            for step, following, hop in self.out[source]:
                if costs[following] != _UNREACHABLE and step + costs[following] == costs[source]:
                    hops.append(hop)
                    source = following
                    break
            else:
                raise AssertionError("a router with a cost has a next hop with the rest of it")
        return hops


class Paths:
    """Shortest paths over a topology as it is now."""

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self._revision = topology.revision
        self._names = topology.routers
        self._hops = list(topology.hops())
        self._graphs: dict[Constraints, _Graph] = {}
        self._natural: dict[RouterPort, bool] = {}
        self._pfc: dict[tuple[RouterPort, int | None], bool] = {}

    def shortest(
        self, source: str, target: str, constraints: Constraints = ANY_LINK, *, pfc_first: bool = False
    ) -> Path | None:
        """Return the best path, or None if there is none. With `pfc_first`, `source` has to be able to pause the first
        link.
        """
        self._check_fresh()
        for name in (source, target):
            self._topology.check_router(name)
        graph = self._graph(constraints)
        start, end = graph.number[source], graph.number[target]
        if start == end:
            return Path(())
        costs = graph.costs_to(end)
        if not pfc_first:
            return None if costs[start] == _UNREACHABLE else Path(tuple(graph.follow(start, end, costs)))
        path = self._with_pfc_first(graph, start, end, costs, constraints.slice_id)
        if path is not None and source in path.routers[1:]:
            # The best way on leads back through the source. This is rare, so it gets a search of its own.
            path = self._with_pfc_first(graph, start, end, graph.costs_to(end, without=start), constraints.slice_id)
        return path

    def natural(self, hop: Hop) -> bool:
        """Return True if a router that sends to its neighbour on this link takes this link by itself."""
        self._check_fresh()
        port = hop.out_of
        if port not in self._natural:
            self._natural[port] = self._is_best(hop)
        return self._natural[port]

    def can_pause(self, port: RouterPort, slice_id: int | None) -> bool:
        """Return True if a router advertises that it can pause this interface for the slice."""
        key = (port, slice_id)
        if key not in self._pfc:
            found = self._topology.find_sid(port.router, behaviours.END_X_PFC, slice_id, port.interface)
            self._pfc[key] = found is not None
        return self._pfc[key]

    def _graph(self, constraints: Constraints) -> _Graph:
        if constraints not in self._graphs:
            hops = [hop for hop in self._hops if constraints.allow(hop)]
            if constraints.pfc_every_hop:
                hops = [hop for hop in hops if self.can_pause(hop.out_of, constraints.slice_id)]
            self._graphs[constraints] = _Graph(self._names, hops)
        return self._graphs[constraints]

    def _with_pfc_first(
        self, graph: _Graph, start: int, end: int, costs: list[int], slice_id: int | None
    ) -> Path | None:
        best: tuple[int, int, Hop] | None = None
        for step, following, hop in graph.out[start]:
            if costs[following] == _UNREACHABLE or not self.can_pause(hop.out_of, slice_id):
                continue
            if best is None or step + costs[following] < best[0]:
                best = (step + costs[following], following, hop)
        if best is None:
            return None
        return Path((best[2], *graph.follow(best[1], end, costs)))

    def _is_best(self, hop: Hop) -> bool:
        """Search from the router on, no further than the link itself would lead. Return True if no way is better."""
        graph = self._graph(ANY_LINK)
        source, target = graph.number[hop.out_of.router], graph.number[hop.into.router]
        limit = (hop.delay_ns << _HOP_BITS) + 1
        seen: set[int] = set()
        heap = [(0, source)]
        while heap:
            cost, router = heappop(heap)
            if router in seen:
                continue
            seen.add(router)
            for step, following, other in graph.out[router]:
                if following == target and (
                    cost + step < limit or (router == source and step == limit and other.out_of < hop.out_of)
                ):
                    return False
                if cost + step < limit and following not in seen:
                    heappush(heap, (cost + step, following))
        return True

    def _check_fresh(self) -> None:
        if self._topology.revision != self._revision:
            raise XoffError("the topology has changed since these paths were computed; make a new Paths")
