"""Which way frames go in a network of switches that has loops: along shortest paths, or as the topology defines.

A learning switch floods what it does not know, and in a loop that never ends. So broadcasts keep to one tree, and each
switch's table is filled in advance with the way to every host. Among equally short ways the host's number decides, so
different hosts use different ways and every run the same.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

NextHop = Callable[[str, str], "str | None"]
"""(switch, host) -> the neighbour to go by, or None for the shortest way."""


@dataclass
class Graph:
    """Nodes, with for each the ports that lead to its neighbours: {node: [(port's name, neighbour)]}."""

    neighbours: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    forwarding: set[str] = field(default_factory=set)
    chosen: NextHop | None = None
    _found: dict[str, dict[str, int]] = field(default_factory=dict)

    @classmethod
    def of(cls, links: Sequence[Any]) -> Graph:
        """The graph of Mininet's links."""
        graph = cls()
        for link in links:
            one, other = link.intf1, link.intf2
            graph.join(one.node.name, one.name, other.node.name, other.name)
            for end in (one, other):
                if getattr(end.node, "bridges", False):
                    graph.forwarding.add(end.node.name)
                    graph.chosen = graph.chosen or end.node.params.get("next_hop")
        return graph

    def join(self, one: str, port: str, other: str, other_port: str) -> None:
        self.neighbours.setdefault(one, []).append((port, other))
        self.neighbours.setdefault(other, []).append((other_port, one))

    def has_loop(self) -> bool:
        """Do the switches make a loop?"""
        cables = sum(other in self.forwarding for node in self.forwarding for _, other in self.neighbours[node]) // 2
        return cables > len(self.forwarding) - self._parts()

    def tree(self, switch: str) -> set[str]:
        """The ports of a switch that broadcasts may use: those to hosts, and those of one spanning tree."""
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
        """{host or router: port of `switch` that leads to it}."""
        return {
            host: port
            for number, host in enumerate(self._stations())
            if (port := self._next_port(switch, host, number)) is not None
        }

    def way(self, source: str, target: str) -> list[str] | None:
        """The ports by which frames leave nodes on their way from a host to another; None if routers lie between."""
        distance = self._distances(target)
        nearest = distance.get(source, 0) - 1
        hops = [hop for hop in self.neighbours.get(source, ()) if distance.get(hop[1]) == nearest]
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

    def _stations(self) -> Iterator[str]:
        """Hosts and routers, in the order of their numbers."""
        return (node for node in self.neighbours if node not in self.forwarding)

    def _next_port(self, switch: str, host: str, number: int) -> str | None:
        wanted = self.chosen(switch, host) if self.chosen else None
        if wanted is not None:
            ways = [port for port, other in self.neighbours[switch] if other == wanted]
        else:
            distance = self._distances(host)
            nearest = distance.get(switch, 0) - 1
            ways = [
                port
                for port, other in self.neighbours[switch]
                if distance.get(other) == nearest and (other in self.forwarding or other == host)
            ]
        return ways[number % len(ways)] if ways else None

    def _distances(self, host: str) -> dict[str, int]:
        """Cables from each node to the host, through switches only."""
        if host in self._found:
            return self._found[host]
        distance, queue = {host: 0}, deque([host])
        while queue:
            node = queue.popleft()
            if node != host and node not in self.forwarding:
                continue
            for _, other in self.neighbours[node]:
                if other not in distance:
                    distance[other] = distance[node] + 1
                    queue.append(other)
        self._found[host] = distance
        return distance

    def _tree_cables(self) -> list[tuple[str, str, str, str]]:
        """(switch, its port, switch, its port) of a breadth-first tree, of each part of the network."""
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
        """The port at the other end of a node's cable: of parallel cables the one of the same rank."""
        _, other = self.neighbours[node][number]
        rank = sum(neighbour == other for _, neighbour in self.neighbours[node][:number])
        back = [port for port, neighbour in self.neighbours[other] if neighbour == node]
        return back[rank]

    def _parts(self) -> int:
        return len(self.forwarding) - len(self._tree_cables())
