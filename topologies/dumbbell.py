"""Senders and receivers on two switches, with one cable between: dumbbell,N"""

from testbed.net.build.topo import LosslessTopo


class Dumbbell(LosslessTopo):
    """`n` senders h1..hn and `n` receivers r1..rn; all of them share the cable between s1 and s2.

    h1 ---+         +--- r1
    h2 ---s1-------s2--- r2
    hn ---+         +--- rn
    """

    def build(self, n: int = 2) -> None:
        self.require(1, n=n)
        for switch, hosts in (("s1", "h"), ("s2", "r")):
            self.addSwitch(switch)
            for number in range(1, n + 1):
                self.addLink(self.addHost(f"{hosts}{number}"), switch)
        self.addLink("s1", "s2")


topos = {"dumbbell": Dumbbell}
