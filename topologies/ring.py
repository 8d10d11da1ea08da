"""Switches in a ring, with a host at each: ring,N or ring,N,clockwise=1"""

from testbed.net.build.topo import LosslessTopo


class Ring(LosslessTopo):
    """Hosts h1..hn at the switches s1..sn, and cables s1-s2, s2-s3, ... sn-s1.

    h1 --- s1---s2 --- h2
           |     |
    h4 --- s4---s3 --- h3

    `clockwise` sends everything s1, s2, ... sn, s1: buffers then wait for each other in a circle. Otherwise frames go
    up and down a tree with s1 on top: nothing passes through the lowest switch, s3 of four, so no circle can close.
    """

    def build(self, n: int = 4, clockwise: bool = False) -> None:
        self.require(3, n=n)
        self.choose((0, 1), clockwise=clockwise)
        self.n, self.clockwise = n, clockwise
        for number in range(1, n + 1):
            self.addSwitch(f"s{number}")
            self.addLink(self.addHost(f"h{number}"), f"s{number}")
        for number in range(1, n + 1):
            self.addLink(f"s{number}", f"s{number % n + 1}")

    def next_hop(self, switch: str, host: str) -> str:
        here, there = int(switch[1:]), int(host[1:])
        if here == there:
            return host
        clockwise = self.clockwise or self._is_clockwise(here, there)
        return f"s{here % self.n + 1}" if clockwise else f"s{(here - 2) % self.n + 1}"

    def _is_clockwise(self, here: int, there: int) -> bool:
        """The way that does not pass through the lowest switch; from it and to it, the shorter one."""
        lowest = self.n // 2 + 1
        steps = (there - here) % self.n
        if lowest in (here, there):
            return 2 * steps <= self.n
        return (lowest - here) % self.n > steps


topos = {"ring": Ring}
