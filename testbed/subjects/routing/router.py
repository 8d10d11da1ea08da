"""A router as its routing daemons see it: its number, its ports, and the networks that it has.

The daemons' configuration is made of this alone, so it can be made, and looked at, without a network.

What routing software has in common, whoever wrote it: `addRouter("r1", routing=Frr(Bgp()))`.

A class of it turns what a router is to speak (`protocols.py`) and what the router has (`router.py`) into the text of
its configuration. `testbed/subjects/routing/lab` runs it.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from ipaddress import IPv4Interface
from pathlib import Path
from typing import Any, ClassVar, Self

from testbed.errors import UsageError
from testbed.subjects.routing.protocols import Bgp, chosen

FIRST_ASN = 4_200_000_000
"""The AS numbers from here on are private (RFC 6996)."""
AS_OF_SPINES = 65_000
"""The AS that the spines of a fabric share (RFC 7938): a way down and up again has it twice, and nobody takes it."""
_MOST = 1 << 16


@dataclass(frozen=True)
class RouterPort:
    """A port of a router, and what is at the other end of its cable."""

    name: str
    neighbour: str
    far_port: str
    leads_to_router: bool
    address: IPv4Interface | None = None
    far_mac: str = ""
    cost: int = 1

    @property
    def far_link_local(self) -> str:
        """The link-local address that Linux makes of the far port's MAC address (RFC 4291, appendix A)."""
        octets = bytearray.fromhex(self.far_mac.replace(":", ""))
        octets[0] ^= 2
        made = bytes(octets[:3]) + b"\xff\xfe" + bytes(octets[3:])
        return "fe80::" + ":".join(f"{made[at] << 8 | made[at + 1]:x}" for at in range(0, 8, 2))


@dataclass(frozen=True)
class Router:
    """A router of a network. `number` is its place among the routers, from 1 on."""

    name: str
    number: int
    ports: tuple[RouterPort, ...]
    locator: str = ""
    """The IPv6 prefix of the router's SIDs, if it has any."""

    def __post_init__(self) -> None:
        if not 0 < self.number < _MOST:
            raise UsageError(f"router {self.name} is number {self.number}; at most {_MOST - 1} routers have daemons")

    @property
    def router_id(self) -> str:
        return f"10.255.{self.number >> 8}.{self.number & 255}"

    @property
    def asn(self) -> int:
        """The AS of a router that was given none."""
        return FIRST_ASN + self.number

    @property
    def system_id(self) -> str:
        """The router's name in IS-IS."""
        return f"0000.0000.{self.number:04x}"

    @property
    def uplinks(self) -> tuple[RouterPort, ...]:
        """The ports that lead to other routers."""
        return tuple(port for port in self.ports if port.leads_to_router)

    @property
    def networks(self) -> tuple[str, ...]:
        """The networks at the router's other ports, which it has to tell the others; of one with SIDs their prefix."""
        if self.locator:
            return (self.locator,)
        own = [port.address for port in self.ports if not port.leads_to_router and port.address is not None]
        return tuple(sorted({str(address.network) for address in own}))


def require_addresses(router: Router, protocol: str) -> None:
    """Refuse a router with a cable to another one that has no address, which the protocol needs."""
    for port in router.uplinks:
        if port.address is None:
            raise UsageError(
                f"router {router.name}: {protocol} needs an IPv4 address at {port.name}, which leads to "
                f'{port.neighbour}; give the link one, as in params1={{"ip": "10.0.0.1/30"}}, or use Bgp(), which '
                "needs none"
            )


class Software:
    """Routing software with the protocols that it is to speak, or with a configuration of the user's own.

    `config` is the text of a configuration or, as a `Path`, the file that has it.
    """

    package: str
    """The Debian package that has it."""
    speaks: ClassVar[tuple[type, ...]]

    def __init__(self, *protocols: Any, config: str | Path = "") -> None:
        self.protocols: Mapping[type, Any] = chosen(type(self).__name__, protocols, self.speaks)
        self.config = config
        if bool(protocols) == bool(config):
            name = type(self).__name__
            raise UsageError(
                f"{name}: give it what it is to speak, as in {name}(Bgp()), or a configuration, "
                f'{name}(config=Path("r1.conf")){", and not both" if protocols else ""}'
            )

    def text(self, router: Router) -> str:
        """Return the configuration of a router: the user's, or the one that is made of the topology."""
        if not self.config:
            return self.made(router)
        if isinstance(self.config, str):
            return self.config
        try:
            return self.config.read_text()
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is no text"
            raise UsageError(
                f"router {router.name}: its configuration {self.config} cannot be read: {why}; name it in "
                '@experiment(files=[...]) and take Path(__file__).with_name("r1.conf")'
            ) from None

    def made(self, router: Router) -> str:
        """Return the configuration that is made of the topology."""
        raise NotImplementedError

    def with_asn(self, asn: int) -> Self:
        """Return the same software for a router of this AS, if its BGP was given none."""
        bgp: Bgp | None = self.protocols.get(Bgp)
        if bgp is None or bgp.asn is not None:
            return self
        made = copy.copy(self)
        made.protocols = {**self.protocols, Bgp: replace(bgp, asn=asn)}
        return made

    def asn(self, router: Router) -> int:
        """Return the AS of a router."""
        bgp: Bgp | None = self.protocols.get(Bgp)
        return router.asn if bgp is None or bgp.asn is None else bgp.asn


def same_for_all(all_software: Iterable[Software]) -> frozenset[type] | None:
    """Return the protocols of all routers if they are the same and made of the topology, else None."""
    kinds = {frozenset(one.protocols) if one.protocols else None for one in all_software}
    return kinds.pop() if len(kinds) == 1 else None
