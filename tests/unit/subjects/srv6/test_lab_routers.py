"""SRv6 on a lab's routers: ways through any WAN, ways that remain when a link fails, and numbers in addresses."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import replace
from ipaddress import IPv6Address, IPv6Interface, IPv6Network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.errors import UsageError
from testbed.linux.netlink import seg6
from testbed.subjects.srv6.agent.plan import SliceQueues
from testbed.subjects.srv6.lab import routers as srv6
from testbed.subjects.srv6.lab.routers import Leg, WanGraph
from testbed.subjects.srv6.protocol import behaviours
from testbed.subjects.srv6.protocol.sid import Flavours
from testbed.subjects.srv6.session.messages import LinkEnd, Report, RouterPort, SliceInfo
from testbed.switch.ways.settings import Ways
from testbed.units import Duration
from tests.unit.subjects.srv6.srv6_kernel import Encap, Kernel

Span = tuple[str, str, int]
FIGURE_2 = [("r1", "r2", 1), ("r2", "r5", 1), ("r2", "r3", 1), ("r3", "r4", 1), ("r4", "r5", 1)]


def graph(spans: Sequence[Span], **ports_before: int) -> WanGraph:
    return WanGraph([(one, other, Duration("1ms") * delay) for one, other, delay in spans], ports_before)


@st.composite
def _wans(draw: st.DrawFn) -> list[Span]:
    """Draw two to nine routers of a connected graph, with further cables between any two, also parallel ones."""
    count = draw(st.integers(2, 9))
    delays = st.integers(1, 6)
    spans = [(f"r{draw(st.integers(1, n - 1))}", f"r{n}", draw(delays)) for n in range(2, count + 1)]
    for _ in range(draw(st.integers(0, 9))):
        one, other = draw(st.lists(st.integers(1, count), min_size=2, max_size=2, unique=True))
        spans.append((f"r{one}", f"r{other}", draw(delays)))
    return draw(st.permutations(spans))


def distances(spans: Sequence[Span], goal: str) -> dict[str, int]:
    """Return the distances from everywhere, by Dijkstra's algorithm."""
    found: dict[str, int] = {}
    waiting = [(0, goal)]
    while waiting:
        so_far, router = heapq.heappop(waiting)
        if router in found:
            continue
        found[router] = so_far
        for one, other, delay in spans:
            for a, b in ((one, other), (other, one)):
                if a == router:
                    heapq.heappush(waiting, (so_far + delay, b))
    return found


def followed(wan: WanGraph, router: str, goal: str) -> Iterator[Leg]:
    """Return the legs of a packet that goes by everybody's first way."""
    while router != goal:
        leg = wan.ways(router, goal)[0]
        yield leg
        router = leg.neighbour


@given(_wans())
def test_the_first_way_leads_from_everywhere_to_everywhere_and_none_is_shorter(spans: list[Span]) -> None:
    wan = graph(spans)
    for goal in wan.routers:
        for router, distance in distances(spans, goal).items():
            legs = list(followed(wan, router, goal))
            assert sum((leg.delay for leg in legs), Duration("0s")) == Duration("1ms") * distance
            assert wan.path(router, goal) == [router, *(leg.neighbour for leg in legs)]


@given(_wans())
def test_when_a_routers_own_first_link_fails_every_other_way_of_it_arrives(spans: list[Span]) -> None:
    wan = graph(spans)
    for goal in wan.routers:
        for router in wan.routers:
            if router == goal:
                continue
            first, *others = wan.ways(router, goal)
            for leg in others:
                assert leg.cable != first.cable
                after = list(followed(wan, leg.neighbour, goal))  # no other router has noticed
                assert first.cable not in [one.cable for one in after]
                assert router not in [one.neighbour for one in after]


@given(_wans())
def test_no_neighbour_that_would_not_send_back_is_left_out(spans: list[Span]) -> None:
    wan = graph(spans)
    to = {goal: distances(spans, goal) for goal in wan.routers}
    for goal in wan.routers:
        for router in wan.routers:
            if router == goal:
                continue
            good = [
                leg.cable
                for leg in wan.legs[router]
                if to[goal][leg.neighbour] < to[router][leg.neighbour] + to[goal][router]
            ]
            assert sorted(leg.cable for leg in wan.ways(router, goal)) == sorted(good)


def test_a_neighbour_at_which_both_directions_are_equally_long_is_no_way_out() -> None:
    """Check figure 2 with equal cables: without r2-r5, r2 must not send to r3, which may send back."""
    wan = graph(FIGURE_2)
    assert wan.path("r1", "r5") == ["r1", "r2", "r5"]
    assert [leg.neighbour for leg in wan.ways("r2", "r5")] == ["r5"]
    longer = graph([("r1", "r2", 2), ("r2", "r5", 2), *FIGURE_2[2:]])
    assert [leg.neighbour for leg in longer.ways("r2", "r5")] == ["r5", "r3"]


