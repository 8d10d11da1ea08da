"""SRv6 on a lab's routers: a numbering plan for SIDs and addresses, and the set-up of the kernel.

Router r<n> has the locator fd00:5:n::/48, and in it End ...:1::, and for its k-th neighbour (k from 0) End.X ...:2k::
and End.X.PFC ...:1k::, or ...:axxk:: for slice xx. A VPN's SID is ...:d4::, or one that the controller takes. Cable c
of the WAN has fd00:c:c::/64 with ::1 and ::2 at its ends.

Without a routing protocol each router has routes by the shortest delay, and for the case that its own link fails
others by a neighbour that does not send back (a loop-free alternate, RFC 5286). With one, FRR's IS-IS, the
SIDs End and End.X are of its choice, from function 0 on, and End.X.PFC is ...:800k::.

The filters that keep an SR domain to itself (RFC 8754, section 5.1), in the kernel of each router.

A port that leads out of the domain drops packets with a destination or a source in the domain: such a packet could
stop queues, enter a VPN, or make a router learn a tunnel. Inside, a router accepts packets to its own SIDs only from
addresses of the domain's routers, in case that an edge has no filter. No HMAC is used: it would protect only against
senders inside the domain.

The filters are at ingress, before routing: after it, a packet that the router itself has encapsulated looks like one
from outside. They match priority-tagged packets too.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv6Address, IPv6Network, ip_network
from typing import Any

from testbed.errors import UsageError, XoffError, nearest
from testbed.linux.netlink import seg6
from testbed.linux.netlink.messages import Message
from testbed.net.build.options import UNIQUE_LOCAL
from testbed.net.fabric.port import Buffer
from testbed.subjects.routing.frr import SID_INTERFACE
from testbed.subjects.srv6.agent.kernel_sr import sid_action
from testbed.subjects.srv6.agent.plan import SliceQueues, WanPlan
from testbed.subjects.srv6.controller import network
from testbed.subjects.srv6.protocol import behaviours, endx_pfc
from testbed.subjects.srv6.protocol.behaviours import Behaviour, KernelAction, Parameters
from testbed.subjects.srv6.protocol.domain import SrDomain
from testbed.subjects.srv6.protocol.sid import Adjacency, Sid, Structure
from testbed.subjects.srv6.session.messages import LinkEnd, Report, RouterPort, SliceInfo
from testbed.switch.buffer.settings import GroupSettings, Static
from testbed.switch.ways.network import settings_in_force
from testbed.switch.ways.settings import Ways
from testbed.units import Duration, Rate

DOMAIN = SrDomain(["fd00:5::/32"], ["fd00:6::/32", "fd00:c::/32"])
STRUCTURE = Structure()
FIRST_TABLE = 100
_END, _PFC, _CROSS, _SLICED, _DT4 = 0x1, 0x10, 0x20, 0xA000, 0xD4
_BACKUP_METRIC = 2048
_PFC_BESIDE_IGP = 0x8000
"""FRR counts its SIDs of a locator from 0 on. So all from here on are ours: these, those of slices, those of VPNs."""
MOST_LEGS = _CROSS - _PFC
_IN_A_ROUTER = Duration("5ms")
"""The longest wait of a frame in a router, behind frames that are on the line."""
_CELLS_OF_A_KILOBYTE, _CELLS_AT_THE_ENDS = 5, 100
_PATIENCE_MS = 1000
"""The time between two of the three requests of the kernel for a neighbour's address."""
_XOFF, _XON_OFFSET = Static(100), 32
_SHORTEST = 1000
"""The octets of the shortest frame for which headroom is measured."""


@dataclass(frozen=True)
class Wan:
    """The arguments of a router's node."""

    plan: WanPlan
    interfaces: tuple[str, ...]
    """The interfaces whose congestion is signalled through tunnels."""


@dataclass(frozen=True)
class Leg:
    """A link of the WAN, as one of its routers sees it."""

    interface: str
    neighbour: str
    far_interface: str
    cable: int
    end: int
    delay: Duration

    @property
    def address(self) -> IPv6Address:
        return link_address(self.cable, self.end)

    @property
    def next_hop(self) -> IPv6Address:
        return link_address(self.cable, 3 - self.end)


