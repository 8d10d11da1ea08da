"""A flow's way as the reference explains it is the way that its frames take, in each network and for each rule."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from testbed.net.build.flow_path import FlowNames, in_topology
from topologies.routed_leaf_spine import RoutedLeafSpine
from xoff import Clos, Dragonfly, FatTree, Flow, LeafSpine, LosslessTopo, Network, Run, Ways, experiment, network

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