def test_of_two_cables_between_the_same_routers_the_shorter_is_the_link() -> None:
    wan = graph([("r1", "r2", 5), ("r1", "r2", 1)])
    assert [leg.cable for leg in wan.ways("r1", "r2")] == [2, 1]
    assert wan.leg("r1", "r2") == (1, wan.legs["r1"][1])


def test_ports_are_counted_after_those_that_a_router_has_already() -> None:
    wan = graph([("r1", "r2", 1), ("r2", "r3", 1)], r1=2)
    assert wan.legs["r1"] == [Leg("r1-eth2", "r2", "r2-eth0", 1, 1, Duration("1ms"))]
    assert [(leg.interface, leg.far_interface, leg.end) for leg in wan.legs["r2"]] == [
        ("r2-eth0", "r1-eth2", 2),
        ("r2-eth1", "r3-eth0", 1),
    ]
    assert (str(wan.legs["r2"][0].address), str(wan.legs["r2"][0].next_hop)) == ("fd00:c:1::2", "fd00:c:1::1")


@pytest.mark.parametrize(
    ("spans", "text"),
    [
        (
            [("r1", "r2", 1), ("r3", "r4", 1)],
            "the WAN graph is disconnected: no path joins all its routers; add a cable",
        ),
        ([("r1", "r1", 1)], "cable 1 of the WAN, from r1 to r1, ends where it starts"),
        ([("r1", "r2", 0)], "cable 1 of the WAN, from r1 to r2, has no delay, by which ways are found"),
        ([("r1", "x1", 1)], "routers r1 and x1 have the same number, and so the same addresses"),
        ([("r1", f"r{n}", 1) for n in range(2, 19)], "router r1 has 17 cables of the WAN; there are SIDs for 16"),
        ([("r1", "edge", 1)], "router 'edge' has no number to make addresses of; name it as in r3"),
    ],
)
def test_an_invalid_wan_is_refused(spans: list[Span], text: str) -> None:
    with pytest.raises(UsageError) as refused:
        graph(spans)
    assert str(refused.value) == text


@pytest.mark.parametrize(("name", "number"), [("r1", 1), ("r-12", 12), ("pe65535", 65535)])
def test_a_router_has_the_number_of_its_name(name: str, number: int) -> None:
    assert srv6.router_number(name) == number


@pytest.mark.parametrize("name", ["r", "r0", "r65536", "3r", "r1a", "R1", "r²", ""])
def test_a_name_without_a_usable_number_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match=f"router '{name}' has no number to make addresses of; name it as in r3"):
        srv6.router_number(name)


def test_addresses_follow_the_plan_of_numbers() -> None:
    leg = graph([("r1", "r2", 1), ("r2", "r171", 1)]).legs["r171"][0]
    assert str(srv6.locator(171)) == "fd00:5:ab::/48"
    assert str(srv6.source_address(171)) == "fd00:6:ab::1"
    sids = [
        srv6.end_sid("r171"),
        srv6.end_x_pfc_sid("r171", 2, leg),
        srv6.end_x_sid("r171", 2, leg),
        srv6.end_x_pfc_sid("r171", 3, leg, 10),
    ]
    sids += [srv6.vpn_sid("r171"), srv6.vpn_sid("r171", 1)]
    assert [str(sid.address) for sid in sids] == [
        "fd00:5:ab:1::", "fd00:5:ab:12::", "fd00:5:ab:22::", "fd00:5:ab:a0a3::", "fd00:5:ab:d4::", "fd00:5:ab:1d4::",
    ]  # fmt: skip
    assert [sid.behaviour for sid in sids] == [
        behaviours.END,
        behaviours.END_X_PFC,
        behaviours.END_X,
        behaviours.END_X_PFC,
        behaviours.END_DT4,
        behaviours.END_DT4,
    ]
    assert {str(sid.adjacencies[0].next_hop) for sid in sids if sid.adjacencies} == {"fd00:c:2::1"}
    assert sids[3].slice_id == 10


def test_no_two_sids_of_a_router_with_as_many_cables_as_there_may_be_are_the_same() -> None:
    wan = graph([("r1", f"r{n}", 1) for n in range(2, 2 + srv6.MOST_LEGS)])
    sids = [srv6.end_sid("r1"), *(srv6.vpn_sid("r1", place) for place in range(4))]
    for place, leg in enumerate(wan.legs["r1"]):
        sids += [srv6.end_x_sid("r1", place, leg), srv6.end_x_pfc_sid("r1", place, leg)]
        sids += [srv6.end_x_pfc_sid("r1", place, leg, slice_id) for slice_id in (1, 2, 10, 40)]
    assert len({sid.address for sid in sids}) == len(sids)
    assert all(srv6.DOMAIN.is_sid(sid.address) for sid in sids)


