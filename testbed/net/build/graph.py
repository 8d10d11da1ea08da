"""A topology: the names of nodes, their options, and the links between them.

`Topo` has the interface of Mininet's class of this name, and lists nodes and links in the same order, so Mininet builds
networks of either. This one needs no Mininet: a topology can be made and looked at anywhere.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

Info = dict[str, Any]
Key = int | str


class Topo:
    """A network to be: a subclass adds hosts, switches and links in its `build`, whose parameters are its own.

    Mininet's `hopts`, `sopts` and `lopts` are default options of hosts, switches and links.
    """

    def __init__(self, *args: Any, **params: Any) -> None:
        self.hopts: Info = params.pop("hopts", {})
        self.sopts: Info = params.pop("sopts", {})
        self.lopts: Info = params.pop("lopts", {})
        self.ports: dict[str, dict[int, tuple[str, int]]] = {}
        """The node and port at the other end of each port, by node and by number."""
        self._nodes: dict[str, Info] = {}
        self._links: dict[str, dict[str, dict[Key, Info]]] = {}
        """The links between two nodes by their keys; both orders of the two have the same ones."""
        self.build(*args, **params)

    if TYPE_CHECKING:
        build: Any
    else:

        def build(self, *args: Any, **params: Any) -> None:
            """Add the nodes and links."""

    def addNode(self, name: str, **opts: Any) -> str:
        self._nodes[name] = opts
        return name

    def addHost(self, name: str, **opts: Any) -> str:
        """Add a host, and return its name."""
        return self.addNode(name, **opts or self.hopts)

    def addSwitch(self, name: str, **opts: Any) -> str:
        """Add a switch, and return its name."""
        return self.addNode(name, isSwitch=True, **opts or self.sopts)

    def addLink(
        self,
        node1: str,
        node2: str,
        port1: int | None = None,
        port2: int | None = None,
        key: Key | None = None,
        **opts: Any,
    ) -> Any:
        """Add a link between two nodes, and return its key."""
        port1, port2 = self.addPort(node1, node2, port1, port2)
        info = {**(opts or self.lopts), "node1": node1, "node2": node2, "port1": port1, "port2": port2}
        for node in (node1, node2):
            self._nodes.setdefault(node, {})
            self._links.setdefault(node, {})
        between = self._links[node1].setdefault(node2, {})
        self._links[node2][node1] = between
        if key is None:
            key = max([0, *(one for one in between if isinstance(one, int))]) + 1
        between[key] = info
        return key

    def addPort(self, src: str, dst: str, sport: int | None = None, dport: int | None = None) -> tuple[int, int]:
        """Take a port at each of two nodes, by default the next: a switch's first one is 1, a host's is 0."""
        for node in (src, dst):
            self.ports.setdefault(node, {})
        source = len(self.ports[src]) + self.isSwitch(src) if sport is None else sport
        target = len(self.ports[dst]) + self.isSwitch(dst) if dport is None else dport
        self.ports[src][source] = dst, target
        self.ports[dst][target] = src, source
        return source, target

    def isSwitch(self, node: str) -> bool:
        return bool(self._nodes[node].get("isSwitch", False))

    def nodes(self, sort: bool = True) -> list[str]:
        """Return the names of all nodes: with the numbers in them in order, or as they were added."""
        return self.sorted(self._nodes) if sort else list(self._nodes)

    def hosts(self, sort: bool = True) -> list[str]:
        return [node for node in self.nodes(sort) if not self.isSwitch(node)]

    def switches(self, sort: bool = True) -> list[str]:
        return [node for node in self.nodes(sort) if self.isSwitch(node)]

    def iterLinks(self, withKeys: bool = False, withInfo: bool = False) -> Iterator[tuple[Any, ...]]:
        """Yield the two nodes of each link, with its key and its options if asked for."""
        for src, others in self._links.items():
            for dst, between in others.items():
                if src > dst:
                    continue  # the other order of the two has the same links
                for key, info in between.items():
                    yield (
                        info["node1"],
                        info["node2"],
                        *([key] if withKeys else []),
                        *([info] if withInfo else []),
                    )

    def links(self, sort: bool = False, withKeys: bool = False, withInfo: bool = False) -> list[tuple[Any, ...]]:
        """Return what `iterLinks` yields; sorted by the names of the nodes, with the numbers in them in order."""
        found = list(self.iterLinks(withKeys, withInfo))
        if sort:
            found.sort(key=lambda link: [_natural(str(part)) for part in link[: 3 if withKeys else 2]])
        return found

    if TYPE_CHECKING:
        port: Any  # a lossless topology has the settings of ports by this name
    else:

        def port(self, src: str, dst: str) -> Any:
            """Return the numbers of the ports at the ends of the link between two nodes: a list of pairs if there are
            several links."""
            ends = [(sport, there[1]) for sport, there in self.ports[src].items() if there[0] == dst]
            return ends if len(ends) != 1 else ends[0]

    def nodeInfo(self, name: str) -> Info:
        """Return the options of a node."""
        return self._nodes[name]

    def setNodeInfo(self, name: str, info: Info) -> None:
        self._nodes[name] = info

    def linkInfo(self, src: str, dst: str, key: Key | None = None) -> Info:
        """Return the options of a link: of the first between two nodes if no key is given."""
        between = self._links[src][dst]
        return between[next(iter(between)) if key is None else key]

    def setlinkInfo(self, src: str, dst: str, info: Info, key: Key | None = None) -> None:
        between = self._links[src][dst]
        between[next(iter(between)) if key is None else key] = info

    def convertTo(self, cls: Callable[[], Any], data: bool = True, keys: bool = True) -> Any:
        """Return the graph as an object of a class like `networkx.MultiGraph`."""
        graph = cls()
        graph.add_nodes_from(self._nodes.items() if data else self._nodes)
        for src, others in self._links.items():
            for dst, between in others.items():
                for key, info in between.items() if src <= dst else ():
                    graph.add_edge(src, dst, **({"key": key} if keys else {}), **(info if data else {}))
        return graph

    @staticmethod
    def sorted(items: Iterable[str]) -> list[str]:
        """Return names with the numbers in them in order: h2 before h10."""
        return sorted(items, key=_natural)


def _natural(text: str) -> list[int | str]:
    """Return the texts and numbers that follow each other in a name."""
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", text)]
