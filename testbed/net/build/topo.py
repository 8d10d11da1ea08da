"""The base of lossless topologies.

class Pair(LosslessTopo):
    "Two hosts and a switch."

    def build(self) -> None:
        self.addSwitch("s1")
        self.addLink(self.addHost("h1"), "s1", cable=Cable("25Gb/s", "100m"))
        self.addLink(self.addHost("h2"), "s1")
"""

from __future__ import annotations

import inspect
from collections.abc import Collection, Iterable, Sequence
from ipaddress import IPv6Interface, IPv6Network
from typing import Any, Protocol, runtime_checkable

from testbed.errors import UsageError, nearest
from testbed.net.build import options as words
from testbed.net.build import router_ways
from testbed.net.build.graph import Key, Topo
from testbed.net.build.link import LosslessLink
from testbed.net.build.nodes import RDMA, LosslessLeaf, LosslessRouter, LosslessSwitch, RdmaHost
from testbed.net.build.routing import RoutingSoftware
from testbed.net.fabric.bring_up import Mismatch
from testbed.net.fabric.cable import Cable, Forwarding, Line
from testbed.net.fabric.port import Buffer, Port
from testbed.switch.ways.settings import By, Ways, WaysSource, ways_of
from testbed.units import Duration, Scale

_ANYTHING = "**"
_OF_MININET = ("hopts", "sopts", "lopts")


def _is_foreign(options: dict[str, Any]) -> bool:
    """Report whether a node or link is of a class that is not ours, with options of its own."""
    kind = options.get("cls")
    return kind is not None and not getattr(kind, "__module__", "").startswith("testbed.net.")


class TopoError(UsageError):
    """A topology contradicts itself."""


@runtime_checkable
class LeafController(Protocol):
    """A controller that leaves can follow, as `SrController`."""

    @property
    def openflow(self) -> str:
        """The address at which Open vSwitch reaches it, as in unix:/run/controller."""


def _software(where: str, routing: Any) -> RoutingSoftware | None:
    if routing is not None and not isinstance(routing, RoutingSoftware):
        raise TopoError(f"{where}: routing is {routing!r}; write routing=Frr(Bgp()) or routing=Bird(Bgp())")
    return routing