def router_number(router: str) -> int:
    """Return the number in a router's name, as in r3."""
    digits = router.lstrip("abcdefghijklmnopqrstuvwxyz-")
    if not (digits.isascii() and digits.isdigit()) or not 0 < int(digits) < 1 << 16:
        raise UsageError(f"router {router!r} has no number to make addresses of; name it as in r3")
    return int(digits)


def locator(router: int) -> IPv6Network:
    return IPv6Network(f"fd00:5:{router:x}::/48")


def source_address(router: int) -> IPv6Address:
    return IPv6Address(f"fd00:6:{router:x}::1")


def link_address(cable: int, end: int) -> IPv6Address:
    return IPv6Address(f"fd00:c:{cable:x}::{end}")


def end_sid(router: str) -> Sid:
    return _sid(router, _END, behaviours.END)


def end_x_sid(router: str, place: int, leg: Leg) -> Sid:
    """Return the End.X SID for the router's neighbour number `place`."""
    return _sid(router, _CROSS + place, behaviours.END_X, leg)


def end_x_pfc_sid(router: str, place: int, leg: Leg, slice_id: int | None = None, *, beside_igp: bool = False) -> Sid:
    """Return the End.X.PFC SID for the router's neighbour number `place`.

    With `beside_igp` its number is none that routing daemons take.
    """
    first = _PFC_BESIDE_IGP if beside_igp else _PFC
    function = first + place if slice_id is None else _SLICED + 16 * slice_id + place
    return _sid(router, function, behaviours.END_X_PFC, leg, slice_id)


def vpn_sid(router: str, place: int = 0, behaviour: Behaviour = behaviours.END_DT4) -> Sid:
    return _sid(router, _DT4 + 256 * place, behaviour)


LONGEST_TUNNEL = 40 + 8 + 16 * 5
"""The octets of IPv6 with a list of five segments."""


def vpn_for(where: str, ipv6: Any) -> Behaviour:
    """Return the behaviour of a VPN by a topology's option `ipv6`. UsageError if that is a network of its own."""
    if ipv6 not in (None, IPv6Network(UNIQUE_LOCAL)):
        raise UsageError(f"{where}: ipv6 is '{ipv6}', and data centres have networks of their own; write True")
    return behaviours.END_DT46 if ipv6 else behaviours.END_DT4


def vpn_behaviour(where: str, name: str) -> Behaviour:
    """Return the behaviour of a VPN's SIDs by its name. UsageError if the SID takes nothing out of a tunnel."""
    found = behaviours.BEHAVIOURS.get(name)
    if found is None or not found.decapsulates:
        able = [one for one, behaviour in behaviours.BEHAVIOURS.items() if behaviour.decapsulates]
        raise UsageError(f"{where}: vpn is {name!r}; {nearest(str(name), able)}")
    return found


@dataclass(frozen=True)
class DataCentre:
    """The addresses of data centre `number` behind an edge, for the IP versions that its VPN carries."""

    number: int
    versions: frozenset[int]

    @property
    def prefixes(self) -> list[str]:
        every = {4: f"10.{self.number}.0.0/16", 6: f"fd01:{self.number:x}::/64"}
        return [prefix for version, prefix in every.items() if version in self.versions]

    def port(self) -> dict[str, str]:
        """Return the addresses of the edge's port, as `params1` of a link."""
        every = {4: {"ip": f"10.{self.number}.255.254/16"}, 6: {"ipv6": f"fd01:{self.number:x}::fffe/64"}}
        return {word: address for version in sorted(self.versions) for word, address in every[version].items()}

    def host(self, number: int) -> dict[str, str | None]:
        """Return the addresses and routes of a host, as options of `addHost`."""
        found: dict[str, str | None] = {"ip": None, "ipv6": None}
        if 4 in self.versions:
            found |= {"ip": f"10.{self.number}.{number >> 8}.{number & 255}/16"}
            found |= {"defaultRoute": f"via 10.{self.number}.255.254"}
        if 6 in self.versions:
            found |= {"ipv6": f"fd01:{self.number:x}::{number:x}/64"}
            found |= {"defaultRoute6": f"via fd01:{self.number:x}::fffe"}
        return found

    def port_commands(self, interface: str) -> list[str]:
        """Return the commands by which the edge's port keeps its IPv6 addresses when it joins a VRF.

        Linux takes the port down and up for that. A router asks for neighbours by a link-local address, which comes
        back if the kernel makes it.
        """
        if 6 not in self.versions:
            return []
        settings = ("disable_ipv6=0", "accept_dad=0", "addr_gen_mode=0", "keep_addr_on_down=1")
        return [f"sysctl -qw net.ipv6.conf.{interface}.{setting}" for setting in settings]


