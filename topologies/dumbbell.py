"""Senders and receivers on two switches, with one cable between: dumbbell,N"""

from testbed.net.build.topo import LosslessTopo
from testbed.units import Duration


class Dumbbell(LosslessTopo):
    """`n` senders h1..hn and `n` receivers r1..rn; all of them share the cable between s1 and s2.

    h1 ---+         +--- r1
    h2 ---s1-------s2--- r2
    hn ---+         +--- rn

    `between` is the delay of that cable, if it has another one than the rest.
    """

    def build(self, n: int = 2, between: Duration | str | None = None) -> None:
        self.require(1, n=n)
        for switch, hosts in (("s1", "h"), ("s2", "r")):
            self.addSwitch(switch)
            for number in range(1, n + 1):
                self.addLink(self.addHost(f"{hosts}{number}"), switch)
        shared = self.cable if between is None else self.cable.with_delay(Duration(between))
        self.addLink("s1", "s2", cable=shared)


topos = {"dumbbell": Dumbbell}
