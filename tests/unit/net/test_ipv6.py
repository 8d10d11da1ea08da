"""IPv6 addresses of hosts, as topologies describe them."""

from __future__ import annotations

from typing import Any

import pytest

from testbed.errors import UsageError
from testbed.net.build.flow_path import FlowNames, in_topology
from testbed.net.build.options import ipv6_addresses
from testbed.net.build.router_ways import routes_of
from testbed.net.build.topo import LosslessTopo
from topologies.incast import Incast
from topologies.leaf_spine import LeafSpine


class Routed(LosslessTopo):
    """Two hosts at two routers, over either version."""

    def build(self) -> None:
        for number in (1, 2):
            self.addRouter(f"r{number}", ip=None)
            self.addHost(f"h{number}", ip=None, ipv6=f"fd00:{number}::2/64", defaultRoute6=f"via fd00:{number}::1")
            self.addLink(
                f"h{number}", f"r{number}", params2={"ip": f"10.{number}.0.1/24", "ipv6": f"fd00:{number}::1/64"}
            )
        ends = [{"ip": f"10.0.0.{end}/30", "ipv6": f"fd00::{end}/64"} for end in (1, 2)]
        self.addLink("r1", "r2", params1=ends[0], params2=ends[1])


def test_hosts_have_no_address_unless_they_are_asked_to() -> None:
    assert ipv6_addresses(Incast(2)) == {}


@pytest.mark.parametrize(("given", "first"), [(True, "fd00::1/64"), ("2001:db8:7::/48", "2001:db8:7::1/48")])
def test_a_host_has_the_number_of_its_ipv4_address(given: Any, first: str) -> None:
    found = ipv6_addresses(Incast(2, ipv6=given))
    assert str(found["h1"]) == first
    assert [str(address.ip)[-1] for address in found.values()] == ["1", "2", "3"]


def test_a_host_may_have_an_address_of_its_own_or_none() -> None:
    class Own(LosslessTopo):
        def build(self) -> None:
            self.addSwitch("s1")
            for name, options in (("a", {}), ("b", {"ipv6": "fd00::b/64"}), ("c", {"ipv6": None})):
                self.addLink(self.addHost(name, **options), "s1")

    found = ipv6_addresses(Own(ipv6=True))
    assert {name: str(address) for name, address in found.items()} == {"a": "fd00::1/64", "b": "fd00::b/64"}


@pytest.mark.parametrize("given", ["fd00::1", "10.0.0.0/8", "fd00::/200", 6, "fe80::1%h1/64"])
def test_a_network_or_an_address_that_is_none_is_refused_with_its_name(given: Any) -> None:
    with pytest.raises(UsageError, match=r"addHost\(h9\): ipv6 is .*; write True, a network such as"):
        Incast(1).addHost("h9", ipv6=given)
    with pytest.raises(UsageError, match=r"Incast: ipv6 is .*; write True, a network such as"):
        Incast(1, ipv6=given)
    with pytest.raises(UsageError, match=r"Incast: ipv6 is 'fd00::1/64', one address; write True or a network"):
        Incast(1, ipv6="fd00::1/64")


def test_a_network_that_is_too_small_names_the_host() -> None:
    with pytest.raises(UsageError, match="has too few addresses for host 2, h2; take a /64"):
        ipv6_addresses(Incast(2, ipv6="fd00::/127"))


def test_routes_of_routers_are_found_for_both_versions() -> None:
    assert routes_of(Routed())["r1"] == {"10.2.0.0/24": ["10.0.0.2"], "fd00:2::/64": ["fd00::2"]}


def test_a_path_over_ipv6_hashes_ipv6_addresses_and_the_label_of_the_queue_pair() -> None:
    topo = LeafSpine(2, 2, 1, ipv6=True)
    found, _ = in_topology(topo, "h1", "h2", FlowNames(ip_version=6))
    assert (found.fields.source, found.fields.destination, found.fields.flow_label) == ("fd00::1", "fd00::2", 0x10000)
    labelled, _ = in_topology(topo, "h1", "h2", FlowNames(ip_version=6, flow_label=7))
    assert labelled.fields.flow_label == 7
    with pytest.raises(UsageError, match="flow_label is 7, and IPv4 has none"):
        FlowNames(flow_label=7)
    assumed, _ = in_topology(LeafSpine(2, 2, 1), "h1", "h2", FlowNames(ip_version=6))
    assert assumed.ports == found.ports
    with pytest.raises(UsageError, match="ip_version is 5; 4 or 6 is expected"):
        FlowNames(ip_version=5)
