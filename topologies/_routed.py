"""What topologies of routers have in common: networks for each host and cable, of one or both IP versions."""

from ipaddress import IPv6Address, IPv6Network
from typing import Any

from testbed.net.build.options import UNIQUE_LOCAL
from testbed.net.build.topo import LosslessTopo, TopoError

_MOST_BITS = 32
"""The longest prefix that leaves 16 bits for each of the two numbers of a network of 64 bits."""


class RoutedTopo(LosslessTopo):
    """Routers, hosts and cables in networks with two numbers: 10.A.B.0/30, and with `ipv6=True` fd00:0:A:B::/64 too.

    `ipv6` may be a prefix of up to 32 bits, such as "2001:db8::/32". A and B are written as numbers of IPv6 are, so
    10.101.2.0 has fd00:0:65:2:: beside it.
    """

    def ends(self, a: int, b: int) -> dict[str, Any]:
        """Return the addresses of both ends of a cable between routers, as `addLink` takes them."""
        return {f"params{end}": self._end(a, b, end) for end in (1, 2)}

    def add_host(self, name: str, router: str, a: int, b: int) -> None:
        """Add a host at a router, whose port has the first address of their network, and the host the second."""
        gateway, own = (self._end(a, b, end) for end in (1, 2))
        routes: dict[str, Any] = {f"defaultRoute{'6' if family == 'ipv6' else ''}": f"via {address.partition('/')[0]}"
                  for family, address in gateway.items()}  # fmt: skip
        self.addHost(name, **own, **routes)
        self.addLink(name, router, params2=gateway)

    def _end(self, a: int, b: int, end: int) -> dict[str, str]:
        found = {"ip": f"10.{a}.{b}.{end}/30"}
        if self._ipv6 is not None:
            found["ipv6"] = f"{IPv6Address(int(self._prefix().network_address) | a << 80 | b << 64 | end)}/64"
        return found

    def _prefix(self) -> IPv6Network:
        given = self._ipv6
        assert isinstance(given, IPv6Network)
        if given == IPv6Network(UNIQUE_LOCAL):
            return IPv6Network((given.network_address, _MOST_BITS))
        if given.prefixlen > _MOST_BITS:
            raise TopoError(
                f"{type(self).__name__}: ipv6='{given}' is one network, and here each host has one of its own; write "
                f"True, or a prefix of up to {_MOST_BITS} bits such as '2001:db8::/32'"
            )
        return given

    def require_ipv4_alone(self, why: Any) -> None:
        """Refuse `ipv6` beside routing daemons, which have no routes of it here."""
        if self._ipv6 is not None and why is not None:
            raise TopoError(
                f"{type(self).__name__}: ipv6 and routing are both given, and the daemons find routes of IPv4 alone "
                "here; leave one of them out"
            )
