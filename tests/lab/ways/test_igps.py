"""OSPF, IS-IS and BGP by FRR: when routes are there, what a failed cable costs, and whether all equal ways are used."""

from __future__ import annotations

import time
from typing import Any

from testbed.lab import Run, experiment

MARKS = {"test_a_fat_tree_of_bgp_uses_all_its_cables": [("long",)]}
LASTS, INTERVAL_NS = "3s", 1_000_000
"""How long the flow sends, and the time between two of its frames, 250 octets on the wire."""
MOVED_MS = {"Ospf": (10, 12), "Isis": (109, 112)}
"""When r1 has the other way. FRR's IS-IS makes its link state packet after 100 ms, and computes ways at once then; if
it did so in this whole second of its clock already, a second later."""


def _ring(routing: Any) -> Any:
    """Three routers, of which each joins the others; h1 and h2 are at r1 and r2, and the way by r3 costs more."""
    from xoff import LosslessTopo

    class Three(LosslessTopo):
        def build(self) -> None:
            for number in (1, 2, 3):
                self.addRouter(f"r{number}", ip=None)
            for number in (1, 2):
                host = self.addHost(f"h{number}", ip=f"10.{number}.0.2/30", defaultRoute=f"via 10.{number}.0.1")
                self.addLink(host, f"r{number}", params2={"ip": f"10.{number}.0.1/30"})
            for place, (one, other, cost) in enumerate((("r1", "r2", 1), ("r1", "r3", 2), ("r3", "r2", 2))):
                ends: dict[str, Any] = {f"params{end}": {"ip": f"10.9.{place}.{end}/30"} for end in (1, 2)}
                self.addLink(one, other, cost=cost, **ends)

    return Three(routing=routing, scale=1, rate="100Mb/s", delay="1us")


def _ways(net: Any, prefix: str) -> list[str]:
    """Return the ports of r1's ways to a network."""
    return sorted(net.routing.routes("r1").get(prefix, ()))


