"""A flow's way as the reference explains it is the way that its frames take, in each network and for each rule."""

from __future__ import annotations

from collections.abc import Mapping
from socket import AF_INET6, SOCK_DGRAM, socket
from typing import Any

from testbed.linux.process.kernel import in_network_of
from testbed.net.build.flow_path import FlowNames, in_topology
from testbed.subjects.srv6.lab import routers as srv6
from testbed.switch.ways.settings import ways_of
from topologies.routed_leaf_spine import RoutedLeafSpine
from xoff import (
    Clos,
    Dragonfly,
    Duration,
    FatTree,
    Flow,
    LeafSpine,
    LosslessTopo,
    Network,
    Port,
    Run,
    Ways,
    experiment,
    network,
)  # fmt: skip

_FRAMES = 20
_FLOWS = (("h1", "h9", 40_000), ("h1", "h9", 40_001), ("h3", "h10", 50_000), ("h8", "h1", 40_000))


def _sent(net: Network) -> Mapping[str, int]:
    return {port: int(sum(net.fabric.sent(port).sent_frames)) for port in net.fabric.names()}


def _used(net: Network, source: str, target: str, **options: Any) -> list[str]:
    before = _sent(net)
    flows = net.run(Flow(source, target, **options))
    assert not flows.lost
    return sorted(port for port, frames in _sent(net).items() if frames - before[port] >= _FRAMES)


@experiment(timeout="60s")
def test_frames_take_the_way_that_is_explained(run: Run) -> None:
    """Send some flows over each fabric, and compare the ports that their frames pass with the explanation."""
    fabrics: dict[str, LosslessTopo] = {
        "a fat tree": FatTree(4),
        "by number": FatTree(4, ways="host number"),
        "resilient and weighted": Clos(ways=Ways("resilient", seed=9, buckets=20, weights={"agg1": 3, "core4": 2})),
        "by MAC addresses": Dragonfly(3, 4, 1, ways=Ways(fields=("source MAC", "destination MAC"))),
    }
    for case, topo in fabrics.items():
        with network(topo, case=case) as net:
            found, wanted, in_advance = [], [], []
            for source, target, port in _FLOWS:
                flow = {"transport": "udp", "source_port": port}
                wanted.append(sorted(net.path(source, target, **flow).ports))
                in_advance.append(sorted(in_topology(topo, source, target, FlowNames("udp", port), run.seed)[0].ports))
                found.append(_used(net, source, target, count=_FRAMES, source_port=port))
                net.sleep("20us")
            run.claim(f"{case}: ports that frames pass", found, equals=wanted)
            run.claim(f"{case}: ways without a network", in_advance, equals=wanted)


@experiment(timeout="60s")
def test_flows_that_run_together_take_the_ways_of_their_numbers(run: Run) -> None:
    """Send four flows from one port at once: the second is not where the first would be."""
    with network(LeafSpine(2, 4, 1, ways=Ways(seed=5))) as net:
        flow = {"transport": "udp", "source_port": 40_000}
        wanted = [net.path("h1", "h2", **flow, number=number).nodes[1:-1] for number in range(4)]
        flows = net.run(*(Flow("h1", "h2", count=_FRAMES, source_port=40_000) for _ in range(4)))
        run.claim("ways in the log", [one["ways"].split() for one in flows.log], equals=wanted)
        run.claim("not all are the first one's", wanted != [wanted[0]] * 4, equals=True)


@experiment(timeout="60s")
def test_a_roce_flow_takes_the_way_of_the_first_queue_pair(run: Run) -> None:
    """Compare the way of a flow whose ports nobody has given."""
    with network(LeafSpine(2, 4, 2, ways=Ways(fields=("source port", "queue pair")))) as net:
        path = net.path("h1", "h3")
        used = _used(net, "h1", "h3", transport="roce", size="40kB")
        run.claim("ports that packets pass", [port for port in used if port in path.ports], equals=sorted(path.ports))
        run.claim("the uplink", [port for port in used if port.startswith("leaf1-")], equals=[path.ports[1]])


@experiment(timeout="60s")
def test_a_way_that_is_lost_is_left_out(run: Run) -> None:
    """Pull the cable of a flow's way: the explanation names another one, which the frames take."""
    with network(LeafSpine(2, 4, 1, delay="1us", ways=Ways(gone_after="20us"))) as net:
        flow = {"transport": "udp", "source_port": 40_000}
        chosen = net.path("h1", "h2", **flow).hops[0].chosen
        assert chosen is not None
        net.fabric.cabling.pull(chosen.port)
        net.sleep("100us")
        path = net.path("h1", "h2", **flow)
        run.claim(
            "says what is lost", f"{chosen.port} to {chosen.neighbour}, lost: no carrier" in str(path), equals=True
        )
        run.claim("another way", path.ports[1] != chosen.port, equals=True)
        used = _used(net, "h1", "h2", count=_FRAMES, source_port=40_000)
        run.claim("ports that frames pass", used, equals=sorted(path.ports))


