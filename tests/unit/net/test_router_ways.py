"""Equal routes of routers: what comes of a topology, and the commands for Linux."""

from __future__ import annotations

from typing import Any

import pytest

from testbed.errors import UsageError
from testbed.net.build import router_ways
from testbed.net.build.topo import LosslessTopo, TopoError
from testbed.subjects.routing.frr import Frr
from testbed.subjects.routing.protocols import Bgp
from testbed.switch.ways.settings import Ways
from topologies.routed_fat_tree import RoutedFatTree
from topologies.routed_leaf_spine import RoutedLeafSpine


def test_a_leaf_reaches_the_networks_of_others_by_all_spines_and_a_spine_by_the_leaf() -> None:
    routes = router_ways.routes_of(RoutedLeafSpine(3, 2, 2))
    assert routes["leaf1"] == {
        f"10.{leaf}.{place}.0/30": ["10.101.1.2", "10.101.2.2"] for leaf in (2, 3) for place in (1, 2)
    }
    assert routes["spine2"] == {
        f"10.{leaf}.{place}.0/30": [f"10.{100 + leaf}.2.1"] for leaf in (1, 2, 3) for place in (1, 2)
    }


class Square(LosslessTopo):
    """Four routers in a square, a host at opposite corners, over IPv6 in one half."""

    def build(self, cost: int = 1) -> None:
        for number in range(1, 5):
            self.addRouter(f"r{number}", ip=None, routes={"192.0.2.0/24": "10.0.0.9"} if number == 1 else {})
        for number, (one, other) in enumerate((("r1", "r2"), ("r2", "r4"), ("r1", "r3"), ("r3", "r4"))):
            ends = ({"ip": f"10.0.{number}.{end}/30"} for end in (1, 2))
            self.addLink(one, other, cost=cost if number == 0 else 1, params1=next(ends), params2=next(ends))
        for number, router in ((1, "r1"), (2, "r4")):
            self.addLink(self.addHost(f"h{number}"), router, params2={"ip": f"fd00::{number}:1/112"})
        self.addRoutes()


def test_costs_decide_and_given_routes_stay() -> None:
    equal = Square().nodeInfo("r1")["routes"]
    assert equal == {"192.0.2.0/24": "10.0.0.9", "fd00::2:0/112": ["10.0.0.2", "10.0.2.2"]}
    assert Square(cost=2).nodeInfo("r1")["routes"]["fd00::2:0/112"] == ["10.0.2.2"]
    assert Square(cost=2).nodeInfo("r4")["routes"] == {"fd00::1:0/112": ["10.0.3.1"]}


def test_commands_name_neighbours_weights_fields_and_seed() -> None:
    settings = Ways(weights={"spine2": 3}, fields=("source", "destination port", "flow label"))
    names = {"10.0.0.1": "spine1", "10.0.0.2": "spine2"}
    assert router_ways.route_command("10.2.0.0/16", list(names), settings, names) == (
        "ip route replace 10.2.0.0/16 nexthop via 10.0.0.1 weight 1 nexthop via 10.0.0.2 weight 3"
    )
    assert router_ways.route_command("fd00::/64", ["fd01::1"]) == "ip -6 route replace fd00::/64 via fd01::1"
    assert router_ways.route_command("10.2.0.0/16", "10.0.0.1") == "ip route replace 10.2.0.0/16 via 10.0.0.1"
    commands = router_ways.settings_of_kernel(settings, 7, lambda: True)
    assert "sysctl -qw net.ipv6.fib_multipath_hash_fields=41" in commands
    assert "sysctl -qw net.ipv4.fib_multipath_hash_policy=3" in commands
    assert commands[-1] == "sysctl -qw net.ipv4.fib_multipath_hash_seed=7"
    assert not any("seed" in one for one in router_ways.settings_of_kernel(settings, 7, lambda: False))
    inner = router_ways.settings_of_kernel(Ways(fields=("source", "inner")), 0, lambda: True)
    assert "sysctl -qw net.ipv4.fib_multipath_hash_fields=64" in inner
    assert inner[-1].endswith("=1"), "0 would have the kernel draw one"


def test_routers_hash_whatever_the_switches_of_the_topology_do() -> None:
    several, one = {"10.2.0.0/16": ["10.0.0.1", "10.0.0.2"]}, {"10.2.0.0/16": ["10.0.0.1"], "10.3.0.0/16": "10.0.0.1"}
    assert router_ways.in_force({"ways": Ways("spray", seed=3), "routes": several}) == Ways(seed=3)
    assert router_ways.in_force({"routes": several}) == Ways()
    assert router_ways.in_force({"ways": Ways(), "routes": one}) is None
    assert router_ways.in_force({"ways": Ways(fields=("source", "queue pair")), "routes": several}) == Ways()
    command = "ip -6 route add fd00::/16 nexthop via fd01::1 dev r1-eth0 nexthop via fd02::1 dev r1-eth1"
    assert router_ways.in_force({"ways": Ways(seed=2), "commands": [command]}) == Ways(seed=2)
    assert router_ways.in_force({"ways": Ways(seed=2), "commands": ["ip -6 route add fd00::/16 via fd01::1"]}) is None


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda topo: topo.addRouter("r9", ways="spray"), r"addRouter\(r9\): ways: by='spray' is not among them"),
        (lambda topo: topo.addRouter("r9", ways="resilient"), r"Linux hashes each flow \('hash'\)"),
        (lambda topo: topo.addRouter("r9", ways=Ways(fields="queue pair")), "Linux does not hash the queue pair"),
    ],
)
def test_what_linux_cannot_do_is_refused_at_a_router(make: Any, message: str) -> None:
    with pytest.raises(TopoError, match=message):
        make(RoutedLeafSpine())