@experiment(debs=["frr"], timeout="120s", free_cpu=True)
def test_igps_take_the_other_way(run: Run) -> None:
    from xoff import Flow, Frr, Isis, Ospf, flowing, network

    for protocol in (Ospf(), Isis()):
        name = type(protocol).__name__
        with network(_ring(Frr(protocol)), case=name) as net:
            net.converged("60s")
            run.claim(f"{name}: r1's way", _ways(net, "10.2.0.0/30"), equals=["r1-eth1"])
            flow = Flow("h1", "h2", rate="2Mb/s", frame="226B", duration=LASTS)
            with flowing(flow) as flows:
                time.sleep(2.5 - time.monotonic() % 1)  # so that ways were last computed in another second
                pulled_ns = time.monotonic_ns()
                net.fabric.cabling.pull("r1-eth1")
                last = net.converged("30s", since_ns=pulled_ns)
                flows.wait()
            run.claim(f"{name}: r1's other way", _ways(net, "10.2.0.0/30"), equals=["r1-eth2"])
            changes = [
                one for one in net.routing.changes("r1") if one.lab_ns >= pulled_ns and one.ports == ("r1-eth2",)
            ]
            moved_ns = next(one.lab_ns for one in changes if one.route == "10.2.0.0/30") - pulled_ns
            run.figure(f"{name}: until the last route, in ns", last.ns)
            run.figure(f"{name}: until r1 has moved, in ns", moved_ns)
            run.claim(f"{name}: in whole ms", moved_ns // 10**6, at_least=MOVED_MS[name][0], at_most=MOVED_MS[name][1])
            lost = flows.lost - moved_ns // INTERVAL_NS
            run.claim(f"{name}: lost beyond those of that time", lost, at_least=-1, at_most=1)


@experiment(debs=["frr"], timeout="240s", free_cpu=True)
def test_a_fat_tree_of_bgp_uses_all_its_cables(run: Run) -> None:
    from xoff import Bgp, Flow, Frr, RoutedFatTree, flowing, network

    with network(RoutedFatTree(4, 1, routing=Frr(Bgp()), scale=1, rate="100Mb/s", delay="1us")) as net:
        run.figure("until all routes are there", net.converged("60s"))
        ways = {route: len(ports) for route, ports in net.routing.routes("edge1").items()}
        run.claim("equal ways of edge1", ways, equals={f"10.{edge}.1.0/30": 2 for edge in range(2, 9)})
        ports = [port.name for port in net.fabric.ports.values() if port.node.name.startswith("core")]
        before = {port: sum(net.fabric.sent(port).sent_frames) for port in ports}
        flows = [
            Flow(f"h{edge}", f"h{(edge + 1 + 2 * turn) % 8 + 1}", rate="1Mb/s", frame="226B", count=4, source_port=port)
            for edge in range(1, 9)
            for turn in range(3)
            for port in range(50_000, 50_006)
        ]
        with flowing(*flows) as found:
            found.wait()
        run.claim("lost", found.lost, equals=0)
        used = sum(sum(net.fabric.sent(port).sent_frames) > before[port] + 3 for port in ports)
        run.claim("ports of cores that sent frames of flows", (len(ports), used), equals=(16, 16))


def _reflected(edges: tuple[str, ...], router: str) -> str:
    """Return FRR's configuration of a router of AS 65000, in which r2 reflects the routes of the edges."""
    number = int(router[1:])
    own = [f"  network 10.5{number}.0.0/30"] if router in edges else []
    peers = [int(edge[1:]) for edge in edges] if router not in edges else [2]
    lines = ["router bgp 65000", f" bgp router-id 10.0.0.{number}", " no bgp default ipv4-unicast"]
    inside = []
    for peer in peers:
        name = f" neighbor fd00:6:{peer}::1"
        lines += [f"{name} remote-as 65000", f"{name} update-source fd00:6:{number}::1", f"{name} timers connect 1"]
        lines.append(f"{name} capability extended-nexthop")
        inside += [f" {name} activate", *([] if router in edges else [f" {name} route-reflector-client"])]
    return "\n".join([*lines, " address-family ipv4 unicast", *own, *inside, " exit-address-family", "exit", ""])


@experiment(debs=["frr"], timeout="120s", free_cpu=True)
def test_the_controller_works_beside_a_route_reflector(run: Run) -> None:
    """Hosts c1 and d1 reach each other by BGP, while a1 sends to b1 by the controller's policy, with back-pressure."""
    from experiments.wan._overload import overload
    from xoff import Frr, Size, SrController, Srv6Wan, network, ping

    class Beside(Srv6Wan):
        def build(self, controller: SrController, **options: Any) -> None:  # type: ignore[override]
            super().build(controller=controller, **options)
            for edge, host in zip(self.edges, ("c1", "d1"), strict=True):
                prefix = f"10.5{edge[1:]}.0"
                self.addHost(host, ip=f"{prefix}.2/30", defaultRoute=f"via {prefix}.1")
                self.addLink(host, edge, params2={"ip": f"{prefix}.1/30"})
            for router in self.graph.routers:
                self.nodeInfo(router)["routing"] = Frr(config=_reflected(self.edges, router))

    with SrController() as controller:
        topo = Beside(wan="10km", controller=controller)
        with network(topo) as net:
            controller.request(*topo.intents())
            controller.wait(controller.settled, "every policy and tunnel is installed")
            controller.wait(lambda: "10.53.0.0/30" in net.routing.routes("r1"), "BGP has told r1 of d1")
            run.claim("r1's way to d1", _ways(net, "10.53.0.0/30"), equals=["r1-eth1"])
            with overload(net, 3, Size("1300B")) as flows:
                with run.measuring():
                    net.sleep("2ms")
                run.claim("round trip beside it, by BGP's routes", ping(net["c1"], net["d1"]).ns, at_least=1)
                flows.stop_sending()
            kinds = [event.kind for event in net.fabric.events()]
            run.claim("XOFF sent into the tunnel", kinds.count("tunnel_xoff"), at_least=1)
            run.claim("XOFF received from it", kinds.count("tunnel_received"), at_least=1)
            run.claim("dropped", net.fabric.dropped(), equals=0)
            run.claim("lost", [report.lost for report in flows.reports], equals=[0, 0])