@experiment(timeout="60s")
def test_routers_choose_among_equal_routes_as_the_kernel_says(run: Run) -> None:
    """Send flows through a fabric of routers, pull a cable, and compare the ports with the explanation each time."""
    topo = RoutedLeafSpine(2, 4, 1, delay="1us", ways=Ways(seed=5, weights={"spine2": 2}))
    with network(topo) as net:
        net.run(Flow("h1", "h2", count=1), Flow("h2", "h1", count=1))  # so that all know each other's MAC addresses
        lost: list[str] = []
        for case in ("all cables", "without one"):
            found, wanted = [], []
            for port in (40_000, 40_001, 40_002):
                path = net.path("h1", "h2", transport="udp", source_port=port)
                wanted.append(sorted(path.ports))
                found.append(_used(net, "h1", "h2", count=_FRAMES, source_port=port))
            run.claim(f"{case}: ports that frames pass", found, equals=wanted)
            run.claim(f"{case}: weights", [way.weight for way in path.hops[0].ways], equals=[1, 2, 1, 1])
            gone = [way.port for way in path.hops[0].ways if not way.is_there]
            run.claim(f"{case}: lost ways", gone, equals=lost)
            used = {port for ports in found for port in ports}
            run.claim(f"{case}: lost ways that frames pass", sorted(used & set(lost)), equals=[])
            lost = [port for port in found[0] if port in [way.port for way in path.hops[0].ways]]
            net.fabric.cabling.pull(lost[0])
            net.sleep("100us")
        run.claim("in words", "what Linux's hash chooses among 4 equal routes" in str(path), equals=True)


class _Routed(LosslessTopo):
    """Two hosts at a router."""

    def build(self) -> None:
        self.addRouter("r1", ip=None)
        for number in (1, 2):
            self.addHost(f"h{number}", ip=f"10.{number}.0.1/24", defaultRoute=f"via 10.{number}.0.254")
            self.addLink(f"h{number}", "r1", params2={"ip": f"10.{number}.0.254/24"})


@experiment(timeout="60s")
def test_frames_that_a_router_has_no_route_for_are_counted(run: Run) -> None:
    """Remove a route under a flow. And a program of a node may be a line for a shell, as in Mininet."""
    with network(_Routed()) as net:
        said, _ = net["r1"].popen("ip route del 10.2.0.0/24; echo $?", shell=True).communicate()
        run.claim("what a shell says", said.decode().strip(), equals="0")
        flows = net.run(Flow("h1", "h2", count=_FRAMES))
        run.claim("lost", flows.lost, equals=_FRAMES)
        run.claim("where they are", net.fabric.losses(), equals={"router without a route": _FRAMES})


class _Fork(LosslessTopo):
    """A WAN r1-r2 that goes on to r5 by r3 or r4, which are equally far."""

    def build(self) -> None:
        spans = [("r1", "r2"), ("r2", "r3"), ("r2", "r4"), ("r3", "r5"), ("r4", "r5")]
        graph = srv6.WanGraph([(one, other, Duration("1ms")) for one, other in spans], {})
        for router in graph.routers:
            sids = [srv6.end_sid(router)]
            self.addRouter(router, ip=None, commands=graph.setup(router, sids, ways_of(self.ways)))
        for one, other in spans:
            self.addLink(one, other, delay="1us", settings1=Port().without_pfc(), settings2=Port().without_pfc())


@experiment(timeout="60s")
def test_a_router_of_an_srv6_wan_spreads_what_is_in_tunnels(run: Run) -> None:
    """Send packets of 40 flows through one tunnel: by outer fields all take one way, by inner ones they spread."""
    plain, inner = ("source", "destination", "source port"), ("source", "destination", "source port", "inner")
    for case, fields, least in (("outer", plain, 0), ("inner", inner, 10)):
        with network(_Fork(ways=Ways(fields=fields, seed=3)), case=case) as net:
            r1, sid = net["r1"], srv6.end_sid("r5").address
            r1.cmd(f"ip -6 route add fd00:99::/64 encap seg6 mode encap segs {sid} dev r1-eth0")
            with in_network_of(r1.pid):
                for number in range(40):
                    with socket(AF_INET6, SOCK_DGRAM) as sender:
                        sender.bind(("fd00:6:1::1", 50_000 + number))
                        sender.sendto(b"x" * 50, ("fd00:99::1", 4_791))
            net.sleep("1ms")
            sent = sorted(int(sum(net.fabric.sent(port).sent_frames)) for port in ("r2-eth1", "r2-eth2"))
            run.figure(f"{case}: frames by r3 and r4", sent)
            run.claim(f"{case}: frames on the way with fewer", sent[0], at_least=least)
            run.claim(f"{case}: frames on the other", sent[1], at_least=40 - sent[0])
