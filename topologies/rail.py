"""Servers of GPUs, each GPU on the leaf of its rail, spines between: rail,SERVERS,RAILS,SPINES,UNITS"""

from testbed.net.build.topo import LosslessTopo
from testbed.switch.ways.settings import Ways


class Rail(LosslessTopo):
    """A rail-optimised fabric: GPU r of each server of a unit is on leaf r of that unit, and each leaf on every spine.

    A host is one GPU with its network card, since a host of the lab has one address and sends by one port. Hosts h1,
    h2, ... are in order of servers: h1 to h4 are the four GPUs of the first one. Between GPUs of one rail and unit
    there is one switch. Those of one server, which have links of their own in hardware, reach each other over the
    spines here, so leave such transfers out, and place what is sent by a neighbour's rail (PXN) yourself.

           spine1           spine2            servers = 2, rails = 4
        /    |     \\ ...
    leaf1  leaf2  leaf3  leaf4               one for each rail
     h1     h2     h3     h4                 server 1
     h5     h6     h7     h8                 server 2
    """

    ways = Ways()

    def build(self, servers: int = 4, rails: int = 4, spines: int = 2, units: int = 1) -> None:
        self.require(1, servers=servers, rails=rails, spines=spines, units=units)
        self.rails = rails
        for number in range(1, spines + 1):
            self.addSwitch(f"spine{number}")
        for unit in range(units):
            leaves = [self.addSwitch(f"leaf{unit * rails + rail}") for rail in range(1, rails + 1)]
            for leaf in leaves:
                for number in range(1, spines + 1):
                    self.addLink(leaf, f"spine{number}")
            for server in range(unit * servers, (unit + 1) * servers):
                for rail, leaf in enumerate(leaves, 1):
                    self.addLink(self.addHost(f"h{server * rails + rail}"), leaf)

    def gpus(self, server: int) -> list[str]:
        """Return the hosts of a server, which are counted from 1, in the order of their rails."""
        self.require(1, server=server)
        return [f"h{(server - 1) * self.rails + rail}" for rail in range(1, self.rails + 1)]


topos = {"rail": Rail}
