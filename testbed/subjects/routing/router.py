"""A router as its routing daemons see it: its number, its ports, and the networks that it has.

The daemons' configuration is made of this alone, so it can be made, and looked at, without a network.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Interface

from testbed.errors import UsageError

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
