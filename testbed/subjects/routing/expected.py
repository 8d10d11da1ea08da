"""The routes that routers have when all of them have told each other what they know: to compare the kernels' with.

This is a model of what the protocols' documents ask for, not of a program: shortest paths by costs for OSPF and IS-IS,
paths of the fewest ASes for BGP, and all ways that are equally good. A destination may be out of reach.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable, Mapping

from testbed.subjects.routing.protocols import Bgp
from testbed.subjects.routing.router import Router, RouterPort

Routes = dict[str, frozenset[str]]
"""The ports of a router's equal ways, by prefix."""
Cables = dict[str, list[RouterPort]]


def expected(
    routers: Mapping[str, Router],
    protocols: frozenset[type],
    asn_of: Callable[[Router], int],
    is_up: Callable[[str], bool],
) -> dict[str, Routes]:
    """Return the routes of each router to the prefixes of the others. `is_up` tells whether a port has its carrier."""
    cables = {
        name: [
            port for port in router.uplinks if is_up(port.name) and is_up(port.far_port) and port.neighbour in routers
        ]
        for name, router in routers.items()
    }
    found: dict[str, Routes] = {name: {} for name in routers}
    for goal, owner in routers.items():
        if not owner.networks:
            continue
        ways = _by_ases(goal, routers, cables, asn_of) if Bgp in protocols else _by_costs(goal, cables)
        for name, ports in ways.items():
            if name != goal and ports:
                found[name] |= dict.fromkeys(owner.networks, ports)
    return found


def _by_costs(goal: str, cables: Cables) -> dict[str, frozenset[str]]:
    into: dict[str, list[tuple[str, int]]] = defaultdict(list)
    for name, ports in cables.items():
        for port in ports:
            into[port.neighbour].append((name, port.cost))
    distance, waiting = {goal: 0}, [(0, goal)]
    while waiting:
        so_far, router = heapq.heappop(waiting)
        if so_far > distance[router]:
            continue
        for other, cost in into[router]:
            if so_far + cost < distance.get(other, so_far + cost + 1):
                distance[other] = so_far + cost
                heapq.heappush(waiting, (so_far + cost, other))
    far = 1 << 62
    return {
        name: frozenset(
            port.name for port in ports if distance.get(port.neighbour, far) + port.cost == distance.get(name)
        )
        for name, ports in cables.items()
    }


def _by_ases(
    goal: str, routers: Mapping[str, Router], cables: Cables, asn_of: Callable[[Router], int]
) -> dict[str, frozenset[str]]:
    """Return the ways of BGP: each router tells its best path, and takes none that has its own AS."""
    best: dict[str, tuple[int, ...]] = {goal: ()}
    ways: dict[str, frozenset[str]] = {}
    for _ in routers:
        new: dict[str, tuple[int, ...]] = {goal: ()}
        ways = {}
        for name, ports in cables.items():
            own, offers = asn_of(routers[name]), list[tuple[tuple[int, ...], str]]()
            for port in ports:
                path = best.get(port.neighbour)
                if name != goal and path is not None:
                    whole = (asn_of(routers[port.neighbour]), *path)
                    if own not in whole:
                        offers.append((whole, port.name))
            if offers:
                shortest = min(len(path) for path, _ in offers)
                equal = [(path, port) for path, port in offers if len(path) == shortest]
                new[name] = min(path for path, _ in equal)
                ways[name] = frozenset(port for _, port in equal)
        if new == best:
            break
        best = new
    return ways