def test_a_report_describes_the_router() -> None:
    wan, slices = (
        graph([("r1", "r2", 3), ("r1", "r3", 1)]),
        [SliceQueues(10, "red", {3: 4}), SliceQueues(20, "blue", {})],
    )
    sids = [srv6.end_sid("r1")]
    assert wan.report("r1", sids, True, slices, 5000) == Report(
        "r1",
        tuple(sids),
        (
            LinkEnd("r1-eth0", RouterPort("r2", "r2-eth0"), 3_000_000, pfc=True, slices=frozenset({10, 20})),
            LinkEnd("r1-eth1", RouterPort("r3", "r3-eth0"), 1_000_000, pfc=True, slices=frozenset({10, 20})),
        ),
        (SliceInfo(10, "red", frozenset({3}), 5000), SliceInfo(20, "blue", frozenset(), 5000)),
    )
    assert not wan.report("r2", (), False, (), 0).links[0].pfc


# The commands


def test_a_sid_that_the_kernel_cannot_be_is_refused_before_anything_runs() -> None:
    wan = graph([("r1", "r2", 1)])
    sid = replace(srv6.end_x_pfc_sid("r1", 0, wan.legs["r1"][0]), flavours=Flavours.PSP)
    with pytest.raises(UsageError, match="fd00:5:1:10:: has the flavour PSP"):
        wan.setup("r1", [sid])


def _action(step: srv6.SidRoute) -> str:
    """Return the action as `ip route` shows it."""
    hop = f" nh6 {step.action.next_hop}" if step.action.next_hop else ""
    metric = f" metric {step.metric}" if step.metric != seg6.ORDINARY else ""
    (request,) = step.requests(lambda name: 1 + int(name[-1]))
    assert request.what == f"{step.action.name} at {step.sid.address}"
    return f"{step.action.name}{hop} dev {step.interface}{metric}"


class Routers:
    """Routers that know nothing but the commands."""

    def __init__(self, wan: WanGraph) -> None:
        self.at: dict[IPv6Address, tuple[str, str]] = {}
        """The router and the interface of each address."""
        self.routes: dict[str, list[tuple[IPv6Network, int, IPv6Address, str]]] = {name: [] for name in wan.routers}
        self.local: dict[str, dict[str, list[str]]] = {name: {} for name in wan.routers}
        for router in wan.routers:
            sids = [srv6.end_sid(router)]
            for place, leg in enumerate(wan.legs[router]):
                sids += [srv6.end_x_sid(router, place, leg), srv6.end_x_pfc_sid(router, place, leg)]
            for step in wan.setup(router, [*sids, srv6.vpn_sid(router)]):
                if isinstance(step, str):
                    self._take(router, step.split())
                    continue
                assert isinstance(step, srv6.SidRoute) and step.sid in sids
                self.local[router].setdefault(f"{step.sid.address}/128", []).append(_action(step))

    def _take(self, router: str, words: list[str]) -> None:
        match words:
            case ["ip", "-6", "address", "add", given, "dev", interface, "nodad"]:
                address = IPv6Interface(given)
                if address.is_link_local:
                    return
                assert address.ip not in self.at
                self.at[address.ip] = (router, interface)
            case ["ip", "-6", "route", "add", prefix, "via", hop, "dev", interface, *metric]:
                number = int(metric[1]) if metric else 1024
                route = (IPv6Network(prefix, strict=True), number, IPv6Address(hop), interface)
                assert route[:2] not in [other[:2] for other in self.routes[router]], "the kernel would refuse it"
                self.routes[router].append(route)
            case ["ip", "-6", "rule", "add", "to", _, "lookup", "main", "priority", "999"]:
                pass
            case ["ip", "sr", "tunsrc", "set", address]:
                assert self.at[IPv6Address(address)] == (router, "lo")
            case ["tc", *_]:  # in test_lab_filters
                pass
            case ["sysctl", "-qw", *_]:
                pass
            case _:
                raise AssertionError(f"{words}: nothing to do with it")

    def path(self, router: str, goal: IPv6Address, down: Sequence[str] = ()) -> list[str]:
        """Return the path of a packet. Interfaces in `down` have no carrier, and routes by them are not used."""
        found = [router]
        while not self._is_at(found[-1], goal):
            routes = [one for one in self.routes[found[-1]] if goal in one[0] and one[3] not in down]
            _, _, hop, interface = max(routes, key=lambda one: (one[0].prefixlen, -one[1]))
            next_router, _ = self.at[hop]
            mine = next(address for address, place in self.at.items() if place == (found[-1], interface))
            assert int(mine) ^ int(hop) == 3, "the next hop is the other end of the interface's cable"
            found.append(next_router)
            assert len(found) <= len(self.routes), "a loop"
        return found

    def _is_at(self, router: str, goal: IPv6Address) -> bool:
        on_link = [IPv6Network((address, 64), strict=False) for address, at in self.at.items() if at[0] == router]
        return goal in srv6.locator(srv6.router_number(router)) or any(goal in network for network in on_link)


