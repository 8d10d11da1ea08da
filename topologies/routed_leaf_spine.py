"""Leaves and spines that are routers, with equal routes by Linux: routed-leaf-spine,LEAVES,SPINES,HOSTS"""

from testbed.net.build.topo import LosslessTopo
from testbed.switch.ways.settings import Ways

_MOST = 254


class RoutedLeafSpine(LosslessTopo):
    """Leaves and spines that route IPv4. Host n of leaf m is h((m - 1) * hosts + n), at 10.m.n.2/30.

    A leaf has one route to each network of another leaf, with all spines as neighbours; Linux hashes each flow to one
    of them. Between leaf m and spine k is 10.(100 + m).k.0/30.

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
        for number in range(1, spines + 1):
            self.addRouter(f"spine{number}", ip=None)
        for number in range(1, leaves + 1):
            leaf = self.addRouter(f"leaf{number}", ip=None)
            for place in range(1, hosts + 1):
                gateway, own = (f"10.{number}.{place}.{end}/30" for end in (1, 2))
                host = self.addHost(
                    f"h{(number - 1) * hosts + place}", ip=own, defaultRoute=f"via {gateway.partition('/')[0]}"
                )
                self.addLink(host, leaf, params2={"ip": gateway})
            for spine in range(1, spines + 1):
                down, up = ({"ip": f"10.{100 + number}.{spine}.{end}/30"} for end in (1, 2))
                self.addLink(leaf, f"spine{spine}", params1=down, params2=up)
        self.addRoutes()


topos = {"routed-leaf-spine": RoutedLeafSpine}
