"""Options of hosts, switches and links: ours, and Mininet's own words for a cable.

For words of Mininet's that have no meaning here there are hints.

Mininet passes options on without a look, so a mistyped one would have no effect and no message.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from difflib import get_close_matches
from fractions import Fraction
from ipaddress import IPv6Interface, IPv6Network
from typing import Any

from testbed import subject
from testbed.errors import UsageError, nearest
from testbed.net.fabric.cable import Cable, CableError
from testbed.net.fabric.port import Buffer
from testbed.switch.buffer.settings import Dynamic, Static, Threshold
from testbed.units import Rate


class OptionError(UsageError):
    """An option does not exist, or contradicts another one."""


CABLE_WORDS = ("bw", "rate", "delay", "length", "loss", "mtu", "errors", "llr")
"""Words that describe a cable beside `cable` itself. `bw`, in Mb/s, and a `loss` in percent are Mininet's words."""
BUFFER_WORDS = ("total", "xoff", "xon_offset", "headroom", "guaranteed")
"""Words that describe the buffers of a topology's switches beside `buffer` itself."""
LINK = ("cable", *CABLE_WORDS, "cost", "scale", "mismatch", "settings1", "settings2", "params1", "params2")
LINK_OF_MININET = ("addr1", "addr2", "intfName1", "intfName2", "port1", "port2", "cls", "key")
NODE_OF_MININET = ("ip", "mac", "defaultRoute", "inNamespace", "privateDirs", "cls")
HOST = ("port", "forwarding", "line", "rdma", "ipv6", "defaultRoute6", "tunnel_ecn", *NODE_OF_MININET)
SWITCH = ("port", "buffer", "next_hop", "ways", "forwarding", "line", "dpid", *NODE_OF_MININET)
LEAF = ("controller", *SWITCH)
ROUTER = (
    "port", "buffer", "forwarding", "line", "routes", "routing", "ways", "commands", "tunnel_ecn", *NODE_OF_MININET
)  # fmt: skip

_QUEUES = "queues are those of the ports; see Port(...) and Buffer(...) in docs/network.md"
UNIQUE_LOCAL = "fd00::/64"
"""The network of hosts that have IPv6 addresses and name no network."""
_INSTEAD = {
    "jitter": "a cable has one delay for all frames",
    "max_queue_size": "a switch has one buffer over all ports: addSwitch(name, buffer=Buffer(total=5000))",
    "enable_ecn": "write Port(ecn={3: EcnCurve(...)}) and settings1=, settings2= or port=",
    "enable_red": "write Port(ecn={3: EcnCurve(...)}) and settings1=, settings2= or port=",
    "use_htb": _QUEUES,
    "use_hfsc": _QUEUES,
    "use_tbf": _QUEUES,
    "speedup": _QUEUES,
    "latency_ms": "write delay='5ms'",
    "protocols": "OpenFlow 1.3 is what addLeaf(name, controller=...) has; addSwitch learns by itself",
    "failMode": "addLeaf(name) without a controller learns by itself, as addSwitch does",
    "stp": "broadcasts keep to a tree by themselves; see docs/flows.md",
    "datapath": "addLeaf(name) has Open vSwitch's forwarding",
    "cpu": "the lab has one CPU for all hosts",
    "cores": "the lab has one CPU for all hosts",
}
"""Words of Mininet that have no meaning here, and what to write in their place."""


def refuse_unknown(where: str, options: Iterable[str], known: Iterable[str], kind: str = "") -> None:
    """Refuse the first option that is not known, with the nearest one that is.

    Those of a host, switch or router, which is its `kind`, are known to the core or to a subject.
    """
    choices = tuple(known)
    for name in options:
        if name in choices:
            continue
        if kind:
            choices = (*choices, *(word for of_one in subject.loaded("node_options") for word in of_one.get(kind, ())))
            kind = ""
            if name in choices:
                continue
        if name in _INSTEAD and not get_close_matches(name, choices, 1, 0.9):
            raise OptionError(f"{where}: {name} is not an option of lossless networks: {_INSTEAD[name]}")
        raise OptionError(f"{where}: there is no option {name}; {nearest(name, choices)}")


def cost_of(where: str, cost: Any) -> int:
    """Return the cost of a cable, by which a way over it is longer than others."""
    if type(cost) is not int or cost < 1:
        raise OptionError(f"{where}: cost is {cost!r}; write a whole number, 1 or more: ways that cost least are taken")
    return cost


