"""The fat tree of routers: its counts, its addresses, and the ASes of its levels."""

from __future__ import annotations

from collections import Counter
from ipaddress import ip_interface

import pytest

from testbed.net.build.topo import TopoError
from testbed.subjects.routing.frr import Frr
from testbed.subjects.routing.protocols import Bgp
from topologies.routed_fat_tree import RoutedFatTree


@pytest.mark.parametrize(("k", "hosts", "routers", "links"), [(2, 2, 5, 6), (4, 16, 20, 48), (6, 54, 45, 162)])
def test_counts_and_addresses(k: int, hosts: int, routers: int, links: int) -> None:
    topo = RoutedFatTree(k)
    names = [name for name in topo.nodes() if not name.startswith("h")]
    assert (len(topo.nodes()) - len(names), len(names), len(topo.links())) == (hosts, routers, links)
    ends = Counter(node for link in topo.links() for node in link)
    assert {ends[name] for name in names} == {k}
    cables = [info for *_, info in topo.links(withInfo=True) if "params1" in info]
    networks = Counter(ip_interface(info[side]["ip"]).network for info in cables for side in ("params1", "params2"))
    assert set(networks.values()) == {2} and len(networks) == links - hosts


def test_each_router_has_equal_routes_over_all_that_are_above() -> None:
    topo = RoutedFatTree(4, 1)
    routes = topo.nodeInfo("edge1")["routes"]
    assert {network: len(neighbours) for network, neighbours in routes.items()} == {
        f"10.{edge}.1.0/30": 2 for edge in range(2, 9)
    }


def test_cores_share_an_as_and_so_do_aggregation_routers_of_a_pod() -> None:
    topo = RoutedFatTree(4, routing=Frr(Bgp()))
    asns: dict[str, set[int | None]] = {}
    for name in topo.nodes():
        software = topo.nodeInfo(name).get("routing")
        if software is not None:
            level = name.rstrip("0123456789")
            asns.setdefault(level, set()).add(software.protocols[Bgp].asn)
    assert asns == {"core": {65_000}, "agg": {65_100, 65_101, 65_102, 65_103}, "edge": {None}}
    assert not any("params1" in info and "ip" in info["params1"] for *_, info in topo.links(withInfo=True))


@pytest.mark.parametrize(("k", "hosts"), [(3, 0), (0, 0), (12, 0), (4, -1)])
def test_sizes_that_are_none_are_refused(k: int, hosts: int) -> None:
    with pytest.raises(TopoError):
        RoutedFatTree(k, hosts)
