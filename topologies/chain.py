"""Switches in a row, with hosts at each: chain,N"""

from testbed.net.build.topo import LosslessTopo


class Chain(LosslessTopo):
    """Hosts h1..hn, one at each of the switches s1..sn; from end to end it is `n` hops.

    h1    h2    hn
    |     |     |
    s1----s2----sn
    """

    def build(self, n: int = 3) -> None:
        self.require(2, n=n)
        for number in range(1, n + 1):
            self.addSwitch(f"s{number}")
            self.addLink(self.addHost(f"h{number}"), f"s{number}")
            if number > 1:
                self.addLink(f"s{number - 1}", f"s{number}")


topos = {"chain": Chain}
