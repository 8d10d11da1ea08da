"""Our topologies list nodes, links and ports in the order of Mininet's, which decides how a network is built."""

from __future__ import annotations

import random
from typing import Any

from xoff import Run, Topo, experiment

NAMES = [f"{kind}{number}" for kind in "hsr" for number in range(1, 13)]


def _build(self: Any, seed: int) -> None:
    drawn = random.Random(seed)
    names = drawn.sample(NAMES, drawn.randint(2, 12))
    for name in names:
        (self.addSwitch if name[0] == "s" else self.addHost)(name, mark=seed)
    for _ in range(drawn.randint(1, 30)):
        ports = {"port1": drawn.randint(1, 9)} if drawn.random() < 0.2 else {}
        self.addLink(*drawn.sample(names, 2), **ports)


def _listed(topo: Any) -> list[Any]:
    """Return everything that Mininet asks a topology for."""
    orders: tuple[dict[str, bool], ...] = ({}, {"sort": True}, {"sort": True, "withKeys": True, "withInfo": True})
    return [
        topo.hosts(),
        topo.switches(),
        list(topo.nodes(sort=False)),
        [topo.nodeInfo(name) for name in topo.nodes()],
        [topo.links(**order) for order in orders],
        [(topo.port(*link), topo.linkInfo(*link)) for link in topo.links()],
    ]


@experiment
def test_random_topologies_are_listed_as_mininet_does(run: Run) -> None:
    import mininet.topo

    class Ours(Topo):
        build = _build

    class Mininets(mininet.topo.Topo):
        build = _build

    different = [seed for seed in range(100) if _listed(Ours(seed)) != _listed(Mininets(seed))]
    run.claim("random topologies that are listed differently", different, equals=[])
