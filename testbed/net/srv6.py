"""SRv6 on a lab's routers: SIDs and addresses by one plan of numbers, and the commands that bring them into the kernel.

Router n has the locator fd00:5:n::/48, and in it End ...:1::, End.DT4 ...:d4::, and for its k-th neighbour
End.X.PFC ...:1k:: (k from 0). Cable c of the WAN has fd00:c:c::/64 with ::1 and ::2 at its ends. What a VPN's site
sends is put into the tunnel by the edge router, in a VRF of the site.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv6Address, IPv6Network

from testbed.agent.plan import WanPlan
from testbed.srv6.domain import SrDomain
from testbed.srv6.sid import Adjacency, Kind, Sid, Structure

DOMAIN = SrDomain(["fd00:5::/32"], ["fd00:6::/32", "fd00:c::/32"])
STRUCTURE = Structure()
VRF, TABLE = "dc", 100
_END, _PFC, _DT4 = 0x1, 0x10, 0xD4


@dataclass(frozen=True)
class Wan:
    """What a router's node is given."""

    plan: WanPlan
    interfaces: tuple[str, ...]
    """Whose congestion goes into tunnels."""


def locator(number: int) -> IPv6Network:
    return IPv6Network(f"fd00:5:{number:x}::/48")


def source(number: int) -> IPv6Address:
    return IPv6Address(f"fd00:6:{number:x}::1")


def link_address(cable: int, end: int) -> IPv6Address:
    return IPv6Address(f"fd00:c:{cable:x}::{end}")


def end(node: str, number: int) -> Sid:
    return Sid(node, STRUCTURE.sid(locator(number), _END), Kind.END)


def pfc(node: str, number: int, place: int, interface: str, neighbour: IPv6Address) -> Sid:
    """End.X.PFC for the router's neighbour number `place`."""
    address = STRUCTURE.sid(locator(number), _PFC + place)
    return Sid(node, address, Kind.END_X_PFC, adjacencies=(Adjacency(interface, neighbour),))


def vpn(node: str, number: int) -> Sid:
    return Sid(node, STRUCTURE.sid(locator(number), _DT4), Kind.END_DT4)


def router_commands(
    number: int,
    addresses: Mapping[str, IPv6Address],
    ways: Mapping[int, tuple[str, IPv6Address]],
    sids: Sequence[Sid],
    cables: Mapping[int, int],
) -> list[str]:
    """For every router: `addresses` of its WAN interfaces, `ways` to other routers (interface, neighbour), its SIDs,
    and for cables that are not its own, by which router to reach them.
    """
    first = next(iter(addresses))
    commands = ["sysctl -qw net.ipv6.conf.all.seg6_enabled=1 net.ipv6.conf.all.forwarding=1"]
    for interface, address in addresses.items():
        commands.append(f"sysctl -qw net.ipv6.conf.{interface}.seg6_enabled=1")
        commands.append(f"ip -6 address add {address}/64 dev {interface} nodad")
        # Without one the kernel asks for no neighbour when it forwards.
        commands.append(f"ip -6 address add fe80::{number:x}/64 dev {interface} nodad")
    commands.append(f"ip -6 address add {source(number)}/128 dev lo nodad")
    commands.append(f"ip sr tunsrc set {source(number)}")
    for other, (interface, neighbour) in ways.items():
        for prefix in (locator(other), f"{source(other)}/128"):
            commands.append(f"ip -6 route add {prefix} via {neighbour} dev {interface}")
    for cable, other in cables.items():
        interface, neighbour = ways[other]
        commands.append(f"ip -6 route add {link_address(cable, 0)}/64 via {neighbour} dev {interface}")
    for sid in sids:
        if sid.kind is Kind.END:
            commands.append(f"ip -6 route add {sid.address}/128 encap seg6local action End dev {first}")
        elif sid.kind.has_adjacencies:
            one = sid.adjacencies[0]
            commands.append(
                f"ip -6 route add {sid.address}/128 encap seg6local action End.X nh6 {one.next_hop} dev {one.interface}"
            )
    return commands


def site_commands(interface: str, prefix: str, segments: Sequence[IPv6Address], out: str, service: Sid) -> list[str]:
    """For an edge router: its site's interface goes into a VRF, and what is for `prefix` into the tunnel."""
    listed = ",".join(map(str, segments))
    return [
        "sysctl -qw net.vrf.strict_mode=1",
        f"ip link add {VRF} type vrf table {TABLE}",
        f"ip link set {VRF} up",
        f"ip link set {interface} master {VRF}",
        f"ip -6 rule add to {DOMAIN.sids[0]} lookup main priority 999",
        f"ip -6 route add {service.address}/128 encap seg6local action End.DT4 vrftable {TABLE} dev {VRF}",
        f"ip route add {prefix} vrf {VRF} encap seg6 mode encap segs {listed} dev {out}",
    ]
