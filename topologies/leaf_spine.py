"""Leaf switches with hosts, each on every spine: leaf-spine,LEAVES,SPINES,HOSTS"""

from testbed.net.build.topo import LosslessTopo
from testbed.switch.ways.settings import Ways


class LeafSpine(LosslessTopo):
    """Hosts h1, h2, ... in order at the leaves, `hosts` at each. Leaves choose the spine by a hash of each flow.

    With `ways="host number"` the number of the host decides to which the frames go.

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
        for number in range(1, spines + 1):
            self.addSwitch(f"spine{number}")
        for number in range(1, leaves + 1):
            leaf = self.addSwitch(f"leaf{number}")
            for host in range((number - 1) * hosts + 1, number * hosts + 1):
                self.addLink(self.addHost(f"h{host}"), leaf)
            for spine in range(1, spines + 1):
                self.addLink(leaf, f"spine{spine}")


topos = {"leaf-spine": LeafSpine}
