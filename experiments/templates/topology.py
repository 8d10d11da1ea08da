"""Hosts at one switch, and one host behind a cable: new-thing,N"""

from xoff import Cable, LosslessTopo


class NewThing(LosslessTopo):
    """`n` hosts h1..hn send over a cable of `length` to the host r.

    h1 ---+
    h2 ---s1 ====== s2--- r
    hn ---+
    """

    def build(self, n: int = 2, length: str = "500m") -> None:
        self.require(1, n=n)
        self.addSwitch("s1")
        self.addSwitch("s2")
        self.addLink("s1", "s2", cable=Cable("10Gb/s", length))
        for number in range(1, n + 1):
            self.addLink(self.addHost(f"h{number}"), "s1")
        self.addLink(self.addHost("r"), "s2")


topos = {"new-thing": NewThing}
