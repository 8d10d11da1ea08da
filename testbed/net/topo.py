"""The base of lossless topologies. Only the lab can import this.

class Pair(LosslessTopo):
    "Two hosts and a switch."

    def build(self) -> None:
        self.addSwitch("s1")
        self.addLink(self.addHost("h1"), "s1", cable=Cable("25Gb/s", "100m"))
        self.addLink(self.addHost("h2"), "s1")
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from mininet.topo import Topo

from testbed.errors import UsageError
from testbed.net.cable import Cable
from testbed.net.fabric import Mismatch
from testbed.net.link import LosslessLink
from testbed.net.nodes import LosslessLeaf, LosslessRouter, LosslessSwitch
from testbed.net.port import Buffer, Port
from testbed.units import Scale


class TopoError(UsageError):
    """A topology that cannot be."""


class LosslessTopo(Topo):
    """Mininet's Topo with lossless switches, routers and cables.

    Options of every topology, beside its own: `scale`, `cable` (or `rate`, and `length` or `delay`) for links that name
    no cable, `port` and `buffer` for nodes that name none, and `mismatch`: what to do if ports of a path map priorities
    differently ("refuse", "warn" or "ignore").
    """

    OPTIONS = ("scale", "cable", "rate", "length", "delay", "port", "buffer", "mismatch")
    """What every topology takes beside the arguments of its `build`."""

    scale = Scale(1000)
    cable = Cable("10Gb/s")
    port = Port()
    buffer = Buffer()
    mismatch = Mismatch.REFUSE

    def __init__(self, *args: Any, **options: Any) -> None:
        self.scale = Scale(options.pop("scale", self.scale))
        self.port = options.pop("port", self.port)
        self.buffer = options.pop("buffer", self.buffer)
        self.mismatch = Mismatch(options.pop("mismatch", self.mismatch))
        if "cable" in options:
            self.cable = options.pop("cable")
        elif options.keys() & {"rate", "length", "delay"}:
            rate = options.pop("rate", self.cable.rate)
            length, delay = options.pop("length", None), options.pop("delay", None)
            self.cable = Cable(rate, length or (None if delay else self.cable.length), delay=delay)
        super().__init__(*args, **options)

    def addHost(self, name: str, **options: Any) -> str:
        added: str = super().addHost(name, **{"port": self.port} | options)
        return added

    def addSwitch(self, name: str, **options: Any) -> str:
        defaults = {"cls": LosslessSwitch, "buffer": self.buffer, "port": self.port, "next_hop": self.next_hop}
        added: str = super().addSwitch(name, **defaults | options)
        return added

    def addLeaf(self, name: str, controller: str | None = None, **options: Any) -> str:
        """A switch with Open vSwitch's forwarding; `controller` as LosslessLeaf has it."""
        return self.addSwitch(name, cls=LosslessLeaf, controller=controller, **options)

    def addRouter(self, name: str, **options: Any) -> str:
        defaults = {"cls": LosslessRouter, "buffer": self.buffer, "port": self.port}
        added: str = super().addHost(name, **defaults | options)
        return added

    def addLink(
        self, node1: str, node2: str, port1: int | None = None, port2: int | None = None, **options: Any
    ) -> Any:
        defaults = {"cls": LosslessLink, "cable": self.cable, "scale": self.scale, "mismatch": self.mismatch}
        return super().addLink(node1, node2, port1, port2, **defaults | options)

    def next_hop(self, switch: str, host: str) -> str | None:
        """The neighbour by which a switch sends frames to a host, where there are loops; None: the shortest way."""
        return None

    def require(self, least: int, **counts: int) -> None:
        """Refuse arguments of `build` that do not count something, or are below `least`."""
        for name, count in counts.items():
            if type(count) is not int or count < least:
                expected = f"a whole number, {least} or more, is expected"
                raise TopoError(f"{type(self).__name__}: {name} is {count!r}; {expected}")

    def choose(self, possible: Collection[Any], **arguments: Any) -> None:
        """Refuse arguments of `build` that are none of the possible ones."""
        for name, value in arguments.items():
            if value not in possible:
                expected = " or ".join(map(str, possible))
                raise TopoError(f"{type(self).__name__}: {name} is {value!r}; {expected} is expected")
