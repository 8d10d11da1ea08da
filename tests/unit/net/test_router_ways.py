"""Equal routes of routers: what comes of a topology, and the commands for Linux."""

from __future__ import annotations

from typing import Any

import pytest

from testbed.errors import UsageError
from testbed.net.build import router_ways
from testbed.net.build.topo import LosslessTopo, TopoError
from testbed.switch.ways.settings import Ways
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
