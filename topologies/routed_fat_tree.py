"""A fat tree of routers with equal routes, by Linux or by BGP: routed-fat-tree,K"""

from testbed.subjects.routing.protocols import Bgp
from testbed.subjects.routing.router import AS_OF_SPINES
from testbed.switch.ways.settings import Ways
from topologies._routed import RoutedTopo

_MOST = 10
_AS_OF_PODS = 65_100


class RoutedFatTree(RoutedTopo):
    """The fat tree of routers with `k` ports (an even number): k pods of k/2 edges and k/2 aggregation routers.

    There are k/2 times k/2 cores, and `hosts` at each edge, k/2 of them by default. Host n of edge m is
    h((m - 1) * hosts + n), at 10.m.n.2/30. Edges and aggregation routers are numbered through: those of pod 1 first.
    Aggregation router i of each pod leads to the cores (i - 1) * k/2 + 1 and following. With `ipv6=True` all of it is
    over IPv6 too, with fd00:0:m:n::2 beside 10.m.n.2, and the numbers as IPv6 writes them.

    Routes are equal ones over all neighbours above. With `routing`, as in `Frr(Bgp())`, daemons find them; for BGP
    cables between routers have no addresses, the cores share an AS, and the aggregation routers of a pod do.
    """

    ways = Ways()

    def build(self, k: int = 4, hosts: int = 0) -> None:
        self.require(2, k=k)
        self.choose(range(2, _MOST + 1, 2), k=k)
        self.require_ipv4_alone(self._routing)
        half = k // 2
        hosts = hosts or half
        self.require(1, hosts=hosts)
        self.require_most(254, hosts=hosts)
        for core in range(1, half * half + 1):
            self._add(f"core{core}", AS_OF_SPINES)
        for pod in range(k):
            for place in range(half):
                agg = f"agg{pod * half + place + 1}"
                self._add(agg, _AS_OF_PODS + pod)
                for core in range(1, half + 1):
                    self._join(agg, f"core{place * half + core}", 200 + pod * half + place, core)
            for place in range(half):
                self._add_edge(pod, place, half, hosts)
        self.addRoutes()

    def _add_edge(self, pod: int, place: int, half: int, hosts: int) -> None:
        number = pod * half + place + 1
        edge = self.addRouter(f"edge{number}", ip=None)
        for host in range(1, hosts + 1):
            self.add_host(f"h{(number - 1) * hosts + host}", edge, number, host)
        for agg in range(1, half + 1):
            self._join(edge, f"agg{pod * half + agg}", 100 + number, agg)

    def _add(self, name: str, asn: int) -> None:
        self.addRouter(name, ip=None, routing=self._routing and self._routing.with_asn(asn))

    def _join(self, lower: str, upper: str, network: int, place: int) -> None:
        """Join two routers, by 10.NETWORK.PLACE.0/30 unless BGP needs no addresses."""
        is_unnumbered = self._routing is not None and Bgp in self._routing.protocols
        self.addLink(lower, upper, **({} if is_unnumbered else self.ends(network, place)))


topos = {"routed-fat-tree": RoutedFatTree}
