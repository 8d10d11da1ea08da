"""Leaves and spines that are routers, with equal routes by Linux: routed-leaf-spine,LEAVES,SPINES,HOSTS"""

from typing import Any

from testbed.subjects.routing.protocols import Bgp
from testbed.subjects.routing.router import AS_OF_SPINES
from testbed.switch.ways.settings import Ways
from topologies._routed import RoutedTopo

_MOST = 254


class RoutedLeafSpine(RoutedTopo):
    """Leaves and spines that route IPv4. Host n of leaf m is h((m - 1) * hosts + n), at 10.m.n.2/30.

    A leaf has one route to each network of another leaf, with all spines as neighbours; Linux hashes each flow to one
    of them. Between leaf m and spine k is 10.(100 + m).k.0/30. With `ipv6=True` all of it is over IPv6 too, with
    fd00:0:m:n::2 beside 10.m.n.2, and the numbers as IPv6 writes them. With `routing`, as in `Frr(Bgp())`, daemons
    find the routes; for BGP the cables between routers have no addresses, and the spines share an AS.

    spine1    spine2
     |    \\  /    |
     |    /  \\    |
    leaf1      leaf2
    |   |      |   |
    h1  h2     h3  h4
    """

    ways = Ways()

    def build(self, leaves: int = 2, spines: int = 2, hosts: int = 2) -> None:
        self.require(1, leaves=leaves, spines=spines, hosts=hosts)
        self.require_most(99, leaves=leaves)
        self.require_most(_MOST, spines=spines, hosts=hosts)
        self.require_ipv4_alone(self._routing)
        is_unnumbered = self._routing is not None and Bgp in self._routing.protocols
        for number in range(1, spines + 1):
            shared = self._routing and self._routing.with_asn(AS_OF_SPINES)
            self.addRouter(f"spine{number}", ip=None, routing=shared)
        for number in range(1, leaves + 1):
            leaf = self.addRouter(f"leaf{number}", ip=None)
            for place in range(1, hosts + 1):
                self.add_host(f"h{(number - 1) * hosts + place}", leaf, number, place)
            for spine in range(1, spines + 1):
                ends: dict[str, Any] = {} if is_unnumbered else self.ends(100 + number, spine)
                self.addLink(leaf, f"spine{spine}", **ends)
        self.addRoutes()


topos = {"routed-leaf-spine": RoutedLeafSpine}
