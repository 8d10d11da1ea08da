"""Leaves and spines that are routers, with equal routes by Linux: routed-leaf-spine,LEAVES,SPINES,HOSTS"""

from typing import Any

from testbed.net.build.topo import LosslessTopo
from testbed.subjects.routing.protocols import Bgp
from testbed.subjects.routing.router import AS_OF_SPINES
from testbed.switch.ways.settings import Ways

_MOST = 254


class RoutedLeafSpine(LosslessTopo):
    """Leaves and spines that route IPv4. Host n of leaf m is h((m - 1) * hosts + n), at 10.m.n.2/30.

    A leaf has one route to each network of another leaf, with all spines as neighbours; Linux hashes each flow to one
    of them. Between leaf m and spine k is 10.(100 + m).k.0/30. With `routing`, as in `Frr(Bgp())`, daemons find the
    routes; for BGP the cables between routers have no addresses, and the spines share an AS.

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
        is_unnumbered = self._routing is not None and Bgp in self._routing.protocols
        for number in range(1, spines + 1):
            shared = self._routing and self._routing.with_asn(AS_OF_SPINES)
            self.addRouter(f"spine{number}", ip=None, routing=shared)
        for number in range(1, leaves + 1):
            leaf = self.addRouter(f"leaf{number}", ip=None)
            for place in range(1, hosts + 1):
                gateway, own = (f"10.{number}.{place}.{end}/30" for end in (1, 2))
                host = self.addHost(
                    f"h{(number - 1) * hosts + place}", ip=own, defaultRoute=f"via {gateway.partition('/')[0]}"
                )
                self.addLink(host, leaf, params2={"ip": gateway})
            for spine in range(1, spines + 1):
                ends: dict[str, Any] = {f"params{end}": {"ip": f"10.{100 + number}.{spine}.{end}/30"} for end in (1, 2)}
                self.addLink(leaf, f"spine{spine}", **({} if is_unnumbered else ends))
        self.addRoutes()


topos = {"routed-leaf-spine": RoutedLeafSpine}
