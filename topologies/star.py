"""Hosts around one switch: star,N"""

from typing import Any

from testbed.errors import UsageError
from testbed.net.build.graph import Topo
from testbed.units import Duration, Rate


class Star(Topo):
    """`n` hosts h1..hn, each on a link of its own to the switch s1.

    h1 ---+
    h2 ---s1
    hn ---+
    """

    def build(self, n: int = 4, rate: Rate | str = "100Mb/s", delay: Duration | str = "0s") -> None:
        if type(n) is not int or n < 1:
            raise UsageError(f"Star: n is {n!r}; a whole number, 1 or more, is expected")
        switch = self.addSwitch("s1")
        # The token bucket: Mininet's default, htb, warns of its own quantum at these rates.
        options: dict[str, Any] = {"bw": Rate(rate).bps / 1e6, "use_tbf": True}
        if Duration(delay).ps:
            options["delay"] = f"{Duration(delay).ns / 1000}us"
        for number in range(1, n + 1):
            self.addLink(self.addHost(f"h{number}"), switch, **options)


topos = {"star": Star}