def _sid(router: str, function: int, behaviour: Behaviour, leg: Leg | None = None, slice_id: int | None = None) -> Sid:
    adjacencies = (Adjacency(leg.interface, leg.next_hop),) if leg else ()
    address = STRUCTURE.sid(locator(router_number(router)), function)
    return Sid(router, address, behaviour, adjacencies=adjacencies, slice_id=slice_id)


class WanGraph:
    """The routers of a WAN and the cables between them."""

    def __init__(self, spans: Sequence[tuple[str, str, Duration]], ports_before: Mapping[str, int]) -> None:
        """`spans` have two routers and the delay in the lab. `ports_before` is the number of ports that a router has
        before these; they lead out of the SR domain.
        """
        self.legs: dict[str, list[Leg]] = {}
        self._ports_before = dict(ports_before)
        taken = dict(ports_before)
        for cable, (one, other, delay) in enumerate(spans, 1):
            if one == other or delay.ps < 1:
                wrong = "ends where it starts" if one == other else "has no delay, by which ways are found"
                raise UsageError(f"cable {cable} of the WAN, from {one} to {other}, {wrong}")
            names = []
            for router in (one, other):
                place = taken.get(router, 0)
                taken[router] = place + 1
                names.append(f"{router}-eth{place}")
            self.legs.setdefault(one, []).append(Leg(names[0], other, names[1], cable, 1, delay))
            self.legs.setdefault(other, []).append(Leg(names[1], one, names[0], cable, 2, delay))
        self._check_numbers()
        self._distances = self._measure()

    @property
    def routers(self) -> list[str]:
        return sorted(self.legs)

    def path(self, start: str, goal: str) -> list[str]:
        """Return the routers on the shortest way, with both ends."""
        routers = [start]
        while routers[-1] != goal:
            routers.append(self.ways(routers[-1], goal)[0].neighbour)
        return routers

    def ways(self, router: str, goal: str) -> list[Leg]:
        """Return the shortest way, and after it the other ways that do not lead back here."""
        direct = self._distances[router, goal]
        loop_free = [
            leg
            for leg in self.legs[router]
            if self._distances[leg.neighbour, goal] < self._distances[leg.neighbour, router] + direct
        ]
        return sorted(loop_free, key=lambda leg: (self._length(leg, goal), leg.neighbour))

    def longest(self, router: str, goal: str) -> Duration:
        """Return the delay of the longest of the ways."""
        ways = self.ways(router, goal)
        return Duration.from_ps(max(self._length(leg, goal) for leg in ways))

    def leg(self, router: str, neighbour: str) -> tuple[int, Leg]:
        """Return the shortest link to a neighbour, with its place among the router's links."""
        found = [(place, leg) for place, leg in enumerate(self.legs[router]) if leg.neighbour == neighbour]
        return min(found, key=lambda one: one[1].delay.ps)

    def equal_ways(self, router: str, goal: str) -> list[Leg]:
        """Return the ways that are as short as the shortest."""
        ways = self.ways(router, goal)
        shortest = self._length(ways[0], goal)
        return [leg for leg in ways if self._length(leg, goal) == shortest]

    def _length(self, leg: Leg, goal: str) -> int:
        return leg.delay.ps + self._distances[leg.neighbour, goal]

    def setup(
        self, router: str, sids: Iterable[Sid], ways: Ways | None = None, *, has_igp: bool = False
    ) -> list[Setup]:
        """Return the set-up of a router: addresses, routes to all others, filters, and these SIDs.

        With `ways` of a rule that hashes, equally short ways are one route with several neighbours. With `has_igp`
        routing daemons find the routes, and have SIDs of their own beside these.
        """
        legs, own = self.legs[router], router_number(router)
        everywhere = "net.ipv6.conf.all"
        settings = [
            f"{everywhere}.seg6_enabled=1 net.ipv6.conf.lo.seg6_enabled=1 {everywhere}.forwarding=1",
            f"{everywhere}.ignore_routes_with_linkdown=1 net.vrf.strict_mode=1",
            # An interface without carrier keeps its address: it comes back as it was.
            *(
                f"net.ipv6.conf.{leg.interface}.{name}=1"
                for leg in legs
                for name in ("seg6_enabled", "ignore_routes_with_linkdown", "keep_addr_on_down")
            ),
        ]
        for leg in legs:
            if (patience := 4 * leg.delay.ns // 1_000_000) > _PATIENCE_MS:
                settings.append(f"net.ipv6.neigh.{leg.interface}.retrans_time_ms={patience}")
        commands: list[Setup] = [f"sysctl -qw {setting}" for setting in settings]
        # A VPN's packets that are for a SID leave its table, and so does the search for the next hop of an End.X.
        for inside in (*DOMAIN.sids, *DOMAIN.routers):
            commands.append(f"ip -6 rule add to {inside} lookup main priority 999")
        for leg in legs:
            commands.append(f"ip -6 address add {leg.address}/64 dev {leg.interface} nodad")
            # Without one the kernel asks for no neighbour when it forwards.
            commands.append(f"ip -6 address add fe80::{own:x}/64 dev {leg.interface} nodad")
        commands.append(f"ip -6 address add {source_address(own)}/128 dev lo nodad")
        if has_igp:
            commands += [f"ip link add {SID_INTERFACE} type dummy", f"ip link set {SID_INTERFACE} up"]
        for other in self.routers if not has_igp else ():
            if other == router:
                continue
            equal = self.equal_ways(router, other) if settings_in_force(ways) is not None else []
            several = equal if len(equal) > 1 else []
            prefixes = (locator(router_number(other)), f"{source_address(router_number(other))}/128")
            if several:
                neighbours = " ".join(f"nexthop via {leg.next_hop} dev {leg.interface}" for leg in several)
                commands += [f"ip -6 route add {reached} {neighbours}" for reached in prefixes]
            for rank, leg in enumerate(self.ways(router, other)[len(several) :], len(several)):
                for reached in prefixes:
                    commands.append(f"ip -6 route add {reached} via {leg.next_hop} dev {leg.interface}{_metric(rank)}")
        for cable, owner in self._far_cables(router).items() if not has_igp else ():
            leg = self.ways(router, owner)[0]
            commands.append(f"ip -6 route add {link_address(cable, 0)}/64 via {leg.next_hop} dev {leg.interface}")
        commands.append(f"ip sr tunsrc set {source_address(own)}")
        for place in range(self._ports_before.get(router, 0)):
            commands += outwards(f"{router}-eth{place}", DOMAIN)
        for leg in legs:
            commands += inwards(leg.interface, DOMAIN, locator(own))
        for sid in sids:
            commands += sid_routes(sid, [leg.interface for leg in legs])
        return commands

    def report(
        self,
        router: str,
        sids: Sequence[Sid],
        can_pause: bool,
        slices: Sequence[SliceQueues],
        rate_bps: int,
        *,
        legacy: Collection[str] = (),
    ) -> Report:
        """Return the router's report to the controller. Of `legacy` routers the controller knows what the IGP says."""
        ids = frozenset(one.id for one in slices)
        links = tuple(
            LinkEnd(
                leg.interface,
                RouterPort(leg.neighbour, network.to(router) if leg.neighbour in legacy else leg.far_interface),
                leg.delay.ns,
                pfc=can_pause,
                slices=ids,
            )
            for leg in self.legs[router]
        )
        known = tuple(SliceInfo(one.id, one.name, frozenset(one.queues), rate_bps) for one in slices)
        return Report(router, tuple(sids), links, known)

    def _far_cables(self, router: str) -> dict[int, str]:
        """Return the cables that do not end at this router, each with the nearest router at which it ends."""
        found: dict[int, str] = {}
        for owner in sorted(self.routers, key=lambda other: self._distances[router, other]):
            for leg in self.legs[owner]:
                found.setdefault(leg.cable, owner)
        return {cable: owner for cable, owner in found.items() if owner != router}

    def _check_numbers(self) -> None:
        """Check that routers' numbers differ, since addresses are made of them."""
        routers: dict[int, str] = {}
        for router, legs in self.legs.items():
            if (other := routers.setdefault(router_number(router), router)) != router:
                raise UsageError(f"routers {other} and {router} have the same number, and so the same addresses")
            if len(legs) > MOST_LEGS:
                raise UsageError(f"router {router} has {len(legs)} cables of the WAN; there are SIDs for {MOST_LEGS}")

    def _measure(self) -> dict[tuple[str, str], int]:
        far = 1 << 62
        distances = {(a, b): 0 if a == b else far for a in self.legs for b in self.legs}
        for router, legs in self.legs.items():
            for leg in legs:
                distances[router, leg.neighbour] = min(distances[router, leg.neighbour], leg.delay.ps)
        for middle in self.legs:
            for a in self.legs:
                for b in self.legs:
                    distances[a, b] = min(distances[a, b], distances[a, middle] + distances[middle, b])
        if far in distances.values():
            raise UsageError("the WAN graph is disconnected: no path joins all its routers; add a cable")
        return distances


@dataclass(frozen=True)
class SidRoute:
    """The kernel's route for packets to a SID. It names an interface, which only End.X uses."""

    sid: Sid
    action: KernelAction
    interface: str
    metric: int = seg6.ORDINARY

    def requests(self, index_of: Callable[[str], int]) -> list[Message]:
        return [sid_action(self.sid.address, self.action, index_of(self.interface), self.metric)]


@dataclass(frozen=True)
class Site:
    """A VPN's site at an edge router, set up without a controller: a VRF with an interface and the VPN's SID."""

    name: str
    table: int
    interface: str
    service: Sid

    def requests(self, index_of: Callable[[str], int]) -> list[Message]:
        vrf = seg6.vrf_index(self.table)
        action = self.service.behaviour.kernel_action(Parameters(table=self.table))
        assert action is not None
        return [
            seg6.vrf(self.name, self.table),
            seg6.join(index_of(self.interface), vrf),
            sid_action(self.service.address, action, vrf),
        ]

    def route(self, prefix: str, segments: Sequence[IPv6Address], out: str) -> SegmentRoute:
        """Return the route that encapsulates packets of the VPN to `prefix` with these segments."""
        return SegmentRoute(prefix, self.table, tuple(segments), out)


@dataclass(frozen=True)
class SegmentRoute:
    """A route of a VRF into a list of segments, in order of travel."""

    prefix: str
    table: int
    segments: tuple[IPv6Address, ...]
    out: str

    def requests(self, index_of: Callable[[str], int]) -> list[Message]:
        return [seg6.encapsulates(ip_network(self.prefix), self.table, self.segments, index_of(self.out))]


Setup = str | SidRoute | Site | SegmentRoute
"""A step of a router's set-up: a command for its shell, or netlink requests."""


def headroom(rate: Rate, delay: Duration, routers: int) -> int:
    """Return the cells of headroom at an edge that pauses another one: for the way there and back.

    `delay` is one way, and so many `routers` are between. Cells hold 208 octets, and frames fill most of theirs.
    """
    on_its_way = rate.size_in(delay * 2 + _IN_A_ROUTER * (2 * routers)).bytes
    return -(-on_its_way // 1000) * _CELLS_OF_A_KILOBYTE + _CELLS_AT_THE_ENDS


def edge_buffer(groups: Iterable[tuple[int, int]], headroom: int, most: int = 0) -> Buffer:
    """Return the buffer of an edge router with this headroom, by the number of the port to the WAN and local priority.

    If headroom is measured, each has room for `most` cells.
    """
    waiting = GroupSettings(lossless=True, threshold=_XOFF, xon_offset=_XON_OFFSET, headroom=headroom)
    settings = dict.fromkeys(groups, waiting)
    total = max(headroom, most) * len(settings) + 1500
    return Buffer(total=total, xoff=_XOFF, xon_offset=_XON_OFFSET, groups=settings, shortest=_SHORTEST)


def _metric(rank: int) -> str:
    """Return the metric of one of several routes to the same prefix. The kernel takes the first that is up."""
    return f" metric {_BACKUP_METRIC + rank}" if rank else ""


def sid_routes(sid: Sid, interfaces: Sequence[str]) -> list[Setup]:
    """Return the kernel's routes for a SID. An action without an interface has a route by each, so that one is up."""
    endx_pfc.check(sid)
    action = sid.behaviour.kernel_action(sid.parameters)
    if action is None:
        return []
    if action.interface is not None:
        return [SidRoute(sid, action, action.interface)]
    return [SidRoute(sid, action, name, seg6.ORDINARY + rank) for rank, name in enumerate(interfaces)]


_SOURCE_AT, _DESTINATION_AT = 8, 24
_PASS, _FIRST = 1, 2
REASONS = ("source_outside", "to_the_domain", "from_the_domain")
"""The reasons why a packet is dropped. The index of a reason gives the filter's preference."""


def outwards(interface: str, domain: SrDomain) -> list[str]:
    """Return the commands that filter a port which leads out of the domain."""
    prefixes = (*domain.sids, *domain.routers)
    drops = [_drop(interface, "to_the_domain", prefix, _DESTINATION_AT) for prefix in prefixes]
    return [
        _begin(interface),
        *drops,
        *(_drop(interface, "from_the_domain", prefix, _SOURCE_AT) for prefix in prefixes),
    ]


def inwards(interface: str, domain: SrDomain, own: IPv6Network) -> list[str]:
    """Return the commands that filter a port to another router of the domain; `own` is this router's locator."""
    passes = [_filter(interface, _PASS, prefix, _SOURCE_AT, "pass") for prefix in domain.routers]
    return [_begin(interface), *passes, _drop(interface, "source_outside", own, _DESTINATION_AT)]


def dropped(node: Any, interfaces: Iterable[str]) -> dict[str, int]:
    """Return the packets dropped by the filters of a router's ports, by reason. XoffError if they cannot be read."""
    found = Counter(dict.fromkeys(REASONS, 0))
    for interface in interfaces:
        shown, refused, code = node.pexec("tc", "-s", "-j", "filter", "show", "dev", interface, "ingress")
        if code:
            raise XoffError(f"the filters of {interface} cannot be read: {refused.strip() or f'tc ended with {code}'}")
        for one in json.loads(shown.strip() or "[]"):
            actions = one.get("options", {}).get("actions", [])
            if actions and one["pref"] >= _FIRST:
                found[REASONS[one["pref"] - _FIRST]] += sum(action["stats"]["packets"] for action in actions)
    return dict(found)


def _begin(interface: str) -> str:
    return f"tc qdisc add dev {interface} clsact"


def _drop(interface: str, reason: str, prefix: IPv6Network, at: int) -> str:
    return _filter(interface, _FIRST + REASONS.index(reason), prefix, at, "drop")


def _filter(interface: str, preference: int, prefix: IPv6Network, at: int, action: str) -> str:
    """Return a filter for all protocols, since a tag counts as one. The first match is the IP version."""
    matches = ["match u8 0x60 0xf0 at 0"]
    for word in range(0, 16, 4):
        value, mask = (int.from_bytes(octets.packed[word : word + 4]) for octets in (prefix[0], prefix.netmask))
        if mask:
            matches.append(f"match u32 {value:#010x} {mask:#010x} at {at + word}")
    start = f"tc filter add dev {interface} ingress pref {preference} protocol all u32"
    return " ".join([start, *matches, "action", action])
