"""Two data centres and routers of a wide area network between: dc1-wan-dc2,HOSTS"""

from itertools import pairwise

from testbed.net.build.topo import LosslessTopo
from testbed.net.fabric.bring_up import Mismatch
from testbed.net.fabric.cable import Cable
from testbed.net.fabric.port import Port

FIGURES = {3: [["r1", "r2", "r3"]], 2: [["r1", "r2", "r5"], ["r2", "r3", "r4", "r5"]]}
"""Rows of routers in the figures of the End.X.PFC draft; a second row is a way round."""


class Dc1WanDc2(LosslessTopo):
    """`n` hosts a1..an in data centre 1 and b1..bn in data centre 2; between them `figure` 3 of the draft, or 2.

    a1 ---+                                         +--- b1    figure 2 ends in r5, and has
    a2 ---s1--- r1 ---50 km--- r2 ---50 km--- r3 ---s2--- b2    a way round, r2-r3-r4-r5, that
    an ---+    edge           core           edge   +--- bn    no route uses yet

    There is PFC in the data centres and none between the routers, as in the wide area networks that the draft is for.
    """

    mismatch = Mismatch.IGNORE  # an edge router differs from one side to the other on purpose

    def build(self, n: int = 2, figure: int = 3, wan: str = "50km") -> None:
        self.require(1, n=n)
        self.choose(FIGURES, figure=figure)
        rows = FIGURES[figure]
        edges = {1: rows[0][0], 2: rows[0][-1]}
        cables = [pair for row in rows for pair in pairwise(row)]
        routes: dict[str, dict[str, str]] = {router: {} for row in rows for router in row}
        for number, (left, right) in enumerate(cables, 1):
            routes[left].setdefault("10.2.0.0/16", f"10.0.{number}.2")
            routes[right].setdefault("10.1.0.0/16", f"10.0.{number}.1")
        for router, ways in routes.items():
            self.addRouter(router, ip=None, routes=ways)
        for centre, hosts in ((1, "a"), (2, "b")):
            self.addSwitch(f"s{centre}")
            gateway = f"10.{centre}.255.254"
            self.addLink(f"s{centre}", edges[centre], params2={"ip": f"{gateway}/16"})
            for number in range(1, n + 1):
                address = f"10.{centre}.{number >> 8}.{number & 255}/16"
                host = self.addHost(f"{hosts}{number}", ip=address, defaultRoute=f"via {gateway}")
                self.addLink(host, f"s{centre}")
        plain, cable = Port().without_pfc(), Cable(self.cable.rate, wan)
        for number, (left, right) in enumerate(cables, 1):
            one, other = ({"ip": f"10.0.{number}.{end}/30"} for end in (1, 2))
            self.addLink(left, right, cable=cable, params1=one, params2=other, settings1=plain, settings2=plain)


topos = {"dc1-wan-dc2": Dc1WanDc2}