def test_a_route_without_neighbours_is_refused() -> None:
    with pytest.raises(UsageError, match=r"the route to 10.2.0.0/16 has no neighbour"):
        router_ways.route_command("10.2.0.0/16", [])


@pytest.mark.parametrize(
    ("sizes", "message"), [((100,), "leaves is 100; 99 is the most"), ((2, 2, 300), "hosts is 300; 254 is the most")]
)
def test_a_fabric_with_more_networks_than_addresses_is_refused(sizes: tuple[int, ...], message: str) -> None:
    with pytest.raises(TopoError, match=message):
        RoutedLeafSpine(*sizes)


class FakeRouter:
    """What the check of polarisation asks a router that runs."""

    forwards, bridges = True, False

    def __init__(self, name: str, routes: dict[str, Any], ways: Ways | None, far: dict[str, str]) -> None:
        self.name, self.params, self.far = name, {"routes": routes, "ways": ways}, far

    @property
    def intfs(self) -> dict[int, Any]:
        return {place: FakeEnd(self, name, address) for place, (address, name) in enumerate(self.far.items())}


class FakeEnd:
    """One end of a cable, with the cable; the other end has an address."""

    def __init__(self, router: FakeRouter, far: str, address: str) -> None:
        self.node, self.link = router, self
        self.intf1, self.intf2 = (
            self,
            type("FakeFarEnd", (), {"node": type("FakeNode", (), {"name": far, "forwards": far[0] != "h"})})(),
        )
        self.intf2.IP = lambda: address


def two_tiers(ways: Ways | None, top: Ways | None = None) -> list[FakeRouter]:
    """Return an edge router with two ways to two others, which have two ways on to one network each."""
    network = "10.9.0.0/24"
    edge = FakeRouter("edge", {network: ["10.0.1.2", "10.0.2.2"]}, ways, {
        "10.0.1.2": "agg1", "10.0.2.2": "agg2", "10.1.0.1": "h1",
    })  # fmt: skip
    aggs = [
        FakeRouter(f"agg{number}", {network: [f"10.{number}.1.2", f"10.{number}.2.2"]}, top or ways, {
            f"10.{number}.1.2": "core1", f"10.{number}.2.2": "core2", f"10.0.{number}.1": "edge",
        })
        for number in (1, 2)
    ]  # fmt: skip
    return [edge, *aggs]


@pytest.mark.parametrize(
    ("ways", "top", "has_seed", "warning"),
    [
        (Ways(seed=7), None, True, "agg1 and 1 other hash the same fields with the same seed as a switch before, edge"),
        (Ways(seed=7, weights={"agg1": 3}), Ways(seed=7), True, "agg2 hashes the same fields"),
        (Ways(), None, True, ""),
        (Ways(seed=7), Ways(seed=8), True, ""),
        (Ways(seed=7), Ways(seed=7, fields=("source", "destination")), True, ""),
        (None, None, False, "with --engine um: this kernel has one seed for all routers"),
    ],
)  # fmt: skip
def test_routers_of_two_tiers_with_one_seed_are_polarised(
    ways: Ways | None, top: Ways | None, has_seed: bool, warning: str, capsys: pytest.CaptureFixture[str]
) -> None:
    router_ways.warn_of_polarisation(two_tiers(ways, top), 1, lambda: has_seed)
    said = " ".join(capsys.readouterr().err.split())
    assert warning in said if warning else not said


def test_a_fabric_of_routers_with_one_tier_of_choices_is_not() -> None:
    router_ways.warn_of_polarisation([FakeRouter("r1", {"10.9.0.0/24": "10.0.0.1"}, None, {"10.0.0.1": "r2"})], 1)


@pytest.mark.parametrize(("prefix", "first"), [(True, "fd00:0"), ("2001:db8::/32", "2001:db8")])
def test_a_routed_fabric_has_routes_of_both_versions_by_the_same_neighbours(prefix: bool | str, first: str) -> None:
    topo = RoutedLeafSpine(3, 2, 2, ipv6=prefix)
    routes = router_ways.routes_of(topo)["leaf1"]
    assert routes["10.2.1.0/30"] == ["10.101.1.2", "10.101.2.2"]
    assert routes[f"{first}:2:1::/64"] == [f"{first}:65:1::2", f"{first}:65:2::2"]
    host = topo.nodeInfo("h3")
    assert str(host["ipv6"]) == f"{first}:2:1::2/64"
    assert (host["defaultRoute"], host["defaultRoute6"]) == ("via 10.2.1.1", f"via {first}:2:1::1")
    assert not any(":" in network for network in router_ways.routes_of(RoutedLeafSpine(3, 2, 2))["leaf1"])


def test_a_prefix_without_room_for_networks_and_daemons_beside_ipv6_are_refused() -> None:
    with pytest.raises(TopoError, match=r"ipv6='2001:db8::/64' is one network, and here each host has one of its own"):
        RoutedFatTree(4, ipv6="2001:db8::/64")
    with pytest.raises(TopoError, match="ipv6 and routing are both given, and the daemons find routes of IPv4 alone"):
        RoutedFatTree(4, ipv6=True, routing=Frr(Bgp()))
