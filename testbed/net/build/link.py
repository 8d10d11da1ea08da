"""Mininet's link, as a lossless cable between two ports.

Interfaces are made where they belong by one request each, and configured by requests too: no shell in between.
"""

from __future__ import annotations

from ipaddress import IPv6Network
from typing import Any

from testbed.frames import Mac
from testbed.net.build.mininet_classes import Intf, Link
from testbed.net.build.options import (
    CABLE_WORDS,
    LINK,
    LINK_OF_MININET,
    OptionError,
    cable_of,
    cost_of,
    ipv6_of,
    refuse_unknown,
)
from testbed.net.fabric.bring_up import Mismatch
from testbed.net.fabric.cable import Cable
from testbed.net.fabric.core import FabricCore
from testbed.net.fabric.port import Port
from testbed.units import Scale

_GIVEN_BY_MININET = ("intf", "fast")
"""Options that Mininet gives every link, whatever its class."""


class LosslessIntf(Intf):
    """One end of a lossless cable."""

    def __init__(self, name: str, *, slot: int, settings: Port | None = None, **params: Any) -> None:
        self.slot = slot
        self.settings = settings
        self.ip: str | None = None
        self.ipv6: str | None = None
        self.prefixLen: str | None = None
        self.link: Any = None
        super().__init__(name, moveIntfFn=lambda *_: None, **params)

    @property
    def fabric(self) -> FabricCore:
        fabric: FabricCore = self.link.fabric
        return fabric

    def setIP(self, ipstr: str, prefixLen: str | int | None = None) -> str:
        address, _, prefix = ipstr.partition("/")
        prefix = prefix or str(prefixLen or "")
        if not prefix:
            raise ValueError(f"{self.name}: the address {ipstr} has no prefix length; write it as in 10.0.0.1/8")
        if self.ip:
            self.fabric.cabling.remove_address(self, f"{self.ip}/{self.prefixLen}")
        self.ip, self.prefixLen = address, prefix
        self.fabric.cabling.add_address(self, f"{address}/{prefix}")
        return ""

    def config(self, ipv6: str | None = None, **params: Any) -> Any:
        done = super().config(**params)
        address = ipv6_of(self.name, ipv6)
        if isinstance(address, IPv6Network):
            raise OptionError(f"{self.name}: ipv6 is {ipv6!r}; write the port's own address such as 'fd00::1/64'")
        if address is not None:
            self.setIPv6(str(address))
        return done

    def setIPv6(self, address: str) -> None:
        """Give the port an IPv6 address with its prefix, as in fd00::1/64, in place of the one that it has.

        A router needs a link-local address as well: it asks for neighbours by no other.
        """
        cabling = self.fabric.cabling
        if self.ipv6 is not None:
            cabling.remove_address(self, self.ipv6)
        elif getattr(self.node, "forwards", False):
            cabling.add_address(self, f"fe80::{self.slot + 1:x}/64")
        self.ipv6 = address
        cabling.add_address(self, address)

    def setMAC(self, macstr: str) -> str:
        self.mac = macstr
        self.fabric.set_mac(self, Mac.parse(macstr))
        return ""

    def updateIP(self) -> str | None:
        known: str | None = self.ip
        return known

    def updateMAC(self) -> str | None:
        known: str | None = self.mac
        return known

    def updateAddr(self) -> tuple[str | None, str | None]:
        return self.ip, self.mac

    def isUp(self, setUp: bool = False) -> bool:
        if setUp:
            self.ipLink("up")
        return True

    def ipLink(self, *args: str) -> str:
        if args and args[0] in ("up", "down"):
            self.fabric.cabling.set_up(self, args[0] == "up")
            return ""
        text: str = super().ipLink(*args)
        return text

    def ifconfig(self, *args: str) -> str:
        """Set the link up or down for Mininet's `link s1 h1 down`; other arguments go to ifconfig."""
        if args in (("up",), ("down",)):
            return self.ipLink(*args)
        text: str = super().ifconfig(*args)
        return text

    def rename(self, newname: str) -> str:
        raise ValueError(f"{self.name}: a lossless port keeps its name")

    def delete(self) -> None:
        self.fabric.cabling.remove(self)
        self.node.delIntf(self)
        self.link = None


class LosslessLink(Link):
    """A cable between two ports.

    Its options are `cable` or words that describe one (`testbed.net.build.options`), `scale`, `cost`, which counts when
    switches look for the shortest way, and `settings1` and `settings2` for the ports at its ends.
    """

    def __init__(
        self,
        node1: Any,
        node2: Any,
        *,
        port1: int | None = None,
        port2: int | None = None,
        intfName1: str | None = None,
        intfName2: str | None = None,
        addr1: str | None = None,
        addr2: str | None = None,
        cable: Cable | None = None,
        scale: Scale | int | str = 1,
        settings1: Port | None = None,
        settings2: Port | None = None,
        mismatch: Mismatch | str = Mismatch.REFUSE,
        cost: int = 1,
        params1: dict[str, Any] | None = None,
        params2: dict[str, Any] | None = None,
        **others: Any,
    ) -> None:
        where = f"link of {node1.name} and {node2.name}"
        refuse_unknown(where, others, (*LINK, *LINK_OF_MININET, *_GIVEN_BY_MININET))
        described = {word: others.get(word) for word in CABLE_WORDS}
        port1 = node1.newPort() if port1 is None else port1
        port2 = node2.newPort() if port2 is None else port2
        self.fabric = FabricCore.current()
        self.fabric.options.mismatch = Mismatch(mismatch)
        self.cable = cable_of(where, {"cable": cable, **described}, Cable())
        for name, settings in (("settings1", settings1), ("settings2", settings2)):
            if not isinstance(settings, Port | None):
                raise OptionError(f"{where}: {name} is {settings!r}; write Port(...)")
        self.scale = Scale(scale)
        self.cost = cost_of(where, cost)
        names = intfName1 or self.intfName(node1, port1), intfName2 or self.intfName(node2, port2)
        slots = self.fabric.cabling.connect(
            (node1, names[0], addr1), (node2, names[1], addr2), self.cable.in_lab(self.scale)
        )
        ends = []
        for node, port, name, slot, given, extra, mac in (
            (node1, port1, names[0], slots[0], settings1, params1, addr1),
            (node2, port2, names[1], slots[1], settings2, params2, addr2),
        ):
            chosen = dict(extra or {})
            settings = chosen.pop("settings", given) or node.params.get("port")
            ends.append(
                LosslessIntf(name, slot=slot, settings=settings, node=node, port=port, link=self, mac=mac, **chosen)
            )
        self.intf1, self.intf2 = ends
        self.fabric.cabling.add(self)

    def status(self) -> str:
        return "(OK OK)"

    def delete(self) -> None:
        for end in (self.intf1, self.intf2):
            end.delete()

    def stop(self) -> None:
        """Stop the agents, which have to end first; the ports go with the nodes' namespaces."""
        self.fabric.stop()
