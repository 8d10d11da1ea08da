"""Hosts in pairs, with one cable and no switch between the two of a pair: back-to-back,N"""

from testbed.net.build.topo import LosslessTopo


class BackToBack(LosslessTopo):
    """`n` cables: h1 to h2, h3 to h4, and so on.

    h1 --- h2
    h3 --- h4
    """

    def build(self, n: int = 1) -> None:
        self.require(1, n=n)
        for number in range(1, 2 * n, 2):
            self.addLink(self.addHost(f"h{number}"), self.addHost(f"h{number + 1}"))


topos = {"back-to-back": BackToBack}