@pytest.mark.slow
@given(_wans())
def test_by_the_commands_alone_every_address_is_reached_by_the_shortest_way(spans: list[Span]) -> None:
    wan = graph(spans)
    routers = Routers(wan)
    for router in wan.routers:
        for other in wan.routers:
            for goal in (srv6.end_sid(other).address, srv6.source_address(srv6.router_number(other))):
                assert routers.path(router, goal) == wan.path(router, other)
        for cable in range(1, len(spans) + 1):
            for end in (1, 2):
                address = srv6.link_address(cable, end)
                nearest = routers.path(router, address)[-1]
                assert nearest in spans[cable - 1][:2]


@pytest.mark.slow
@given(_wans())
def test_by_the_commands_alone_a_router_whose_link_failed_takes_the_next_way(spans: list[Span]) -> None:
    wan = graph(spans)
    routers = Routers(wan)
    for router in wan.routers:
        for other in wan.routers:
            ways = wan.ways(router, other) if router != other else []
            if len(ways) > 1:
                path = routers.path(router, srv6.end_sid(other).address, [ways[0].interface])
                assert path == [router, *wan.path(ways[1].neighbour, other)]


def test_sids_without_a_vpn_are_put_behind_their_behaviours() -> None:
    assert Routers(graph([("r1", "r2", 1)])).local["r1"] == {
        "fd00:5:1:1::/128": ["End dev r1-eth0"],
        "fd00:5:1:20::/128": ["End.X nh6 fd00:c:1::2 dev r1-eth0"],
        "fd00:5:1:10::/128": ["End.X nh6 fd00:c:1::2 dev r1-eth0"],
    }


def test_an_end_sid_is_there_as_long_as_any_cable_is() -> None:
    local = Routers(graph([("r1", "r2", 1), ("r1", "r3", 1), ("r1", "r2", 2)])).local["r1"]
    assert local["fd00:5:1:1::/128"] == [
        "End dev r1-eth0",
        "End dev r1-eth1 metric 1025",
        "End dev r1-eth2 metric 1026",
    ]


def test_a_site_without_a_controller_is_a_vrf_with_a_route_into_the_tunnel() -> None:
    site = srv6.Site("red", 100, "r1-eth0", srv6.vpn_sid("r1"))
    segments = [IPv6Address("fd00:5:1:10::"), IPv6Address("fd00:5:3:d4::")]
    kernel = Kernel({"r1-eth0": 1, "r1-eth1": 2})
    for step in (site, site.route("10.2.0.0/16", segments, "r1-eth1")):
        kernel.send(step.requests(kernel.interfaces.__getitem__))
    assert kernel.state() == {
        "red": {"members": {1}, "routes": {"10.2.0.0/16": Encap(tuple(segments), 2)}, "last": set()},
        "fd00:5:1:d4::": ("End.DT4", "red"),
    }


def test_equally_short_ways_are_one_route_if_the_routers_are_to_choose() -> None:
    square = graph(
        [("r1", "r2", 1), ("r2", "r4", 1), ("r1", "r3", 1), ("r3", "r4", 1), ("r1", "r5", 2), ("r5", "r4", 3)]
    )
    to_r4 = [str(one) for one in square.setup("r1", [], Ways()) if " fd00:5:4::/48 " in str(one)]
    assert to_r4 == [
        "ip -6 route add fd00:5:4::/48 nexthop via fd00:c:1::2 dev r1-eth0 nexthop via fd00:c:3::2 dev r1-eth1",
        "ip -6 route add fd00:5:4::/48 via fd00:c:5::2 dev r1-eth2 metric 2050",
    ]
    as_before = [str(one) for one in square.setup("r1", []) if " fd00:5:4::/48 " in str(one)]
    assert len(as_before) == 3 and not any("nexthop" in one for one in as_before)
    assert square.setup("r1", [], Ways("host number")) == square.setup("r1", [])
