"""Tenants with IPv6 over the SRv6 WAN: all transports, back-pressure, and slices beside a tenant with IPv4."""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import Any

from testbed.lab import Run, experiment
from testbed.net.traffic.flow import Flow
from testbed.net.traffic.flows import Flows
from testbed.net.traffic.roce import Roce
from testbed.net.traffic.tcp import Tcp
from testbed.net.traffic.udp import Udp
from testbed.units import Duration, Size
from xoff import wan_state

CASES = {
    "test_each_transport_reaches_the_other_data_centre": [
        {"vpn": "End.DT46"},
        {"vpn": "End.DT6"},
        {"vpn": "End.DT46", "controlled": True},
    ],
    "test_back_pressure_crosses_the_wan_for_ipv6_as_for_ipv4": [{"back": "planned"}, {"back": "learned"}],
}

LOSSLESS, FRAME = 3, Size("1400B")


@experiment(_in_lab_time=True, timeout="120s")
def test_each_transport_reaches_the_other_data_centre(
    run: Run, vpn: str = "End.DT46", controlled: bool = False
) -> None:
    """Ping, UDP, TCP and RoCE over each version of IP that the VPN carries; TCP's segments are whole ones of hosts."""
    from testbed.net.build.network import network
    from testbed.subjects.srv6.lab.controller import SrController
    from topologies.srv6_wan import Srv6Wan

    with ExitStack() as stack:
        controller = stack.enter_context(SrController()) if controlled else None
        net = stack.enter_context(network(topo := Srv6Wan(wan="1km", vpn=vpn, controller=controller), run))
        if controller is not None:
            controller.request(*topo.intents())
            controller.wait(controller.settled, "every policy and tunnel is installed")
        for version in (4, 6) if vpn == "End.DT46" else (6,):
            to = net["b1"].IP() if version == 4 else "fd01:2::1"
            pinged = net["a1"].cmd(f"ping -c 3 -i 0.1 -W 5 {to}")
            run.claim(f"IPv{version}: pings", pinged.count("bytes from"), equals=3)
            flows = net.run(
                Flow("a1", "b1", LOSSLESS, FRAME, count=100, transport=Udp(ip_version=version)),
                Flow("b2", "a2", size="100kB", transport=Roce(ip_version=version)),
            )
            run.claim(f"IPv{version}: UDP and RoCE", [one.lost for one in flows.reports], equals=[0, 0])
            (tcp,) = net.run(Flow("b1", "a1", size="100kB", transport=Tcp(ip_version=version))).reports
            run.claim(f"IPv{version}: octets of TCP", tcp.received, equals=tcp.sent)
            run.claim(
                f"IPv{version}: whole segments of hosts", tcp.received % (1448 if version == 4 else 1428), equals=0
            )
        for sid in topo._sids("r3"):
            if sid.behaviour.decapsulates:
                shown = net["r3"].cmd(f"ip -6 route show {sid.address}")
                run.claim("the kernel's action", f"action {vpn} " in shown, equals=True)


