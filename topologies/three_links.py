"""One switch with ports of 10G over 5 m, 25G over 500 m and 100G over 50 km: three-links"""

from testbed.net.build.topo import LosslessTopo
from testbed.net.fabric.cable import Cable
from testbed.net.fabric.port import Buffer


class ThreeLinks(LosslessTopo):
    """The example of the headroom proposal: no one default headroom suits all three ports.

    h1 --- 10G, 5 m -----+
    h2 --- 25G, 500 m ---s1
    h3 --- 100G, 50 km --+
    """

    buffer = Buffer(total=150_000)  # the long cable alone needs 6.25 MB of headroom

    def build(self) -> None:
        self.addSwitch("s1")
        self.addLink(self.addHost("h1"), "s1", cable=Cable("10Gb/s", "5m"))
        self.addLink(self.addHost("h2"), "s1", cable=Cable("25Gb/s", "500m"))
        self.addLink(self.addHost("h3"), "s1", cable=Cable("100Gb/s", "50km"))


topos = {"three-links": ThreeLinks}