class LosslessTopo(Topo):
    """A topology with lossless switches, routers and cables.

    Every topology has these options beside the arguments of its `build`:

    - `scale`: how many times slower the lab is than the hardware.
    - `cable`, or `rate` or `bw`, `length` or `delay`, `loss`: the cable of links that name none.
    - `port` and `buffer`: the settings of nodes that name none. In place of `buffer` its single settings can be given:
      `total`, `xoff` (cells, or a part of the free ones as in "50%"), `xon_offset`, `headroom` and `guaranteed`.
    - `ways`: how switches choose among equally short ways: `Ways(...)`, or its rule alone, as in "hash" or "spray".
      Fabrics (`LeafSpine`, `FatTree`, `Clos`, `Rail`, `Dragonfly`) have "hash" as default, others "host number".
    - `mismatch`: "refuse", "warn" or "ignore" ports of a path that map priorities differently.
    - `dcbx`: switches that name no port announce theirs by DCBX, and hosts that name none are willing. LLDP's timers
      are on the lab's scale, so scale=1 is best for looking on.
    - `forwarding`: "cut-through" or "store-and-forward": when a node has a frame, of nodes that name none.
    - `line`: "real", the default, or "ideal", of nodes that name none: on a real line PFC frames wait and take their
      time, and cells come free with last bits.
    - `deadlock_poll`: the interval at which the lab looks for deadlocks, as in "10us".
    - `rdma`: hosts have RDMA devices, for programs that use verbs: Soft-RoCE by True or its rate control ("dcqcn",
      "dcqcn-mlx", "fixed"), or "siw", iWARP over the kernel's TCP.
    - `ipv6`: hosts have an IPv6 address too, for flows and programs that use one: True for fd00::/64, or a network
      such as "2001:db8::/64". Its numbers are those of Mininet's IPv4 addresses.
    - `controller`: switches forward by Open vSwitch, as this OpenFlow controller tells them (`addLeaf`): an
      `SrController`, or the address of one.
    - `routing`: the routing daemons of routers that name none, as in `Frr(Bgp())`, in place of static routes.
    - Mininet's `hopts`, `sopts` and `lopts`: further defaults of hosts, switches and links.

    Any other option is refused, and so is an unknown option of a node or a link.
    """

    OPTIONS = (
        "scale", "cable", *words.CABLE_WORDS, "port", "buffer", *words.BUFFER_WORDS, "ways", "mismatch", "dcbx",
        "deadlock_poll", "forwarding", "line", "rdma", "ipv6", "controller", "routing",
    )  # fmt: skip
    """The options of every topology beside the arguments of its `build`."""

    scale = Scale(1000)
    cable = Cable("10Gb/s")
    port = Port()
    buffer = Buffer()
    ways: Ways | str = Ways(By.HOST_NUMBER)
    ways_source = WaysSource.DEFAULT
    """The source of the topology's `ways`."""
    mismatch = Mismatch.REFUSE
    dcbx: bool | int = False
    deadlock_poll: Duration | None = None
    forwarding: str | None = None
    _line: str | None = None
    rdma: bool | int | str = False
    _ipv6: IPv6Network | IPv6Interface | None = None
    controller: str | None = None
    _routing: RoutingSoftware | None = None
    partition: Sequence[Collection[str]] | None = None
    """The switches and routers of each part of a network over several kernels; None: few cables between parts."""

    def __init__(self, *args: Any, **options: Any) -> None:
        self.scale = Scale(options.pop("scale", self.scale))
        self.port = options.pop("port", self.port)
        if "ways" in options:
            self.ways_source = WaysSource.TOPOLOGY
        self.ways = ways_of(options.pop("ways", self.ways))
        mismatch = options.pop("mismatch", self.mismatch)
        self.choose(list(Mismatch), mismatch=mismatch)
        self.mismatch = Mismatch(mismatch)
        self.dcbx = options.pop("dcbx", self.dcbx)
        self.rdma = options.pop("rdma", self.rdma)
        if "controller" not in self._arguments():
            self.controller = self._address(options.pop("controller", self.controller))
        self.choose((False, True), dcbx=self.dcbx)
        self.choose(RDMA, rdma=self.rdma)
        kind = type(self).__name__
        self._ipv6 = words.ipv6_of(kind, options.pop("ipv6", self._ipv6))
        if isinstance(self._ipv6, IPv6Interface):
            raise TopoError(f"{kind}: ipv6 is '{self._ipv6}', one address; write True or a network such as 'fd00::/64'")
        self._routing = _software(type(self).__name__, options.pop("routing", self._routing))
        poll = options.pop("deadlock_poll", self.deadlock_poll)
        self.deadlock_poll = None if poll is None else Duration(poll)
        if self.deadlock_poll is not None and not self.deadlock_poll.ns:
            raise TopoError(f"{type(self).__name__}: deadlock_poll is {poll}; write a time above zero such as '10us'")
        own = self._arguments()
        self.forwarding = Forwarding.of(kind, options.pop("forwarding", self.forwarding))
        line = options.pop("line", self._line)
        self._line = None if line is None else Line.of(kind, line)
        described = {word: options.pop(word) for word in ("cable", *words.CABLE_WORDS) if word in options.keys() - own}
        self.cable = words.cable_of(kind, described, self.cable)
        described = {
            word: options.pop(word) for word in ("buffer", *words.BUFFER_WORDS) if word in options.keys() - own
        }
        self.buffer = words.buffer_of(kind, described, self.buffer)
        if not isinstance(self.port, Port):
            raise TopoError(f"{kind}: port is {self.port!r}; write port=Port(...)")
        if _ANYTHING not in own:
            words.refuse_unknown(kind, options, (*own, *LosslessTopo.OPTIONS, *_OF_MININET))
        super().__init__(*args, **options)
        if self._routing is not None and not any(self.nodeInfo(name).get("routing") for name in self.nodes()):
            raise TopoError(f"{kind}: routing is given, and there is no router that would use it")

    @property
    def _forwards(self) -> dict[str, Any]:
        chosen = {"forwarding": self.forwarding, "line": self._line}
        return {name: value for name, value in chosen.items() if value is not None}

    def addHost(self, name: str, **options: Any) -> str:
        options = self._checked("addHost", name, self.hopts | options, words.HOST, "host")
        self.choose((False, True), tunnel_ecn=options.get("tunnel_ecn", False))
        if ipv6 := words.ipv6_of(f"addHost({name})", options.pop("ipv6", self._ipv6)):
            options["ipv6"] = ipv6
        port = self.port.without_pfc().with_dcbx(willing=True) if self.dcbx else self.port
        defaults: dict[str, Any] = {"port": port} | self._forwards
        rdma = options.pop("rdma", self.rdma)
        self.choose(RDMA, rdma=rdma)
        if rdma:
            defaults |= {"cls": RdmaHost, "rdma": rdma}
            kind = options.get("cls", RdmaHost)
            if not (isinstance(kind, type) and issubclass(kind, RdmaHost)):
                shown = getattr(kind, "__name__", kind)
                raise TopoError(f"addHost({name}): rdma=True needs the class RdmaHost; make {shown} a subclass of it")
        added: str = super().addHost(name, **defaults | options)
        return added

    def addSwitch(self, name: str, **options: Any) -> str:
        if self.controller is not None and "cls" not in options:
            options |= {"cls": LosslessLeaf, "controller": self.controller}
        if "controller" in options:
            options["controller"] = self._address(options["controller"])
        known = words.LEAF if options.get("cls") is LosslessLeaf else words.SWITCH
        options = self._checked("addSwitch", name, self.sopts | options, known, "switch")
        if "ways" in options:
            options["ways"] = ways_of(options["ways"])
        port = self.port.with_dcbx() if self.dcbx else self.port
        defaults = {"cls": LosslessSwitch, "buffer": self.buffer, "port": port, "next_hop": self.next_hop}
        defaults |= self._forwards
        if "ways" not in options:
            defaults |= {"ways": self.ways, "ways_source": self.ways_source}
        added: str = super().addSwitch(name, **defaults | options)
        return added

    def _address(self, controller: LeafController | str | None) -> str | None:
        """Return the address at which Open vSwitch reaches a controller."""
        address = controller.openflow if isinstance(controller, LeafController) else controller
        if address is not None and not str(address).startswith(("unix:/", "tcp:")):
            expected = "write 'unix:/run/controller' or 'tcp:192.0.2.1:6653', give a controller, or leave it out"
            raise TopoError(f"{type(self).__name__}: controller is {controller!r}; {expected}")
        return address

    def addLeaf(self, name: str, controller: LeafController | str | None = None, **options: Any) -> str:
        """Add a switch with Open vSwitch's forwarding, whose `controller` is as LosslessLeaf has it."""
        return self.addSwitch(name, cls=LosslessLeaf, controller=controller, **options)

    def addRouter(self, name: str, **options: Any) -> str:
        """Add an IPv4 and IPv6 router.

        `routes` are from networks to a neighbour's address, or to those of several: {"10.2.0.0/16": ["10.0.1.2",
        "10.0.2.2"]}. Linux hashes each flow to one of them, by the fields, seed and weights of `ways`. With `routing`,
        as in `Frr(Bgp())`, daemons find the routes. With `tunnel_ecn` marks go through tunnels of IPv6 that begin and
        end here, as RFC 6040 has it, where Linux forgets them; hosts can have it too.
        """
        options = self._checked("addRouter", name, options, words.ROUTER, "router")
        self.choose((False, True), tunnel_ecn=options.get("tunnel_ecn", False))
        defaults = {"cls": LosslessRouter, "buffer": self.buffer, "port": self.port, **self._forwards}
        options["routing"] = _software(f"addRouter({name})", options.get("routing", self._routing))
        if "ways" in options:
            options["ways"] = ways_of(options["ways"])
            if reason := router_ways.why_not(options["ways"]):
                raise TopoError(f"addRouter({name}): ways: {reason}")
        else:
            defaults |= {"ways": self.ways, "ways_source": self.ways_source}
        added: str = super().addHost(name, **defaults | options)
        return added

    def addRoutes(self) -> None:
        """Give each router that was added routes to the networks of the others, by all ways that cost least.

        A network is that of a router's port to a host or switch, whose address is in the link's `params1` or `params2`.
        Routes that a router was given stay, and a router with routing daemons gets none. Call it at the end of `build`.
        """
        for router, routes in router_ways.routes_of(self).items():
            info = self.nodeInfo(router)
            if info.get("routing") is not None:
                continue
            info["routes"] = routes | dict(info.get("routes") or {})

    def addLink(
        self,
        node1: str,
        node2: str,
        port1: int | None = None,
        port2: int | None = None,
        key: Key | None = None,
        **options: Any,
    ) -> Any:
        where = f"addLink({node1}, {node2})"
        for node in (node1, node2):
            if node not in self.nodes():
                raise TopoError(f"{where}: there is no node {node}; {nearest(node, self.nodes())}, or add it first")
        options = self.lopts | options
        if not _is_foreign(options):
            words.refuse_unknown(where, options, (*words.LINK, *words.LINK_OF_MININET))
            options["cable"] = words.cable_of(where, options, self.cable)
            words.cost_of(where, options.get("cost", 1))
            for word in words.CABLE_WORDS:
                options.pop(word, None)
        defaults = {"cls": LosslessLink, "cable": self.cable, "scale": self.scale, "mismatch": self.mismatch}
        return super().addLink(node1, node2, port1, port2, key, **defaults | options)

    def _checked(
        self, method: str, name: str, options: dict[str, Any], known: Iterable[str], kind: str
    ) -> dict[str, Any]:
        """Return the options of a node, all of which are known."""
        where = f"{method}({name})"
        if name in self.nodes():
            raise TopoError(f"{where}: there is a node {name} already; give this one another name")
        if not _is_foreign(options):
            words.refuse_unknown(where, options, known, kind)
        return options

    @classmethod
    def _arguments(cls) -> set[str]:
        """Return the names of `build`'s own arguments; `**` for one that takes any."""
        parameters = list(inspect.signature(cls.build).parameters.values())[1:]
        return {_ANYTHING if one.kind is one.VAR_KEYWORD else one.name for one in parameters}

    def next_hop(self, switch: str, host: str) -> str | None:
        """Return the neighbour by which a switch sends frames to a host, or None for the shortest way.

        A topology with loops overrides it.
        """
        return None

    def require(self, least: int, **counts: int) -> None:
        """Refuse arguments of `build` that do not count something, or are below `least`."""
        for name, count in counts.items():
            if type(count) is not int or count < least:
                expected = f"a whole number, {least} or more, is expected"
                raise TopoError(f"{type(self).__name__}: {name} is {count!r}; {expected}")

    def require_most(self, most: int, **counts: int) -> None:
        """Refuse arguments of `build` that are above `most`."""
        for name, count in counts.items():
            if count > most:
                raise TopoError(f"{type(self).__name__}: {name} is {count}; {most} is the most")

    def choose(self, possible: Collection[Any], **arguments: Any) -> None:
        """Refuse arguments of `build` that are none of the possible ones."""
        for name, value in arguments.items():
            if value not in possible:
                expected = " or ".join(map(str, possible))
                raise TopoError(f"{type(self).__name__}: {name} is {value!r}; {expected} is expected")
