"""Forwarding in a network of switches that may have loops: along shortest paths, or as the topology defines.

A learning switch floods frames to unknown addresses, and in a loop they never stop. So broadcasts keep to a spanning
tree, and each switch's table is filled in advance with the way to every host. Among equally short ways a switch chooses
by `testbed.switch.ways`, for each frame or each flow. Without that the host's number decides.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from testbed.switch.ways.network import Switch, settings_in_force, switch_of
from testbed.switch.ways.settings import Ways

NextHop = Callable[[str, str], "str | None"]
"""A function (switch, host) that returns the neighbour to forward to, or None for the shortest way."""


def has_equal_routes(params: Mapping[str, Any]) -> bool:
    """Report whether a router was given a route with several neighbours, in `routes` or by one of its `commands`, or
    has daemons that find some."""
    if params.get("routing") is not None:
        return True
    routes, commands = params.get("routes") or {}, params.get("commands") or ()
    several = any(not isinstance(neighbours, str) and len(neighbours) > 1 for neighbours in routes.values())
    return several or any(isinstance(one, str) and one.count(" nexthop ") > 1 for one in commands)


@dataclass
class Graph:
    """The graph of a network: {node: [(name of a port, the neighbour that it leads to)]}."""

    neighbours: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    forwarding: set[str] = field(default_factory=set)
    chosen: NextHop | None = None
    costs: dict[str, int] = field(default_factory=dict)
    """The cost of leaving by a port, where it is not 1: the shortest way is the one that costs least."""
    _found: dict[str, dict[str, int]] = field(default_factory=dict)

    @classmethod
    def of(cls, links: Sequence[Any]) -> Graph:
        """Return the graph of Mininet's links."""
        graph = cls()
        for link in links:
            one, other = link.intf1, link.intf2
            graph.join(one.node.name, one.name, other.node.name, other.name, getattr(link, "cost", 1))
            for end in (one, other):
                if getattr(end.node, "bridges", False):
                    graph.forwarding.add(end.node.name)
                    graph.chosen = graph.chosen or end.node.params.get("next_hop")
        return graph

    @classmethod
    def of_topo(cls, topo: Any) -> Graph:
        """Return the graph of the network that Mininet builds of a lossless topology, with its names of ports."""
        graph = cls(chosen=topo.next_hop)
        kinds = {name: topo.nodeInfo(name).get("cls") for name in topo.nodes()}
        graph.forwarding = {name for name, kind in kinds.items() if getattr(kind, "bridges", False)}
        for _, _, info in topo.links(sort=True, withInfo=True):
            ends = [
                (info[f"node{end}"], info.get(f"intfName{end}") or f"{info[f'node{end}']}-eth{info[f'port{end}']}")
                for end in (1, 2)
            ]
            graph.join(*ends[0], *ends[1], info.get("cost", 1))
        return graph

    def join(self, one: str, port: str, other: str, other_port: str, cost: int = 1) -> None:
        """Add a cable between the ports of two nodes."""
        if cost != 1:
            self.costs |= {port: cost, other_port: cost}
        self.neighbours.setdefault(one, []).append((port, other))
        self.neighbours.setdefault(other, []).append((other_port, one))

    def has_loop(self) -> bool:
        """Return True if the switches form a loop."""
        cables = sum(other in self.forwarding for node in self.forwarding for _, other in self.neighbours[node]) // 2
        return cables > len(self.forwarding) - self._parts()

    def tree(self, switch: str) -> set[str]:
        """Return the ports of a switch that broadcasts may use: those to hosts, and those of one spanning tree."""
        if not self.has_loop():
            return {port for port, _ in self.neighbours[switch]}
        used = {port for port, other in self.neighbours[switch] if other not in self.forwarding}
        for one, port, other, other_port in self._tree_cables():
            if one == switch:
                used.add(port)
            if other == switch:
                used.add(other_port)
        return used

    def next_hops(self, switch: str) -> dict[str, str]:
        """Return the port of a switch that leads to each host and router."""
        return {
            host: port
            for number, host in enumerate(self._stations())
            if (port := self._next_port(switch, host, number)) is not None
        }

    def equal_ways(self, switch: str) -> dict[str, tuple[str, ...]]:
        """Return the ports of a switch among which it can choose for each host and router, where there are several.

        The way that a topology's `next_hop` names is no choice, except among parallel cables.
        """
        found = {host: tuple(self._ports_to(switch, host)) for host in self._stations()}
        return {host: ports for host, ports in found.items() if len(ports) > 1}

    def switches(
        self,
        settings: Callable[[str], Ways | None],
        run_seed: int,
        is_there: Callable[[str], bool] = lambda port: True,
    ) -> dict[str, Switch]:
        """Return all switches with their ways to each station, as `testbed.switch.ways` describes them.

        `settings` returns what a switch was given, and `is_there` whether the switch still uses a port.
        """
        found = {}
        for name in (node for node in self.neighbours if node in self.forwarding):
            own, far, equal = settings_in_force(settings(name)), dict(self.neighbours[name]), self.equal_ways(name)
            stations = {
                station: tuple((port, far[port]) for port in (equal.get(station, ()) if own is not None else ()))
                or ((leaving, far[leaving]),)
                for station, leaving in self.next_hops(name).items()
            }
            reasons = self._reasons(name, equal if own is None else {})
            found[name] = switch_of(name, own, run_seed, stations=stations, is_there=is_there, reasons=reasons)
        return found

    def _reasons(self, switch: str, by_number: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
        """Return in words why a switch has one way to a station, where there could be several."""
        reasons = {}
        for number, station in enumerate(self._stations()):
            if self.chosen and (wanted := self.chosen(switch, station)):
                reasons[station] = f"the topology sends frames to {station} by {wanted}"
            elif station in by_number:
                many = len(by_number[station])
                reasons[station] = (
                    f"{station} is station number {number}, and modulo {many} ways that is {number % many}"
                )
        return reasons

    def entries(self) -> list[str]:
        """Return the switches that have a cable to a host or router."""
        return [
            node
            for node, cables in self.neighbours.items()
            if node in self.forwarding and any(other not in self.forwarding for _, other in cables)
        ]

    def way(self, source: str, target: str) -> list[str] | None:
        """Return the ports by which frames between two hosts leave each node, or None if a router lies between."""
        distance = self._distances(target)
        hops = [hop for hop in self.neighbours.get(source, ()) if self._is_shortest(distance, source, *hop)]
        number = list(self._stations()).index(target) if target in self.neighbours else 0
        way: list[str] = []
        while hops and len(way) < len(self.neighbours):
            port, node = hops[0]
            way.append(port)
            if node == target:
                return way
            taken = self._next_port(node, target, number) if node in self.forwarding else None
            hops = [hop for hop in self.neighbours[node] if hop[0] == taken]
        return None

    def shortest(self, source: str, target: str) -> list[str]:
        """Return the ports of a shortest way between two nodes through any others; none if there is no way."""
        came: dict[str, tuple[str, str]] = {}
        queue = deque([source])
        while queue and target not in came:
            node = queue.popleft()
            for port, other in self.neighbours.get(node, ()):
                if other not in came and other != source:
                    came[other] = (node, port)
                    queue.append(other)
        way: list[str] = []
        node = target
        while node != source and node in came:
            node, port = came[node]
            way.append(port)
        return way[::-1]

    def _stations(self) -> Iterator[str]:
        """Yield hosts and routers, in the order of their numbers."""
        return (node for node in self.neighbours if node not in self.forwarding)

    def _next_port(self, switch: str, host: str, number: int) -> str | None:
        ways = self._ports_to(switch, host)
        return ways[number % len(ways)] if ways else None

    def _ports_to(self, switch: str, host: str) -> list[str]:
        """Return the ports of a switch that lead to a host by a shortest way, or by the one that the topology names."""
        wanted = self.chosen(switch, host) if self.chosen else None
        if wanted is not None:
            return [port for port, other in self.neighbours[switch] if other == wanted]
        distance = self._distances(host)
        return [
            port
            for port, other in self.neighbours[switch]
            if (other in self.forwarding or other == host) and self._is_shortest(distance, switch, port, other)
        ]

    def _is_shortest(self, distance: dict[str, int], node: str, port: str, other: str) -> bool:
        """Report whether a shortest way from a node begins with this port, which leads to `other`."""
        return other in distance and distance[other] + self.costs.get(port, 1) == distance.get(node)

    def _distances(self, host: str) -> dict[str, int]:
        """Return how far each node is from the host, by ways through switches only: the sum of the cables' costs."""
        if host in self._found:
            return self._found[host]
        distance, queue = {host: 0}, deque([host])
        while queue:
            node = queue.popleft()
            if node != host and node not in self.forwarding:
                continue
            for port, other in self.neighbours[node]:
                reached = distance[node] + self.costs.get(port, 1)
                if reached < distance.get(other, reached + 1):
                    distance[other] = reached
                    queue.append(other)
        self._found[host] = distance
        return distance

    def _tree_cables(self) -> list[tuple[str, str, str, str]]:
        """Return the cables (switch, port, switch, port) of a breadth-first tree in each part of the network."""
        found: list[tuple[str, str, str, str]] = []
        reached: set[str] = set()
        for root in self.neighbours:
            if root not in self.forwarding or root in reached:
                continue
            reached.add(root)
            queue = deque([root])
            while queue:
                node = queue.popleft()
                for number, (port, other) in enumerate(self.neighbours[node]):
                    if other in self.forwarding and other not in reached:
                        reached.add(other)
                        found.append((node, port, other, self._far_port(node, number)))
                        queue.append(other)
        return found

    def _far_port(self, node: str, number: int) -> str:
        """Return the port at the other end of a node's cable; parallel cables are matched by their order."""
        _, other = self.neighbours[node][number]
        rank = sum(neighbour == other for _, neighbour in self.neighbours[node][:number])
        back = [port for port, neighbour in self.neighbours[other] if neighbour == node]
        return back[rank]

    def _parts(self) -> int:
        return len(self.forwarding) - len(self._tree_cables())
