"""Senders that join a road one after the other, all to one receiver: parking-lot,N"""

from testbed.net.build.topo import LosslessTopo


class ParkingLot(LosslessTopo):
    """Hosts h1..hn join at the switches s1..sn and share the last cable, to r; h1 has the longest way.

    h1    h2    hn
    |     |     |
    s1----s2----sn--- r
    """

    def build(self, n: int = 3) -> None:
        self.require(2, n=n)
        for number in range(1, n + 1):
            self.addSwitch(f"s{number}")
            self.addLink(self.addHost(f"h{number}"), f"s{number}")
            if number > 1:
                self.addLink(f"s{number - 1}", f"s{number}")
        self.addLink(self.addHost("r"), f"s{n}")


topos = {"parking-lot": ParkingLot}