@experiment(_in_lab_time=True, timeout="200s")
def test_back_pressure_crosses_the_wan_for_ipv6_as_for_ipv4(run: Run, back: str = "planned") -> None:
    """b1 is overloaded from both data centres: with End.X.PFC nothing is lost, and without it both versions lose."""
    from testbed.net.build.network import network
    from topologies.srv6_wan import Srv6Wan

    found: dict[tuple[int, str], dict[str, Any]] = {}
    for version in (4, 6):
        for how in (back, "none"):
            with network(Srv6Wan(wan="10km", back=how, ipv6=True), run, case=f"IPv{version}, {how}") as net:
                found[version, how] = _overloaded(net, version, has_tunnels=how != "none")
        name = f"IPv{version}"
        with_it, without = found[version, back], found[version, "none"]
        run.figure(f"{name}: with End.X.PFC", with_it)
        run.claim(f"{name}: lost", with_it["lost"], equals=0)
        run.claim(f"{name}: dropped", with_it["dropped"], equals=0)
        run.claim(f"{name}: XOFF sent into the tunnel", with_it["tunnel_xoff"], at_least=2)
        run.claim(f"{name}: all of them came", with_it["tunnel_received"], equals=with_it["told"])
        run.claim(f"{name}: r1 paused its data centre", with_it["paused"], at_least=1)
        run.claim(f"{name}: lost without End.X.PFC", without["lost"], at_least=100)
        run.claim(f"{name}: all of that was dropped at r3", without["dropped"], equals=without["lost"])
    pauses = [found[version, back]["tunnel_xoff"] for version in (4, 6)]
    run.claim("XOFFs over IPv6 less those over IPv4", abs(pauses[1] - pauses[0]), at_most=max(2, pauses[0] // 4))


def _overloaded(net: Any, version: int, *, has_tunnels: bool) -> dict[str, Any]:
    fabric = net.fabric
    for source in ("a1", "b2"):
        net[source].cmd(f"ping -c 1 -W 5 {net['b1'].IP() if version == 4 else 'fd01:2::1'}")
    transport = Udp(ip_version=version)
    with Flows([Flow(source, "b1", LOSSLESS, FRAME, transport=transport) for source in ("a1", "b2")]) as flows:
        time.sleep(3)
        flows.stop_sending()
    events = [event.kind for event in fabric.events()]
    told = sum(events.count(kind) for kind in ("tunnel_xoff", "tunnel_xon", "tunnel_refresh"))
    return {
        "lost": sum(one.lost for one in flows.reports),
        "dropped": fabric.dropped(),
        "tunnel_xoff": events.count("tunnel_xoff"),
        "told": told,
        "tunnel_received": events.count("tunnel_received"),
        "paused": fabric.group("r1-eth0", LOSSLESS).xoffs,
        "tunnels": len(wan_state(fabric, "r3")["tunnels"]) if has_tunnels else 0,
    }


@experiment(timeout="60s")
def test_data_centres_round_a_ring_reach_each_other_over_ipv6(run: Run) -> None:
    """UDP from each data centre to the next, and TCP with whole segments of hosts back, clockwise over a third edge."""
    from testbed.net.build.network import network
    from topologies.srv6_ring import Srv6Ring

    with network(Srv6Ring(1, ipv6=True, clockwise=True), run) as net:
        pairs = (("a1", "b1"), ("b1", "c1"), ("c1", "a1"))
        for number, (source, _) in enumerate(pairs):
            net[source].cmd(f"ping -c 1 -W 5 fd01:{(number + 1) % 3 + 1}::1")
        datagrams = [Flow(*ends, LOSSLESS, FRAME, count=100, transport=Udp(ip_version=6)) for ends in pairs]
        run.claim("UDP: lost", net.run(*datagrams).lost, equals=0)
        segments = [Flow(*ends[::-1], size="100kB", transport=Tcp(ip_version=6)) for ends in pairs]
        reports = net.run(*segments).reports
        run.claim("TCP: octets", [one.received for one in reports], equals=[one.sent for one in reports])


@experiment(timeout="60s")
def test_a_way_through_a_tunnel_is_the_one_that_frames_take(run: Run) -> None:
    """Compare the explained way with the ports that frames pass, over both versions and both ways round a WAN."""
    from testbed.net.build.network import network
    from topologies.srv6_wan import Srv6Wan

    with network(Srv6Wan(wan="1km", figure=2, ipv6=True), run) as net:
        for version in (4, 6):
            for source, target in (("a1", "b2"), ("b1", "a2")):
                to = net[target].IP() if version == 4 else net[target].defaultIntf().ipv6.partition("/")[0]
                net[source].cmd(f"ping -c 1 -W 5 {to}")
                before = {port: sum(net.fabric.sent(port).sent_frames) for port in net.fabric.names()}
                flow = Flow(source, target, LOSSLESS, FRAME, count=20, source_port=50_000,
                            transport=Udp(ip_version=version))  # fmt: skip
                lost = net.run(flow).lost
                used = sorted(port for port, frames in before.items()
                              if sum(net.fabric.sent(port).sent_frames) - frames >= 20)  # fmt: skip
                way = net.path(source, target, transport="udp", source_port=50_000, ip_version=version)
                name = f"IPv{version}, {source} to {target}"
                run.claim(f"{name}: lost", lost, equals=0)
                run.claim(f"{name}: ports that frames pass", used, equals=sorted(way.ports))
                run.claim(f"{name}: routers", [one for one in way.nodes if one[0] == "r"],
                          equals=["r1", "r2", "r5"] if source == "a1" else ["r5", "r2", "r1"])  # fmt: skip
                told = str(way)
                run.claim(f"{name}: what is said", ["by fd00:5:" in told, "End.DT46 at" in told], equals=[True, True])


@experiment(_in_lab_time=True, timeout="200s")
def test_a_tenant_with_ipv6_is_not_stopped_by_the_slice_of_one_with_ipv4(run: Run) -> None:
    """Red has IPv4 and is overloaded; blue has IPv6 alone, over the same routers."""
    from testbed.net.build.network import network
    from topologies.srv6_wan import Srv6Wan

    with network(Srv6Wan(2, wan="1km", tenants=2, vpn=("End.DT4", "End.DT6")), run) as net:
        net["c1"].cmd("ping -c 1 -W 5 fd01:4::1")
        for source in ("a1", "b2"):
            net[source].cmd(f"ping -c 1 -W 5 {net['b1'].IP()}")
        lasts = Duration("2s")
        flows = [Flow(source, "b1", LOSSLESS, FRAME, duration=lasts) for source in ("a1", "b2")]
        done = net.run(*flows, Flow("c1", "d1", LOSSLESS, FRAME, rate="2Mb/s", duration=lasts))
        run.claim("IPv6 of blue", [net["c1"].IP(), net["d1"].IP()], equals=[None, None])
        run.claim("lost", [one.lost for one in done.reports], equals=[0, 0, 0])
        stopped = {
            (event.port, event.priorities)
            for event in net.fabric.events()
            if event.kind == "queue_stopped" and event.port == "r1-eth2"
        }
        run.claim("queues that stopped at J", sorted(stopped), equals=[("r1-eth2", (LOSSLESS,))])