def cable_of(where: str, options: Mapping[str, Any], default: Cable) -> Cable:
    """Return the cable that options describe: `cable`, or single properties of one that is as `default` otherwise."""
    words = [word for word in CABLE_WORDS if options.get(word) is not None]
    cable = options.get("cable")
    if cable is not None:
        if not isinstance(cable, Cable):
            raise CableError(f"{where}: the cable is {cable!r}; write Cable('10Gb/s', '5m')")
        if words:
            raise OptionError(f"{where}: {words[0]} and cable are both given; put {words[0]} into the cable")
        return cable
    if not words:
        return default
    for one, other in (("bw", "rate"), ("delay", "length")):
        if one in words and other in words:
            raise OptionError(f"{where}: {one} and {other} are both given; give one of them")
    try:
        rate = _bandwidth(options["bw"]) if "bw" in words else options.get("rate") or default.rate
        length, delay = options.get("length"), options.get("delay")
        if length is None and delay is None:
            length, delay = default.length, None if default.length else default.delay
        loss = _percent(options["loss"]) if "loss" in words else default.loss
        mtu = default.mtu if options.get("mtu") is None else options["mtu"]
        errors, llr = (
            getattr(default, word) if options.get(word) is None else options[word] for word in ("errors", "llr")
        )
        return Cable(rate, length, delay=delay, loss=loss, mtu=mtu, errors=errors, llr=llr)
    except UsageError as error:
        raise CableError(f"{where}: {error}") from None


def buffer_of(where: str, options: Mapping[str, Any], default: Buffer) -> Buffer:
    """Return the buffer that options describe: `buffer`, or single settings of one that is as `default` otherwise.

    `xoff` is a number of cells, a part of the free cells in percent as in "50%", a threshold, or None for an even part.
    Of a threshold in cells `xon_offset` is half at most, if it is not given.
    """
    words = {word: options[word] for word in BUFFER_WORDS if word in options}
    buffer = options.get("buffer")
    if buffer is not None:
        if not isinstance(buffer, Buffer):
            raise OptionError(f"{where}: buffer is {buffer!r}; write buffer=Buffer(...)")
        if words:
            raise OptionError(f"{where}: {next(iter(words))} and buffer are both given; put it into the buffer")
        return buffer
    try:
        if "xoff" in words:
            words["xoff"] = xoff = _threshold(words["xoff"])
            if isinstance(xoff, Static):
                words.setdefault("xon_offset", min(default.xon_offset, xoff.cells // 2))
        return replace(default, **words)
    except UsageError as error:
        raise OptionError(f"{where}: {error}") from None


def ipv6_of(where: str, given: Any) -> IPv6Network | IPv6Interface | None:
    """Return what the option `ipv6` stands for: a network, in which each host has the address with its number, or the
    address of one host or port with its prefix. True is the network fd00::/64; None and False are none.
    """
    if given is None or given is False:
        return None
    text = UNIQUE_LOCAL if given is True else str(given)
    try:
        found = IPv6Interface(text)
    except ValueError:
        found = None
    if found is None or "/" not in text or "%" in text:
        raise OptionError(
            f"{where}: ipv6 is {given!r}; write True, a network such as 'fd00::/64', or a host's own address with its "
            "prefix, such as 'fd00::1/64'"
        )
    return found.network if found.ip == found.network.network_address else found


def ipv6_addresses(topo: Any, otherwise: IPv6Network | None = None) -> dict[str, IPv6Interface]:
    """Return the IPv6 address of each host that gets one: its own, or the one with its number in a network, which
    Mininet's 10.0.0.1 has too. Hosts that say nothing are in the network `otherwise`.
    """
    found: dict[str, IPv6Interface] = {}
    for number, name in enumerate(topo.hosts(), 1):
        info = topo.nodeInfo(name)
        given = info.get("ipv6", None if getattr(info.get("cls"), "forwards", False) else otherwise)
        if isinstance(given, IPv6Network):
            if number >= given.num_addresses:
                raise OptionError(f"ipv6={str(given)!r} has too few addresses for host {number}, {name}; take a /64")
            given = IPv6Interface((given[number], given.prefixlen))
        if given is not None:
            found[name] = given
    return found


def _threshold(xoff: Any) -> Threshold | None:
    if xoff is None or isinstance(xoff, Static | Dynamic):
        return xoff
    if isinstance(xoff, str) and xoff.endswith("%"):
        return Dynamic.percent(xoff.removesuffix("%"))
    if type(xoff) is int:
        return Static(xoff)
    raise OptionError(
        f"xoff is {xoff!r}; write a number of cells, a part of the free cells as in '50%', or a threshold"
    )


def _bandwidth(bw: Any) -> Rate:
    """Return the rate of Mininet's `bw`, a number of Mb/s."""
    if isinstance(bw, bool) or not isinstance(bw, (int, float)) or not 0 < bw <= 10**9:
        raise CableError(
            f"bw is {bw!r}; it is a number of Mb/s above zero, as in bw=10000; a text goes into rate='10Gb/s'"
        )
    return Rate.from_bps(round(Fraction(str(bw)) * 10**6))


def _percent(loss: Any) -> Fraction:
    """Return the loss of Mininet's `loss`, a number of percent; a text or fraction is a part of the frames."""
    if isinstance(loss, (str, Fraction)):
        return Cable(loss=loss).loss
    if isinstance(loss, bool) or not isinstance(loss, (int, float)) or not 0 <= loss <= 100:
        raise CableError(
            f"loss is {loss!r}; a number is percent, 0 to 100, and a text a part of the frames, as in '1/1000'"
        )
    return Fraction(str(loss)) / 100
