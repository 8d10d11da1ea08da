"""Many senders, one receiver, one switch: incast,N"""

from testbed.net.build.topo import LosslessTopo


class Incast(LosslessTopo):
    """`n` hosts h1..hn send to the host r, all on the switch s1.

    h1 ---+
    h2 ---s1--- r
    hn ---+
    """

    def build(self, n: int = 2) -> None:
        self.require(1, n=n)
        self.addSwitch("s1")
        for number in range(1, n + 1):
            self.addLink(self.addHost(f"h{number}"), "s1")
        self.addLink(self.addHost("r"), "s1")


topos = {"incast": Incast}
